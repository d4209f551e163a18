"""Spark as the engine uses it: an application per topology, tasks pinned to nodes, a job per epoch range."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from pyspark import SparkConf, SparkContext
from pyspark.core.rdd import RDD
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import CPickleSerializer

from domain.execution.footprint import footprint_of
from domain.execution.job import Handover, Job, Layout, TaskReport, decode_report
from domain.messages import SparkApplication
from host.java import ENGINE_JVM, class_archive_options
from host.process_secrets import EXECUTOR
from host.spark_properties import AUTHENTICATE, SECRET
from spark_jobs.driver.beside import JobBeside
from spark_jobs.driver.preparing import Preparing
from spark_jobs.driver.task_runs import TaskRuns
from spark_jobs.driver.warming import Warming
from spark_jobs.driver.watch import JobWatch
from spark_jobs.executor.handover import RECEIVE, SEND, HandoverTask
from spark_jobs.executor.level_context import Message
from spark_jobs.executor.stages import same_slot, token
from spark_jobs.executor.task import REPORT, LevelTask
from spark_jobs.executor.warm_up import STAGES, WarmUp

log = structlog.get_logger()
TAG, REPLAY_TAG, PREPARING_TAG = "epochs", "replay", "preparing"
# A new executor is warm when a job on it takes less than that many seconds, or no longer gets quicker.
ROUNDS, QUICK, STEADY = 6, 0.3, 0.8
WARMING_TAG = "warming"

SETTINGS = {
    # A third of the time of a small Python task (DESIGN, section 3).
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    # Agents start executors, so the master has no reason to give for the end of one: it is not waited for.
    "spark.standalone.executorRemoveDelayOnDisconnection": "1ms",
    # A lost node is found misplaced and reported absent, never waited for, never excluded.
    "spark.task.maxFailures": "16",
    "spark.stage.maxConsecutiveAttempts": "64",
    "spark.excludeOnFailure.enabled": "false",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "200ms",
    "spark.shuffle.io.connectionTimeout": "5s",
    "spark.executor.heartbeatInterval": "2s",
    "spark.network.timeout": "60s",
    # Shuffle files, broadcasts and lineage of past epochs are released when the JVM collects them.
    "spark.cleaner.periodicGC.interval": "60s",
    "spark.cleaner.referenceTracking.blocking.shuffle": "false",
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    # Two files for what a task sends, instead of three and one per slot: making a file costs up to 0.5 ms
    # of CPU where many were removed lately. What is sent waits in memory, up to 64 MB of it.
    "spark.shuffle.checksum.enabled": "false",
    "spark.shuffle.sort.bypassMergeThreshold": "1",
    "spark.shuffle.spill.maxSizeInBytesForSpillThreshold": "64m",
    "spark.rdd.compress": "false",
    # A task that waited longer for its node would run elsewhere, and do nothing there. Lost nodes are not
    # waited for.
    "spark.locality.wait": "10s",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "spark_jobs.executor.preloaded",
    # Executors must be known the moment they register, not at the next event.
    "spark.ui.liveUpdate.period": "0",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.scheduler.listenerbus.eventqueue.capacity": "2000",
}


@dataclass(frozen=True, slots=True)
class Executor:
    """`host` is the address of the node that runs it; the id is never used twice."""

    id: str
    host: str


class Cluster:
    """One Spark application. `nodes` given to its methods are (node id, address) pairs; `host` is the
    address at which executors find the driver."""

    def __init__(
        self, *, topology: str, master: str, secret: str, host: str, executor_memory: str, local_dir: str
    ) -> None:
        """`secret`: what the master authenticates applications with; empty if it does not."""
        conf = SparkConf(loadDefaults=False).setMaster(master).setAppName(f"resurge-{topology}")
        conf.set("spark.executor.memory", executor_memory).set("spark.driver.memory", "512m")
        conf.set("spark.driver.host", host).set("spark.driver.bindAddress", host)
        conf.set("spark.local.dir", local_dir)
        conf.set("spark.driver.extraJavaOptions", " ".join((*ENGINE_JVM, class_archive_options())).strip())
        for name, value in SETTINGS.items():
            conf.set(name, value)
        self.context = _context(conf, secret)
        self.context.setLogLevel("ERROR")
        jvm: Any = self.context._jvm
        self._scala: Any = self.context._jsc.sc()
        self._plain = jvm.org.apache.spark.serializer.JavaSerializer(self._scala.conf())
        self._tokens: RDD[Any] | None = None
        self._addresses: list[str] = []
        # Of those slots where a job has tasks, by the slots.
        self._some_tokens: dict[tuple[int, ...], RDD[Any]] = {}
        self._executor_ids: str | None = None
        self._executors: frozenset[Executor] = frozenset()
        self._given_up: set[str] = set()
        self._warming = Warming(self._warm, lambda: self.context.cancelJobsWithTag(WARMING_TAG))
        self._preparing: Preparing[RDD[Any]] = Preparing(
            self._prepare, _unpersist, lambda: self.context.cancelJobsWithTag(PREPARING_TAG)
        )
        # Of this thread's jobs; those that warm executors up have another.
        self.context.addJobTag(TAG)
        # A task that waits for messages from a lost executor must not keep its slot until that times out.
        self.context.setInterruptOnCancel(True)
        self._watch = JobWatch(lambda: self.context.cancelJobsWithTag(TAG))
        self._replay: JobBeside[list[TaskReport]] = JobBeside(
            begin=self._begin_beside, cancel=lambda: self.context.cancelJobsWithTag(REPLAY_TAG)
        )
        self._asking = threading.Lock()
        self._runs, self._replay_runs = TaskRuns(self.context), TaskRuns(self.context)
        self._memory = executor_memory

    def application(self) -> SparkApplication:
        """What agents start executors for."""
        return SparkApplication(
            id=self.context.applicationId,
            host=self._scala.conf().get("spark.driver.host"),
            port=int(self._scala.conf().get("spark.driver.port")),
            memory=self._memory,
            pid=os.getpid(),
        )

    def _begin_beside(self) -> None:
        self.context.addJobTag(REPLAY_TAG)
        self.context.setInterruptOnCancel(True)

    def executors(self) -> frozenset[Executor]:
        """Every registered executor that was not given up. Asking is cheap while nothing changed: one call
        for the ids."""
        with self._asking:
            return frozenset(one for one in self._ask() if one.id not in self._given_up)

    def _ask(self) -> frozenset[Executor]:
        ids = self._scala.getExecutorIds().mkString(",")
        if ids != self._executor_ids:
            known = self._scala.statusStore().executorList(True)
            found = [known.apply(index) for index in range(known.size())]
            by_id = {summary.id(): summary.hostPort().rpartition(":")[0] for summary in found}
            wanted = set(ids.split(",")) - {""}
            # The status store follows events and lags behind the scheduler: a host may be missing still.
            self._executors = frozenset(Executor(i, by_id[i]) for i in wanted if by_id.get(i))
            self._executor_ids = ids if len(self._executors) == len(wanted) else None
        return self._executors

    def ready(self, executors: frozenset[Executor]) -> frozenset[Executor]:
        """Those that can work without delay; the others are being prepared from now on."""
        ready = self._warming.ready({(executor.id, executor.host) for executor in executors})
        return frozenset(executor for executor in executors if (executor.id, executor.host) in ready)

    def _warm(self, hosts: list[str]) -> None:
        """A job like those of the epochs, again and again as long as it gets quicker; its stages run on the
        same hosts, one task on each. With a fifth of a core the first takes ten seconds, the fourth one."""
        self.context.addJobTag(WARMING_TAG)
        tokens = self._cached_tokens(hosts)
        rounds: list[float] = []
        try:
            for _ in range(ROUNDS):
                started = time.monotonic()
                self._chained(tokens, [WarmUp(stage) for stage in range(STAGES)]).collect()
                took, before = time.monotonic() - started, rounds[-1] if rounds else float("inf")
                rounds.append(took)
                if took < QUICK or took > STEADY * before:
                    break
            log.info("executors warmed up", hosts=hosts, rounds=[round(one, 1) for one in rounds])
        finally:
            tokens.unpersist()

    def give_up(self, executors: frozenset[Executor]) -> None:
        """Have Spark give these no more work, although it has not missed them yet. Should their node still be
        there, its agent ends them and starts others (`ApplicationReport`)."""
        with self._asking:
            new = sorted(one.id for one in executors if one.id not in self._given_up)
            self._given_up.update(new)
        if new:
            log.warning("executors given up", executors=new)
            # It waits for an answer of Spark's master, which knows none of them.
            threading.Thread(target=self._kill, args=(new,), name="giving-up", daemon=True).start()

    def _kill(self, ids: list[str]) -> None:
        jvm: Any = self.context._jvm
        scala: Any = self.context._jsc.sc()
        adjust_target, count_failures, force = False, False, True
        try:
            names = jvm.org.apache.spark.api.python.PythonUtils.toSeq(ids)
            scala.schedulerBackend().killExecutors(names, adjust_target, count_failures, force)
        except Exception as error:  # no work is planned on them anyway; Spark misses them in its own time
            log.warning("executors not ended", executors=ids, error=str(error).splitlines()[:1])

    def pin(self, addresses: list[str], obsolete: Callable[[], bool]) -> None:
        """Make one cached token per slot, on the host with that address (DESIGN, section 11), unless
        `prepared` has. `obsolete`: as for `run`."""
        self.unpin()
        tokens = self._preparing.take(addresses)
        if tokens is None:
            tokens = self._cached_tokens(addresses)
            with self._watch.over(obsolete):
                tokens.count()
        self._tokens, self._addresses = tokens, list(addresses)

    def pinned(self, addresses: list[str]) -> bool:
        """Whether tasks are pinned to exactly these."""
        return self._tokens is not None and self._addresses == addresses

    def prepared(self, addresses: list[str]) -> bool:
        """Whether `pin` would take no time; if not, tokens are being made beside the jobs from now on."""
        return self._preparing.ready(addresses)

    def _prepare(self, addresses: list[str]) -> RDD[Any]:
        self.context.addJobTag(PREPARING_TAG)
        tokens = self._cached_tokens(addresses)
        try:
            tokens.count()
        except BaseException:
            tokens.unpersist()
            raise
        return tokens

    def unpin(self) -> None:
        for tokens in self._some_tokens.values():
            tokens.unpersist()
        self._some_tokens.clear()
        if self._tokens is not None:
            self._tokens.unpersist()
            self._tokens = None

    def _cached_tokens(self, addresses: list[str]) -> RDD[Any]:
        return self._preferring(addresses).map(token).partitionBy(len(addresses), same_slot).persist()

    def _preferring(self, addresses: list[str]) -> RDD[Any]:
        jvm: Any = self.context._jvm
        entries = jvm.scala.collection.mutable.ArrayBuffer()
        for slot, address in enumerate(addresses):
            hosts = jvm.scala.collection.mutable.ArrayBuffer()
            hosts.append(address)
            # Pickle is Spark's own wire format between this driver and its executors.
            entries.append(jvm.scala.Tuple2(bytearray(pickle.dumps(slot)), hosts.toSeq()))
        tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
        scala: Any = self.context._jsc.sc()
        rdd = jvm.org.apache.spark.api.java.JavaRDD.fromRDD(scala.makeRDD(entries.toSeq(), tag), tag)
        return RDD(rdd, self.context, CPickleSerializer())

    def run(self, layout: Layout, job: Job, obsolete: Callable[[], bool]) -> list[TaskReport]:
        """Run the epochs of `job`; one report per task, also of those that found themselves elsewhere.
        `obsolete`, called in another thread, says that running it to its end is of no use any more: then
        raises `JobCancelledError`. Tasks already running may go on for a while."""
        with self._watch.over(obsolete):
            return self._stages(layout, job, self._runs)()

    def start_replay(
        self, layout: Layout, job: Job, obsolete: Callable[[], bool], *, over: Callable[[], None]
    ) -> None:
        """Run the epochs of `job` beside others, which `run` runs meanwhile; `over` is called, in another
        thread, when `replayed` has the result."""
        self._replay.start(self._stages(layout, job, self._replay_runs), obsolete, over=over)

    @property
    def replaying(self) -> bool:
        """Whether a replay was started whose result was not taken yet. No tasks may be pinned meanwhile."""
        return self._replay.running

    def replayed(self) -> list[TaskReport] | None:
        """Result of the replay, once it is over, as of `run`; None before that."""
        return self._replay.result()

    @property
    def replay_took(self) -> float:
        """Seconds that the last replay ran, however much later its result was taken."""
        return self._replay.took

    def cancel_replay(self) -> None:
        """Have it end soon; `replayed` then raises `JobCancelledError`, unless it ends before."""
        self._replay.cancel()

    def _stages(self, layout: Layout, job: Job, runs: TaskRuns) -> Callable[[], list[TaskReport]]:
        """The job, to be run once. Whether Spark repeats tasks is asked only where it matters: where the
        attempts at an epoch may differ."""
        encoded, footprint = (
            (msgspec.json.encode(layout), msgspec.json.encode(job)),
            footprint_of(layout, job),
        )
        tasks: list[Any] = [LevelTask(level, *encoded, footprint) for level in footprint.levels]
        if not job.attempt:
            level = self._chained(self._tokens_of(footprint.slots), tasks)
            return lambda: _reports(level)
        counted = self._chained(self._tokens_of(footprint.slots), runs.counting(tasks))

        def run() -> list[TaskReport]:
            told = runs.begin(len(tasks) * len(footprint.slots))
            return told(_reports(counted))

        return run

    def _tokens_of(self, slots: tuple[int, ...]) -> RDD[Any]:
        """The tokens of these slots, made once until tasks are pinned anew."""
        assert self._tokens is not None, "pin() first"  # noqa: S101 - a mistake in our own loop
        if len(slots) == self._tokens.getNumPartitions():
            return self._tokens
        if slots not in self._some_tokens:
            self._some_tokens[slots] = self._cached_tokens([self._addresses[slot] for slot in slots])
        return self._some_tokens[slots]

    def hand_over(self, layout: Layout, handover: Handover, obsolete: Callable[[], bool]) -> list[TaskReport]:
        """Bring state from node to node; `layout` names the old nodes, too. `obsolete`: as for `run`."""
        encoded = msgspec.json.encode(layout), msgspec.json.encode(handover)
        with self._watch.over(obsolete):
            return self.exchange([HandoverTask(stage, *encoded) for stage in (SEND, RECEIVE)])

    def exchange(self, stages: list[Any]) -> list[TaskReport]:
        """One job: a stage per function, one task per slot and stage."""
        assert self._tokens is not None, "pin() first"  # noqa: S101 - a mistake in our own loop
        return _reports(self._chained(self._tokens, stages))

    def _chained(self, tokens: RDD[Any], stages: Sequence[Any]) -> RDD[Any]:
        """What the last stage sends; one task per token in each stage, where the token is."""
        count = tokens.getNumPartitions()
        level: RDD[Any] = tokens.mapPartitionsWithIndex(stages[0])
        for stage in stages[1:]:
            messages = self._partitioned(level, count)
            # A union prefers the host that most of its parents prefer. The messages prefer whichever host
            # sent the most; the tokens, counted twice, outvote them.
            level = self.context.union([tokens, tokens, messages]).mapPartitionsWithIndex(stage)
        return level

    def _partitioned(self, level: RDD[Any], count: int) -> RDD[Any]:
        """The messages of a stage, each with the slot it is for.

        For pairs of a number and bytes Spark chooses Kryo, of which each task makes one anew for every slot;
        a small epoch takes a third longer then. Java's own streams cost next to nothing for the few large
        records here.
        """
        messages = level.partitionBy(count, same_slot)
        values: Any = messages._jrdd
        # What PySpark returns are the values of the shuffle, which is their one dependency.
        values.rdd().dependencies().head().rdd().setSerializer(self._plain)
        return messages

    def stop(self) -> None:
        self._replay.close()
        self._watch.close()
        self.context.stop()


def _context(conf: SparkConf, secret: str) -> SparkContext:
    if secret:
        conf.set(AUTHENTICATE, "true")
    # Its command line, which every user of the host can read, names what `conf` holds by now.
    gateway = launch_gateway(conf)  # type: ignore[no-untyped-call]  # PySpark has no types here
    if secret:
        conf.set(SECRET, secret)
    # Agents start the executors: a master that has workers is to start none there. The command line may not
    # say so.
    conf.set("spark.cores.max", "0")
    context = SparkContext(gateway=gateway, conf=conf)
    # Executors have it in their environment. The Python processes that they start do not need it.
    context.environment[EXECUTOR] = ""
    return context


def _reports(last: RDD[Any]) -> list[TaskReport]:
    """Those that tasks sent, of all stages."""
    records: list[tuple[int, Message]] = last.collect()
    return [decode_report(message[-1]) for _, message in records if message[0] == REPORT]


def _unpersist(tokens: RDD[Any]) -> None:
    tokens.unpersist()
