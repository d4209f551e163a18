"""The epoch loop: plan what is due, run what can run, report, checkpoint, adopt new recovery plans."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import structlog

from domain.execution.job import PartitionReport, TaskReport
from domain.execution.lanes import Lane
from domain.execution.progress import Conductor
from domain.messages import CheckpointReport, DriverState, Plan, Telemetry
from domain.topology import Topology
from spark_jobs.driver.adoption import Adoption
from spark_jobs.driver.checkpoints import Checkpoints
from spark_jobs.driver.cluster import Cluster
from spark_jobs.driver.epoch_log import EpochLog
from spark_jobs.driver.faults import Faults
from spark_jobs.driver.intake import Intake
from spark_jobs.driver.jobs import Jobs
from spark_jobs.driver.measure import Measure
from spark_jobs.driver.pace import ReplayPace
from spark_jobs.driver.placing import Placing
from spark_jobs.driver.retention import Retention
from spark_jobs.driver.status import Status
from spark_jobs.driver.topology_channel import TopologyChannel
from spark_jobs.driver.watch import JobCancelledError

log = structlog.get_logger()
REPORT_INTERVAL = 1.0
FAST_AHEAD = 1
# What is buffered is cheap to replay: the pace allows more epochs than a catch-up of everybody, up to this.
BESIDE = 4
SETTLE = 0.3


class EpochLoop:
    """Runs until the input ends, the topology is undeployed or `stop` is set.

    `conductor` knows how far each partition is and what to run next; the loop lets Spark run it. `faults`
    are the partitions whose operator, sink or state failed.
    """

    def __init__(
        self,
        *,
        topology: Topology,
        coordination: TopologyChannel,
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
        self.clock = clock
        self.stop = stop
        self.plan: Plan | None = None
        self.placing = Placing(
            topology,
            cluster=cluster,
            coordination=coordination,
            clock=clock,
            outputs=outputs,
            checkpoint_url=checkpoint_url,
            modules=modules,
        )
        self.conductor = Conductor(topology, epoch_log.position, epoch_log.homes)
        together = topology.spec.catch_up_epochs
        self.pace = ReplayPace(topology.spec.epoch_interval, together, BESIDE * together)
        self.measure = Measure(topology, coordination.read_costs())
        self.status = Status(topology.name, coordination, send, clock)
        self.faults = Faults(clock, self.status.problem)
        # Snapshots under numbers up to this one may be of another history.
        self._barred = 0 if topology.deterministic else epoch_log.head
        self.jobs = Jobs(
            topology,
            conductor=self.conductor,
            placing=self.placing,
            epoch_log=epoch_log,
            problem=self.status.problem,
        )
        self._reported_at = 0.0
        self.adoption = Adoption(
            coordination=coordination,
            conductor=self.conductor,
            placing=self.placing,
            intake=intake,
            log=epoch_log,
            status=self.status,
            clock=clock,
        )

    @property
    def state(self) -> DriverState:
        return self.status.state

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
        self.placing.prepare()
        self._adopt_plan()
        try:
            self._follow_executors()
        except JobCancelledError:
            self._executors_lost()
            return None
        except Exception as error:  # a node went away while tokens were placed: look again
            self.jobs.failed(error)
            return None
        if not self.coordination.control.paused:
            self.intake.plan_due(ahead=FAST_AHEAD, reached=self.conductor.front())
        worked = self._step()
        if not worked and self.clock() - self._reported_at >= REPORT_INTERVAL and self._waiting():
            self._report([], [], self.clock(), self.conductor.progress)
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
        if self.checkpoints.pending is not None or self.conductor.absent or self.intake.finished:
            wait = min(wait, 0.1) if wait > 0 else 0.1
        self.coordination.changed.wait(min(max(wait, 0.005), 0.5))

    # -- plans and nodes -------------------------------------------------------------------------------

    def _adopt_plan(self) -> None:
        plan = self.adoption.due(self.plan)
        if plan is None:
            return
        known = plan.generation <= self.log.generation
        self.plan = plan
        self.conductor.adopt(plan, refresh=not known)
        if not known:
            self.checkpoints.gone_back(checkpoint=self.conductor.checkpoint, generation=plan.generation)
            self.log.applied(plan.generation, self.conductor.position, self.conductor.homes)
        elif self.coordination.latest and self.coordination.latest.generation >= plan.generation:
            self.conductor.stop_buffering()
        self.intake.start()
        self.placing.look_again()
        self.faults.clear()
        self.checkpoints.fail(f"superseded by plan {plan.generation}")
        log.info("plan adopted", generation=plan.generation, kind=plan.kind, rollback=plan.rollback)

    def _executors_lost(self) -> None:
        """Where one is lost others may be: pinning to one that Spark misses only later costs seconds."""
        time.sleep(SETTLE)
        self.placing.look_again()

    def _follow_executors(self) -> None:
        absent = self.placing.follow(self.plan, self.intake.options) if self.plan is not None else None
        if absent is not None and self.conductor.set_absent(absent) and absent:
            self.checkpoints.fail("nodes were lost before every partition acknowledged")
            log.warning("partitions absent", count=len(absent), partitions=sorted(absent)[:10])

    # -- one Spark job ---------------------------------------------------------------------------------

    def _lanes(self) -> list[Lane]:
        """What is due, and beside it what those behind have missed; in idle time only the latter."""
        conductor, head = self.conductor, self.log.head
        limit = self.pace.at_once
        if self.faults.replay_held:
            replay = 0
        elif not conductor.answering():
            replay = limit  # nobody's latency is at stake
        elif conductor.front() < head:
            replay = self.pace.beside()
        else:
            idle = self.intake.finished or not self.intake.realtime or self.coordination.control.paused
            due = float("inf") if idle else self.intake.due_at(head + 1)
            replay = self.pace.alone(due - self.clock())
        held = self.faults.held
        lanes = conductor.lanes(head=head, held=held, limit=limit, replay=replay)
        if conductor.contradicts(lanes):
            self._start_again("partitions have fallen behind inputs that are not deterministic")
            lanes = conductor.lanes(head=head, held=held, limit=limit, replay=replay)
        return lanes

    def _start_again(self, cause: str) -> None:
        log.warning("everybody starts again from the checkpoint", cause=cause)
        self.conductor.start_again()
        self._barred = self.log.head
        self.checkpoints.fail(cause)
        # On disk before anything is computed again: the old position belongs to the history undone here.
        self.log.commit(self.conductor.position, self.clock(), durable=True)

    def _step(self) -> bool:
        """Run the next lanes; False if there is nothing to run."""
        layout = self.placing.layout
        if layout is None or self.plan is None:
            return False
        lanes = self._lanes()
        finishing = self.intake.finished and self.checkpoints.latest < self.log.committed == self.log.head
        if not lanes and not (finishing and self.checkpoints.pending is None):
            return False
        request = self.coordination.control.checkpoint_request
        last = lanes[0].last if lanes else self.log.head
        wanted = (finishing or self.checkpoints.wanted(request)) and not self.faults.errors
        # What is computed anew must not be taken for what was under this number before. At the end of a
        # bounded input there is no later number.
        used = self.checkpoints.latest if finishing else max(self.checkpoints.highest, self._barred)
        punctuated = wanted and last > used and self.conductor.whole(lanes, last)
        job = self.jobs.make(lanes, checkpoint=last if punctuated else 0, newest=self.checkpoints.latest)
        started = self.clock()
        try:
            reports = self.cluster.run(layout, job, self.jobs.obsolete)
        except JobCancelledError:
            self._executors_lost()
            if not self.topology.deterministic:
                self._start_again("a node went away during a job, and operators are not deterministic")
            return True
        except Exception as error:  # Spark's own failures: the job is repeatable, so try it again
            self.jobs.failed(error)
            return True
        self.jobs.succeeded()
        if not self.topology.deterministic and self.placing.disturbed():
            # What Spark ran a second time came out otherwise than what others had already received.
            self._start_again("an executor was lost during a job, and operators are not deterministic")
            return True
        self.jobs.done(job)
        self._take(lanes, reports, started)
        if punctuated:
            self._punctuated(last, request, reports)
        return True

    def _take(self, lanes: list[Lane], reports: list[TaskReport], started: float) -> None:
        conductor, before = self.conductor, dict(self.conductor.progress)
        front = conductor.front()
        now = self.clock()
        results: dict[str, PartitionReport] = {}
        for report in reports:
            if report.misplaced:
                log.warning("task misplaced", slot=report.slot, stage=report.level, ran_on=report.node)
                self.placing.look_again()  # a node went away during the job: look again
            results.update(report.partitions)
            self.faults.forks(report.forks)
            conductor.coverage.forget(report.unbuffered)
        reached = {p: r.epoch for p, r in results.items() if not r.error or r.epoch > before[p]}
        conductor.take(lanes, reached, head=self.log.head)
        self.faults.take(results)
        missing = {p for p, r in results.items() if r.missing}
        if missing:
            conductor.lost_state(missing)
            self.checkpoints.fail(f"{', '.join(sorted(missing)[:5])} had to be restored")
        if conductor.position != self.log.position:
            self.log.commit(conductor.position, now, durable=bool(missing))
        if lanes:
            # A lane may reach back for a fork; what counts is how much further it has come.
            self.pace.advanced(epochs=conductor.front() - front, seconds=now - started)
        if len(lanes) == 2 or (lanes and lanes[0].epochs == 1):
            self.pace.observe(
                seconds=now - started,
                replaying=_longest(reports),
                replayed=sum(lane.epochs for lane in lanes[1:]),
            )
        self._set_state()
        self._report(lanes, reports, started, before)

    def _waiting(self) -> bool:
        """Epochs wait that cannot run now; the age of what waits is the latency operators want to see."""
        return self.plan is not None and self.log.committed < self.log.head

    def _report(
        self, lanes: Sequence[Lane], reports: list[TaskReport], started: float, before: dict[str, int]
    ) -> None:
        self._reported_at = self.clock()
        self.send(
            self.measure.report(
                lanes=lanes,
                reports=reports,
                log=self.log,
                generation=self.plan.generation if self.plan else 0,
                before=before,
                progress=self.conductor.progress,
                started=started,
                ended=self._reported_at,
                state=self.state,
                absent=self.conductor.absent,
                failing=self.faults.errors.keys(),
            )
        )

    # -- checkpoints -----------------------------------------------------------------------------------

    def _punctuated(self, epoch: int, request: int, reports: Sequence[TaskReport]) -> None:
        if self.plan is None:
            return
        self.checkpoints.started(checkpoint=epoch, generation=self.plan.generation, request=request)
        behind = [partition for partition, reached in self.conductor.progress.items() if reached < epoch]
        # Some may have reached the epoch and been unable to leave their snapshot.
        failed = {p: r.error for report in reports for p, r in report.partitions.items() if r.error}
        if behind:
            self.checkpoints.fail(f"{', '.join(sorted(behind)[:5])} did not reach epoch {epoch}")
        elif failed:
            partition, error = min(failed.items())
            self.checkpoints.fail(f"no snapshot of {partition}: {error}")

    def _follow_checkpoint(self) -> None:
        before = self.checkpoints.latest
        self.checkpoints.poll()
        if not self.checkpoints.ended:
            return
        self.checkpoints.ended = False
        self.jobs.trim = True
        latest = self.checkpoints.latest
        if latest > before:
            self.jobs.drop_buffers = self.jobs.drop_buffers or self.conductor.buffers_kept
            self.conductor.completed(latest)
            # On disk before the manifests of older checkpoints go.
            self.log.commit(self.conductor.position, self.clock(), durable=True)
        kept = self.checkpoints.kept
        self.retention.keep(kept)
        self.log.trim(min(kept[0] if kept else 0, self.log.committed))
        self.coordination.forget_checkpoints(latest)
        self.coordination.write_costs(self.measure.costs())

    # -- what others see -------------------------------------------------------------------------------

    def _set_state(self) -> None:
        conductor = self.conductor
        state: DriverState
        if self.plan is None or (self.placing.layout is None and not conductor.absent):
            state = "waiting_for_nodes"
        elif self.coordination.control.paused:
            state = "paused"
        elif conductor.absent or self.faults.errors:
            state = "degraded"
        elif conductor.restore and self.plan.kind != "deploy":
            state = "restoring"
        elif conductor.behind(self.log.head):
            state = "replaying"
        else:
            state = "running"
        self._enter(state)

    def _enter(self, state: DriverState) -> DriverState:
        planned = self.plan is not None
        return self.status.enter(
            state,
            generation=self.plan.generation if self.plan else 0,
            log=self.log,
            checkpoint=self.checkpoints.latest,
            absent=sorted(self.conductor.absent) if planned else [],
            behind=self.conductor.behind(self.log.head) if planned else [],
            error=self.faults.first,
        )

    def report_checkpoint(self, report: CheckpointReport) -> None:
        log.info("checkpoint", checkpoint=report.checkpoint, state=report.state, cause=report.cause)
        self.send(report)


def _longest(reports: Sequence[TaskReport]) -> float:
    """Seconds that replay added to a job: in each stage, those of the task that spent most on it."""
    stages: dict[int, float] = {}
    for report in reports:
        stages[report.level] = max(stages.get(report.level, 0.0), report.replaying)
    return sum(stages.values())
