"""The epoch loop: plan what is due, run what can run, report, checkpoint, adopt new recovery plans."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import structlog

from controlplane.domain.coordination import (
    CheckpointReport,
    DriverState,
    DriverStatus,
    Plan,
    ProblemReport,
    Telemetry,
)
from controlplane.domain.topology import Topology
from spark_jobs.driver.checkpoints import Checkpoints
from spark_jobs.driver.cluster import Cluster, Executor
from spark_jobs.driver.coordination import Coordination
from spark_jobs.driver.epoch_log import EpochLog
from spark_jobs.driver.intake import Intake
from spark_jobs.driver.job import Job, Layout, TaskReport, operator_levels
from spark_jobs.driver.measure import Measure
from spark_jobs.driver.progress import blocked_partitions, next_range
from spark_jobs.driver.retention import Retention

log = structlog.get_logger()
STATUS_INTERVAL = 2.0
REPORT_INTERVAL = 1.0
RETRY_INTERVAL = 2.0
FAST_AHEAD = 1
MAX_JOB_FAILURES = 5
# How long to wait for the executors of a plan before running without those that are missing, in seconds.
START_PATIENCE = 45.0
PLAN_PATIENCE = 60.0


class EpochLoop:
    """Runs until the input ends, the topology is undeployed or `stop` is set.

    `progress` is the last epoch each partition applied; `absent` the partitions whose node cannot be
    reached; `errors` those whose operator, sink or state failed, with when to try again.
    """

    def __init__(
        self,
        *,
        topology: Topology,
        coordination: Coordination,
        cluster: Cluster,
        epoch_log: EpochLog,
        intake: Intake,
        send: Callable[[Telemetry], None],
        checkpoints: Checkpoints,
        retention: Retention,
        outputs: str,
        checkpoint_url: str,
        modules: list[str],
        clock: Callable[[], float],
        stop: threading.Event,
    ) -> None:
        self.topology = topology
        self.coordination = coordination
        self.cluster = cluster
        self.log = epoch_log
        self.intake = intake
        self.send = send
        self.checkpoints = checkpoints
        self.retention = retention
        self.outputs = outputs
        self.checkpoint_url = checkpoint_url
        self.modules = modules
        self.clock = clock
        self.stop = stop
        self.plan: Plan | None = None
        self.layout: Layout | None = None
        self.progress: dict[str, int] = dict.fromkeys(topology.partitions, epoch_log.committed)
        self.restore: dict[str, int] = {}
        self.absent: set[str] = set(topology.partitions)
        self.errors: dict[str, tuple[float, str]] = {}
        self.measure = Measure(topology)
        self.state: DriverState = "starting"
        self._executors: frozenset[Executor] = frozenset()
        self._trim = False
        self._job_failures = 0
        self._published_at = 0.0
        self._reported_at = 0.0
        self._waiting_since = clock()
        self._waited_for = 0
        self._refused = 0

    # -- the loop --------------------------------------------------------------------------------------

    def run(self) -> DriverState:
        """Returns the final state: completed or stopped."""
        while not self.stop.is_set():
            ended = self.iterate()
            if ended is not None:
                return self._enter(ended)
        return self._enter("stopped")

    def iterate(self) -> DriverState | None:
        """One turn: news, due epochs, at most one Spark job. The final state when there is nothing left."""
        self.coordination.refresh()
        if self.coordination.spec is not None and self.coordination.spec.desired == "stopped":
            return "stopped"
        self._adopt_plan()
        try:
            self._follow_executors()
        except Exception as error:  # a node went away while tokens were placed: look again
            self._job_failed(error)
            return None
        if not self.coordination.control.paused:
            self.intake.plan_due(ahead=FAST_AHEAD)
        worked = self._step()
        if not worked and self.clock() - self._reported_at >= REPORT_INTERVAL and self._behind():
            self._report(Job(epochs=[], progress=self.progress), [], self.clock(), self.progress)
        self._follow_checkpoint()
        if self._completed():
            return "completed"
        self._set_state()
        if not worked:
            self._idle()
        return None

    def _completed(self) -> bool:
        return (
            self.intake.finished
            and self.log.committed == self.log.head
            and self.checkpoints.pending is None
            and self.checkpoints.latest == self.log.head
        )

    def _idle(self) -> None:
        """Sleep until the next epoch is due, waking early when ZooKeeper has news."""
        wait = self.intake.due_at(self.log.head + 1) - self.clock()
        if self.checkpoints.pending is not None or self.absent or self.intake.finished:
            wait = min(wait, 0.1) if wait > 0 else 0.1
        self.coordination.changed.wait(min(max(wait, 0.005), 0.5))

    # -- plans and nodes -------------------------------------------------------------------------------

    def _adopt_plan(self) -> None:
        plan = self.coordination.plan
        if plan is None or (self.plan is not None and plan.generation <= self.plan.generation):
            return
        if self._waited_for != plan.generation:
            self._waited_for, self._waiting_since = plan.generation, self.clock()
        if not self._nodes_ready(plan):
            return
        resumed = plan.generation <= self.log.generation
        if not resumed and not self.log.holds(plan.checkpoint):
            if self._refused != plan.generation:
                self._refused = plan.generation
                self._problem(
                    f"plan {plan.generation}",
                    f"checkpoint {plan.checkpoint} is older than the epoch log, which begins after it",
                    f"Restore checkpoint {self.checkpoints.latest} or a later one instead.",
                )
            return
        self.plan = plan
        if not resumed or self.log.restoring:
            self._apply(plan)
        self.intake.start()
        self._executors = frozenset()
        self.errors.clear()
        self.checkpoints.fail(f"superseded by plan {plan.generation}")
        log.info("plan adopted", generation=plan.generation, kind=plan.kind, rollback=plan.rollback)

    def _nodes_ready(self, plan: Plan) -> bool:
        """All nodes of the plan have an executor, or enough patience went by for those that have."""
        hosts = {executor.host for executor in self.cluster.executors()}
        nodes = set(plan.assignment.values())
        ready = {node for node in nodes if self.coordination.addresses.get(node) in hosts}
        patience = START_PATIENCE if self.plan is None else PLAN_PATIENCE
        return bool(ready) and (ready == nodes or self.clock() - self._waiting_since > patience)

    def _apply(self, plan: Plan) -> None:
        """Algorithm 2 of incremental recovery: with rollback every partition returns to cp(P_k), without it
        only those the plan restores."""
        restored = self.topology.partitions if plan.rollback or plan.kind == "restore" else plan.restore
        for partition in restored:
            self.progress[partition] = plan.checkpoint
            self.restore[partition] = plan.checkpoint
        rollback = plan.checkpoint if restored else None
        self.log.applied(plan.generation, rollback)

    def _follow_executors(self) -> None:
        """Pin again when executors came or went; partitions on unreachable nodes are absent."""
        if self.plan is None:
            return
        executors = self.cluster.executors()
        if executors == self._executors:
            return
        self._executors = executors
        hosts = {executor.host for executor in executors}
        names = sorted(set(self.plan.assignment.values()))
        nodes = [name for name in names if self.coordination.addresses.get(name) in hosts]
        self._set_absent({p for p, node in self.plan.assignment.items() if node not in nodes})
        if not nodes:
            self.layout = None
            return
        self.cluster.pin([self.coordination.addresses[name] for name in nodes])
        slot = {name: index for index, name in enumerate(nodes)}
        self.layout = Layout(
            spec=self.topology.spec,
            generation=self.plan.generation,
            nodes=nodes,
            slots={p: slot[node] for p, node in self.plan.assignment.items() if node in slot},
            levels=operator_levels(self.topology, self.plan.assignment),
            outputs=self.outputs,
            checkpoints=self.checkpoint_url,
            readers=self.intake.options,
            operator_modules=self.modules,
        )

    def _set_absent(self, absent: set[str]) -> None:
        if absent == self.absent:
            return
        self.absent = absent
        if absent:
            self.checkpoints.fail("nodes were lost before every partition acknowledged")
            log.warning("partitions absent", count=len(absent), partitions=sorted(absent)[:10])

    # -- one Spark job ---------------------------------------------------------------------------------

    def _step(self) -> bool:
        """Run the next range of epochs; False if there is nothing to run."""
        if self.layout is None or self.plan is None:
            return False
        now = self.clock()
        held = {partition for partition, (retry_at, _) in self.errors.items() if retry_at > now}
        work = next_range(
            self.topology,
            self.progress,
            head=self.log.head,
            absent=self.absent | held,
            limit=self.topology.spec.catch_up_epochs,
        )
        finishing = self.intake.finished and self.checkpoints.latest < self.log.committed == self.log.head
        if work is None and not (finishing and self.checkpoints.pending is None):
            return False
        request = self.coordination.control.checkpoint_request
        last = work.last if work else self.log.head
        punctuated = (finishing or self.checkpoints.wanted(request)) and not self.absent and not self.errors
        punctuated = punctuated and last > self.checkpoints.latest
        trim = self._trim
        job = Job(
            epochs=[self.log.plans[epoch] for epoch in range(work.first, work.last + 1)] if work else [],
            progress=work.progress if work else self.progress,
            restore=self.restore,
            checkpoint=last if punctuated else 0,
            trim_below=self.log.committed if trim else 0,
            keep=[self.checkpoints.latest] if trim else [],
        )
        started = self.clock()
        try:
            reports = self.cluster.run(self.layout, job)
        except Exception as error:  # Spark's own failures: the job is repeatable, so try it again
            self._job_failed(error)
            return True
        self._job_failures = 0
        if trim:
            self._trim = False
        self._take(job, reports, started)
        if punctuated:
            self._punctuated(last, request)
        return True

    def _job_failed(self, error: Exception) -> None:
        self._job_failures += 1
        text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        log.exception("spark job failed", attempt=self._job_failures)
        self._problem("Spark job", text, "It is repeated; see the driver's log if it goes on failing.")
        if self._job_failures >= MAX_JOB_FAILURES:
            raise RuntimeError(
                f"{MAX_JOB_FAILURES} Spark jobs in a row failed; the last one: {text}"
            ) from error
        self._executors = frozenset()
        time.sleep(min(0.2 * 2**self._job_failures, 3.0))

    def _take(self, job: Job, reports: list[TaskReport], started: float) -> None:
        before = dict(self.progress)
        now = self.clock()
        for report in reports:
            if report.misplaced:
                log.warning("task misplaced", slot=report.slot, stage=report.level, ran_on=report.node)
                self._executors = frozenset()  # a node went away during the job: look again
            for partition, result in report.partitions.items():
                reached = (
                    max(result.epoch, before[partition]) if partition not in job.restore else result.epoch
                )
                self.progress[partition] = reached
                if result.error:
                    self._partition_failed(partition, result.error, result.hint)
                else:
                    self.restore.pop(partition, None)
                    if self.errors.pop(partition, None):
                        log.info("partition works again", partition=partition)
        committed = min(self.progress.values())
        if committed != self.log.committed:
            self.log.commit(committed, now)
        self._set_state()
        self._report(job, reports, started, before)

    def _behind(self) -> bool:
        """Epochs wait that cannot run now; the age of what waits is the latency operators want to see."""
        return self.plan is not None and self.log.committed < self.log.head

    def _report(self, job: Job, reports: list[TaskReport], started: float, before: dict[str, int]) -> None:
        self._reported_at = self.clock()
        self.send(
            self.measure.report(
                job=job,
                reports=reports,
                log=self.log,
                generation=self.plan.generation if self.plan else 0,
                before=before,
                progress=self.progress,
                started=started,
                ended=self._reported_at,
                state=self.state,
                absent=sorted(self.absent),
                blocked=blocked_partitions(self.topology, self.absent | self.errors.keys()),
            )
        )

    def _partition_failed(self, partition: str, error: str, hint: str) -> None:
        before = self.errors.get(partition)
        self.errors[partition] = (self.clock() + RETRY_INTERVAL, error)
        if before is None or before[1] != error:
            log.error("partition failed", partition=partition, error=error)
            self._problem(partition, error, hint or "It is tried again every few seconds; nothing is lost.")

    # -- checkpoints -----------------------------------------------------------------------------------

    def _punctuated(self, epoch: int, request: int) -> None:
        if self.plan is None:
            return
        self.checkpoints.started(checkpoint=epoch, generation=self.plan.generation, request=request)
        behind = [partition for partition, reached in self.progress.items() if reached < epoch]
        if behind:
            self.checkpoints.fail(f"{', '.join(sorted(behind)[:5])} did not reach epoch {epoch}")

    def _follow_checkpoint(self) -> None:
        self.checkpoints.poll()
        if not self.checkpoints.ended:
            return
        self.checkpoints.ended = False
        self._trim = True
        latest = self.checkpoints.latest
        kept = self.retention.completed(latest)
        self.log.trim(min(kept, self.log.committed))
        self.coordination.forget_checkpoints(latest)
        self.coordination.write_costs(self.measure.costs())

    # -- what others see -------------------------------------------------------------------------------

    def _set_state(self) -> None:
        if self.plan is None or (self.layout is None and not self.absent):
            state: DriverState = "waiting_for_nodes"
        elif self.coordination.control.paused:
            state = "paused"
        elif self.restore and not self.absent:
            state = "restoring"
        elif self.absent or self.errors:
            state = "degraded"
        elif self.state in ("restoring", "replaying", "starting", "waiting_for_nodes", "degraded"):
            caught_up = self.log.head - self.log.committed <= 1
            state = "running" if caught_up else "replaying"
        else:
            state = "running"
        self._enter(state)

    def _enter(self, state: DriverState) -> DriverState:
        changed = state != self.state
        self.state = state
        now = self.clock()
        if not changed and now - self._published_at < STATUS_INTERVAL:
            return state
        self._published_at = now
        error = next(iter(self.errors.values()), (0.0, ""))[1]
        status = DriverStatus(
            topology=self.topology.name,
            pid=os.getpid(),
            session=self.coordination.session,
            generation=self.plan.generation if self.plan else 0,
            state=state,
            head=self.log.head,
            committed=self.log.committed,
            checkpoint=self.checkpoints.latest,
            absent=sorted(self.absent) if self.plan else [],
            error=error,
            at=now,
        )
        self.coordination.publish(status)
        if changed:
            log.info("state", state=state, head=status.head, committed=status.committed)
            self.send(status)
        return state

    def report_checkpoint(self, report: CheckpointReport) -> None:
        log.info("checkpoint", checkpoint=report.checkpoint, state=report.state, cause=report.cause)
        self.send(report)

    def _problem(self, where: str, what: str, hint: str) -> None:
        self.send(ProblemReport(topology=self.topology.name, where=where, what=what, hint=hint))
