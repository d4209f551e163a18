"""The whole engine in one process: the real epoch loop, tasks, state, log, checkpoints and sinks. Only Spark,
ZooKeeper and the agents' uploads are simulated. One seed decides which failures happen when."""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, Phase, settings

from domain.execution.checkpoints import Checkpoints, complete_checkpoints
from domain.execution.footprint import footprint_of
from domain.execution.job import Handover, Job, Layout, TaskReport
from domain.messages import (
    CheckpointAck,
    Control,
    DeployedSpec,
    DriverStatus,
    LatestCheckpoint,
    Plan,
    Telemetry,
)
from domain.topology import Topology, load_topology
from domain.topology.spec import ParquetSinkSpec
from spark_jobs.agent.uploads import Uploader, newest_snapshots
from spark_jobs.driver.assembly import open_log
from spark_jobs.driver.cluster import Executor
from spark_jobs.driver.epoch_planner import EpochPlanner
from spark_jobs.driver.loop import EpochLoop
from spark_jobs.driver.retention import Retention
from spark_jobs.driver.task_runs import TaskRuns
from spark_jobs.driver.watch import JobCancelledError
from spark_jobs.executor.handover import RECEIVE, SEND, HandoverTask
from spark_jobs.executor.task import REPORT, LevelTask
from spark_jobs.operators.catalogue import catalogue
from spark_jobs.sinks.parquet_sink import ParquetSink
from spark_jobs.state.checkpoint_storage import CheckpointStorage
from tests.examples import examples


def schedules(count: int) -> settings:
    """Seeds of schedules, a part of `count` (`examples`). A failing seed is not shrunk, since a smaller
    number is no simpler schedule."""
    return settings(
        max_examples=examples(count),
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


class DriverKilledError(BaseException):
    """SIGKILL of the driver: no statement after it runs."""


def sources(source: Path, limit: int) -> list[dict[str, Any]]:
    """What pipelines begin with: two partitions that read, and a parser behind each."""
    return [
        {
            "name": "S",
            "kind": "source",
            "parallelism": 2,
            "params": {"path": str(source), "rate": 10, "limit": limit, "pace": "fast"},
        },
        {
            "name": "P",
            "kind": "flat_map_regex",
            "parallelism": 2,
            "inputs": [{"from": "S", "partitioning": "one_to_one"}],
            "params": {"pattern": r"#(\w+)"},
        },
    ]


def pipeline(source: Path, limit: int, parallelism: Mapping[str, int] | None = None) -> Topology:
    """Two sources' partitions, two windows, a view of both and a keyed one with two partitions. parallelism:
    of operators that have another one."""
    other = parallelism or {}

    def operator(name: str, kind: str, inputs: list[str], **more: Any) -> dict[str, Any]:
        streams = [{"from": name, "partitioning": "full"} for name in inputs]
        fields = {**more, **({"parallelism": other[name]} if name in other else {})}
        return {"name": name, "kind": kind, "inputs": streams, "output": True, **fields}

    return load_topology(
        {
            "name": "t",
            "max_epoch_tuples": 20,
            "catch_up_epochs": 4,
            "operators": [
                *sources(source, limit),
                operator("A", "sliding_window", ["P"], params={"size_s": 6, "slide_s": 3}),
                operator("B", "sliding_window", ["P"], params={"size_s": 4, "slide_s": 4}, parallelism=2),
                operator("V", "latest", ["A"]),
                operator("W", "latest", ["A"]),
            ],
        },
        catalogue,
    )


def write_input(path: Path, rows: int = 97) -> None:
    words = random.Random(5)
    texts = [f"#{words.choice('abcde')} x #{words.choice('abc')}" for _ in range(rows)]
    pq.write_table(pa.table({"text": texts}), path)


@dataclass
class World:
    """Everything outside the driver: nodes with disks, ZooKeeper's values, the checkpoint storage."""

    root: Path
    topology: Topology
    random: random.Random
    nodes: dict[str, str] = field(default_factory=dict)
    # Not registered any more and silent, but Spark still lists their executors.
    frozen: dict[str, str] = field(default_factory=dict)
    freezing: bool = False
    # Whose functions the topology may name.
    modules: list[str] = field(default_factory=list)
    plan: Plan | None = None
    latest: LatestCheckpoint | None = None
    now: float = 1_000_000.0
    count: int = 0
    jobs: int = 0
    # Jobs that ran while others were replaying, and replays that were ended early.
    beside: int = 0
    replays_ended: int = 0
    unheard: int = 0
    handed_over: int = 0
    # Partitions whose buffers a node sent that they had left, summed over jobs.
    sent_elsewhere: int = 0
    # Called before each turn of the driver: the coordinator of tests that need a driver which goes on.
    turning: Callable[[], None] = lambda: None
    # Plans that move what runs are made, too.
    moving: bool = False
    failing: bool = True
    # How often a stage may still run again because a task could not fetch what it sent, although every node
    # lives; and in how many jobs one did.
    repeats: int = 0
    repeated: int = 0
    applied: int = 0
    reported: list[DriverStatus] = field(default_factory=list)
    messages: list[Telemetry] = field(default_factory=list)
    # What agents acknowledged: checkpoint -> directory of the partition.
    acks: dict[int, dict[str, CheckpointAck]] = field(default_factory=dict)
    # Whether files are forced to disk: a host can crash.
    force: bool = False
    # Where replicas are to be.
    replicas: dict[str, str] = field(default_factory=dict)
    # Operators whose queries may give tentative output -> the least fidelity.
    tentative: dict[str, float] = field(default_factory=dict)
    # Key of the savepoint that the deployment begins with.
    savepoint: str = ""
    # As in `DeployedSpec`.
    desired: str = "running"
    computation: int = 0
    # Of the driver that lives, counted by `turning` where a test does.
    turns: int = 0

    def join(self) -> str:
        self.count += 1
        name = f"node-{self.count}"
        self.nodes[name] = f"10.0.0.{self.count}"
        (self.root / "nodes" / name).mkdir(parents=True)
        return name

    def kill(self, name: str) -> None:
        del self.nodes[name]
        shutil.rmtree(self.root / "nodes" / name)

    def freeze(self, name: str) -> None:
        self.frozen[name] = self.nodes.pop(name)

    def thaw(self) -> None:
        """All frozen nodes come back, with their disks."""
        self.nodes.update(self.frozen)
        self.frozen.clear()

    def upload(self) -> None:
        """The work of the agents: uploads and acknowledgements."""
        for home in sorted((self.root / "nodes").iterdir()):
            uploader = Uploader(
                node=home.name,
                node_home=home,
                storage=CheckpointStorage(self.checkpoints, force=self.force),
                acknowledge=self._acknowledge,
            )
            for path, older in newest_snapshots(home / "snapshots").items():
                for one in older:
                    one.unlink()
                uploader.upload(path)

    def _acknowledge(self, topology: str, ack: CheckpointAck, directory: str) -> bool:
        self.acks.setdefault(ack.checkpoint, {})[directory] = ack
        return True

    @property
    def checkpoints(self) -> str:
        return f"file://{self.root}/checkpoints"


class PlayedCoordination:
    """ZooKeeper as the loop sees it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.control = Control()
        self.changed = SimpleNamespace(wait=lambda seconds: None, set=lambda: None)
        self.session = "1"
        self.superseded = 0

    @property
    def spec(self) -> DeployedSpec:
        return DeployedSpec(
            name=self.world.topology.name,
            version=max(1, self.world.computation),
            computation=self.world.computation,
            spec={},
            desired="stopped" if self.world.desired == "stopped" else "running",
            savepoint=self.world.savepoint,
        )

    @property
    def plan(self) -> Plan | None:
        return self.world.plan

    @property
    def addresses(self) -> dict[str, str]:
        return self.world.nodes | self.world.frozen

    def replicas_of(self, deployed: int) -> dict[str, str]:
        return dict(self.world.replicas)

    def tentative_of(self, deployed: int) -> dict[str, float]:
        return dict(self.world.tentative)

    def gone_addresses(self) -> frozenset[str]:
        return frozenset(self.world.frozen.values())

    @property
    def latest(self) -> LatestCheckpoint | None:
        return self.world.latest

    def refresh(self) -> bool:
        self.world.turning()
        return True

    def publish(self, status: DriverStatus) -> None:
        self.world.applied = status.generation
        self.world.reported.append(status)

    def reset_checkpoint(self) -> None:
        self.world.latest = None
        self.world.acks.clear()

    def read_costs(self) -> dict[str, float]:
        return {}

    def write_costs(self, costs: dict[str, float]) -> None: ...

    def acknowledgements(
        self, checkpoint: int, deployed: int, *, job: tuple[int, int] | None = None
    ) -> list[CheckpointAck]:
        if self.world.random.random() < 0.7:
            self.world.upload()
        found = self.world.acks.get(checkpoint, {})
        return [found[directory] for directory in sorted(found)]

    def complete(self, latest: LatestCheckpoint) -> bool:
        if self.world.random.random() < 0.2:
            return False
        self.world.latest = latest
        return True


class PlayedAccumulator:
    """Spark's, as the driver sees it: tasks add to it as they end."""

    def __init__(self, value: int) -> None:
        self.value = value

    def add(self, term: int) -> None:
        self.value += term


# By the slot that sent them, on their way to one slot.
Messages = list[tuple[int, Any]]


class PlayedCluster:
    """Spark as the loop sees it: stages of tasks; a node may die before any of them, a task may run twice,
    the driver may be killed after any of them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._pinned: list[str] = []
        # Nodes whose executor was given up while they were frozen, and how often that happened to each.
        self.ended: set[str] = set()
        self.lives: dict[str, int] = {}
        # Tasks of a job that was ended early: they may still run, and the driver does not hear of them.
        self.leftover: list[tuple[Any, int, str, Messages]] = []
        self.replaying = self.told = False
        self._replay: Generator[None, None, list[TaskReport]] | None = None
        self._replayed: list[TaskReport] | Exception | None = None

    def executors(self) -> frozenset[Executor]:
        """A node whose executor was given up has another once it is back."""
        self.ended &= self.world.frozen.keys()
        known = {**self.world.nodes, **{n: a for n, a in self.world.frozen.items() if n not in self.ended}}
        return frozenset(Executor(f"{n}/{self.lives.get(n, 0)}", address) for n, address in known.items())

    def ready(self, executors: frozenset[Executor]) -> frozenset[Executor]:
        return executors

    def give_up(self, executors: frozenset[Executor]) -> None:
        for executor in executors:
            name, _, life = executor.id.partition("/")
            assert name in self.world.frozen, "given up although it is there"
            self.ended.add(name)
            self.lives[name] = int(life) + 1

    def pin(self, addresses: list[str], obsolete: Callable[[], bool]) -> None:
        assert not self.replaying, "tasks are pinned while others replay"
        self._pinned = addresses

    def pinned(self, addresses: list[str]) -> bool:
        return self._pinned == addresses

    def prepared(self, addresses: list[str]) -> bool:
        return self.world.random.random() < 0.5

    def run(self, layout: Layout, job: Job, obsolete: Callable[[], bool]) -> list[TaskReport]:
        """A replay under way goes on meanwhile, by any number of tasks."""
        self.world.jobs += 1
        self.world.beside += self.replaying
        steps = self._stages(layout, job, obsolete)
        while True:
            while self._replay is not None and self.world.random.random() < 0.5:
                self._step()
            try:
                next(steps)
            except StopIteration as ended:
                return list(ended.value)

    def start_replay(
        self, layout: Layout, job: Job, obsolete: Callable[[], bool], *, over: Callable[[], None]
    ) -> None:
        assert not self.replaying, "two replays at once"
        self.replaying, self.told, self._replayed = True, False, None
        self._replay = self._stages(layout, job, lambda: self.told or obsolete())

    def replayed(self) -> list[TaskReport] | None:
        for _ in range(self.world.random.randint(0, 8)):
            self._step()
        if self._replay is not None or not self.replaying:
            return None
        self.replaying = False
        if isinstance(self._replayed, Exception):
            raise self._replayed
        return self._replayed

    @property
    def replay_took(self) -> float:
        return self.world.random.random()

    def cancel_replay(self) -> None:
        self.told = True

    def _step(self) -> None:
        """The replay runs one task more."""
        if self._replay is None:
            return
        try:
            next(self._replay)
        except StopIteration as ended:
            self._replay, self._replayed = None, list(ended.value)
        except (JobCancelledError, RuntimeError) as error:
            self._replay, self._replayed = None, error
            self.world.replays_ended += isinstance(error, JobCancelledError)

    def _stages(
        self, layout: Layout, job: Job, obsolete: Callable[[], bool]
    ) -> Generator[None, None, list[TaskReport]]:
        encoded, footprint = (
            (msgspec.json.encode(layout), msgspec.json.encode(job)),
            footprint_of(layout, job),
        )
        nodes = [layout.nodes[slot] for slot in footprint.slots]
        for node, mine in job.lane.serves.items() if job.lane is not None else ():
            self.world.sent_elsewhere += sum(layout.nodes[layout.slots[p]] != node for p in mine)
        tasks = [LevelTask(level, *encoded, footprint) for level in footprint.levels]
        return self._chain(layout, nodes, tasks, obsolete, counting=job.attempt > 0)

    def hand_over(self, layout: Layout, handover: Handover, obsolete: Callable[[], bool]) -> list[TaskReport]:
        encoded = msgspec.json.encode(layout), msgspec.json.encode(handover)
        stages = [HandoverTask(stage, *encoded) for stage in (SEND, RECEIVE)]
        reports = self._exchange(layout, stages, obsolete)
        received = [one for report in reports for one in report.partitions.values()]
        self.world.handed_over += sum(not one.error for one in received)
        return reports

    def _exchange(self, layout: Layout, stages: list[Any], obsolete: Callable[[], bool]) -> list[TaskReport]:
        chain = self._chain(layout, layout.nodes, stages, obsolete)
        while True:
            try:
                next(chain)
            except StopIteration as ended:
                return list(ended.value)

    def _chain(
        self,
        layout: Layout,
        nodes: list[str],
        stages: list[Any],
        obsolete: Callable[[], bool],
        *,
        counting: bool = False,
    ) -> Generator[None, None, list[TaskReport]]:
        """Stages of tasks on these nodes; it stops after each task. counting: the driver wants to know
        whether tasks ran again."""
        world, slots = self.world, range(len(nodes))
        context: Any = SimpleNamespace(accumulator=PlayedAccumulator)
        runs = TaskRuns(context)
        told = runs.begin(len(stages) * len(nodes))
        repeats = world.repeats
        heard = runs.counting(stages) if counting else stages
        taken: list[Messages] = []
        records: list[Messages] = [[] for _ in slots]
        leftover, self.leftover = self.leftover, []
        disturbed_at = world.random.randrange(len(stages)) if leftover else -1
        for level, task in enumerate(stages):
            for one in leftover if level == disturbed_at else ():
                self._run_unheard(*one)
            out: list[Messages] = [[] for _ in slots]
            for slot, node in enumerate(nodes):
                self._fail(layout)
                stuck = node in world.frozen
                assert obsolete() or not stuck, "a job waits for a node that is gone"
                if stuck or (obsolete() and world.random.random() < 0.5):
                    rest = enumerate(nodes[slot:], start=slot)
                    self.leftover = [(task, other, name, records[other]) for other, name in rest]
                    raise JobCancelledError("executors are gone")
                if level and self._not_fetched():
                    self._repeat(heard[level - 1], nodes, taken, records[slot:], first=slot)
                if world.failing and world.random.random() < 0.05:
                    list(self._task(task, slot, node, records[slot]))
                for target, message in self._task(heard[level], slot, node, records[slot]):
                    out[target].append((slot, message))
                yield
            taken, records = records, [self._arriving(sent_here, nodes) for sent_here in out]
        if self._not_fetched():
            self._repeat(heard[-1], nodes, taken, records, first=0)
        world.repeated += world.repeats < repeats
        reports = [message for messages in records for _, message in messages if message[0] == REPORT]
        return told([msgspec.json.decode(message[-1], type=TaskReport) for message in reports])

    def _not_fetched(self) -> bool:
        """Whether a task cannot fetch what a living node has sent it."""
        return self.world.repeats > 0 and self.world.random.random() < 0.02

    def _repeat(
        self, task: Any, nodes: list[str], taken: list[Messages], waiting: list[Messages], *, first: int
    ) -> None:
        """All tasks that a stage has on one node run again, over what they had taken. Tasks of the next stage
        that have not run, those from slot `first` on, get what is sent now; the others keep what they got."""
        living = sorted(self.world.nodes.keys() & set(nodes))
        name = self.world.random.choice(living) if living else None
        self.world.repeats -= 1
        for slot, node in enumerate(nodes):
            if node != name:
                continue
            sent = list(self._task(task, slot, node, taken[slot]))
            for target, messages in enumerate(waiting, start=first):
                kept = [one for one in messages if one[0] != slot]
                messages[:] = [*kept, *((slot, message) for where, message in sent if where == target)]

    def _arriving(self, sent: Messages, nodes: list[str]) -> Messages:
        """Messages of a node that has died are lost with its shuffle files, unless they were fetched
        before."""
        dead = {nodes[slot] for slot, _ in sent if nodes[slot] not in self.world.nodes}
        lost = {node for node in sorted(dead) if self.world.random.random() < 0.5}
        return [one for one in sent if nodes[one[0]] not in lost]

    def _task(self, task: Any, slot: int, node: str, messages: Messages) -> Iterator[Any]:
        runs_on = node if node in self.world.nodes else "elsewhere"
        os.environ["NODE_ID"] = runs_on
        os.environ["NODE_HOME"] = str(self.world.root / "nodes" / runs_on)
        return task(slot, iter([(slot, None), *((slot, message) for _, message in messages)]))

    def _run_unheard(self, task: Any, slot: int, node: str, messages: Messages) -> None:
        if node not in self.world.nodes:
            return
        with suppress(Exception):
            list(self._task(task, slot, node, messages))
            self.world.unheard += 1

    def _fail(self, layout: Layout) -> None:
        world = self.world
        if not world.failing:
            return
        dice = world.random.random()
        if dice < 0.02 and len(world.nodes) > 1:
            fail = world.freeze if world.freezing and world.random.random() < 0.5 else world.kill
            fail(world.random.choice(sorted(world.nodes)))
        elif dice < 0.03:
            raise DriverKilledError
        elif dice < 0.035:
            raise RuntimeError("Job aborted due to stage failure")


def drive(world: World, *, steps: int) -> str:
    """Run one driver until it completes, is killed (then "killed") or has done `steps` steps."""
    coordination: Any = PlayedCoordination(world)
    stop = threading.Event()
    left = [steps]

    def clock() -> float:
        world.now += 0.05
        left[0] -= 1
        if left[0] < 0:
            stop.set()
        return world.now

    installation: Any = SimpleNamespace(
        home=world.root,
        outputs=str(world.root / "outputs"),
        checkpoints=world.checkpoints,
        force=world.force,
    )
    try:
        log = open_log(installation, world.topology, coordination, clock)
    except (DriverKilledError, ConnectionError):
        return "killed"
    planner = EpochPlanner(
        topology=world.topology, log=log, home=world.root, modules=world.modules, clock=clock
    )
    planner.prepare(world.messages.append)
    url = world.checkpoints
    retention = Retention(url=url, topology="t", partitions=world.topology.partitions)
    cluster: Any = PlayedCluster(world)
    sink = ParquetSink(
        world.root / "outputs",
        "t",
        ParquetSinkSpec(compact_s=3 * world.topology.spec.epoch_interval),
        operators=[operator.name for operator in world.topology.outputs],
        epoch_interval=world.topology.spec.epoch_interval,
        force=world.force,
    )
    checkpoints = Checkpoints(
        topology="t",
        partitions=world.topology.partitions,
        interval=1.5,
        since=clock(),
        kept=complete_checkpoints(
            world.latest, checkpoint=log.position.checkpoint, generation=log.generation
        ),
        highest=world.latest.highest if world.latest else 0,
    )
    loop = EpochLoop(
        topology=world.topology,
        coordination=coordination,
        cluster=cluster,
        epoch_log=log,
        planner=planner,
        send=world.messages.append,
        checkpoints=checkpoints,
        retention=retention,
        sink=sink,
        outputs=str(world.root / "outputs"),
        checkpoint_url=url,
        modules=world.modules,
        masked=[],
        force=world.force,
        clock=clock,
        stop=stop,
    )
    try:
        return loop.run()
    except (DriverKilledError, RuntimeError):
        return "killed"
    finally:
        log.close()
        retention.close()
        sink.close()
