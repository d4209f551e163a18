"""The epoch loop of one topology: carries out with Spark, ZooKeeper and files what the epoch machine says."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import structlog

from domain.execution.checkpoints import Checkpoints
from domain.execution.epoch_machine import EpochMachine, Recorded
from domain.execution.instructions import (
    AcknowledgementsRead,
    AwaitNews,
    CancelReplay,
    CheckpointPointed,
    End,
    EpochsPlanned,
    Event,
    GiveUp,
    HandedOver,
    HandOver,
    Instruction,
    JobEnded,
    JobFailed,
    LeaveOut,
    LookAgain,
    MakeWay,
    Measured,
    Note,
    PlaceTasks,
    PlanEpochs,
    PointTo,
    Publish,
    ReadAcknowledgements,
    RecordHomes,
    RecordPlan,
    RecordPosition,
    ReplayEnded,
    ReplayFailed,
    Retire,
    Sleep,
    StartInput,
    StartReplay,
    TasksPlaced,
    TellCheckpoint,
    TellProblem,
    TurnBegun,
)
from domain.execution.job import Job, RunJob, TaskReport
from domain.execution.progress import Position
from domain.messages import DriverState, Telemetry
from domain.topology import Topology
from host.environment import Environment
from spark_jobs.driver.cluster import Cluster
from spark_jobs.driver.epoch_log import EpochLog
from spark_jobs.driver.epoch_planner import EpochPlanner
from spark_jobs.driver.key_figures import KeyFigures
from spark_jobs.driver.late_rows import LateRows
from spark_jobs.driver.measure import Measure
from spark_jobs.driver.placement import TaskPlacement
from spark_jobs.driver.retention import Retention
from spark_jobs.driver.status import Status
from spark_jobs.driver.topology_channel import TopologyChannel
from spark_jobs.driver.watch import JobCancelledError
from spark_jobs.sinks.base import Sink, SinkError
from spark_jobs.state.records import CheckpointRecord

log = structlog.get_logger()
# Epochs to plan beyond what runs where the input is read as fast as it can be.
FAST_AHEAD = 1
SHOW_AGAIN = 1.0
"""Seconds until a driver at its end tries again to have readers see the last epochs."""


class MakeWayError(Exception):
    """Another driver has to go on, for the reason given; this one has nothing to report."""


class EpochLoop:
    """Runs until the input ends, the topology is undeployed or `stop` is set.

    All decisions are those of `machine`, which also says what is read before the next one. `planner` cuts the
    input into epochs, `placement` pins tasks to nodes.
    """

    def __init__(
        self,
        *,
        topology: Topology,
        coordination: TopologyChannel,
        cluster: Cluster,
        epoch_log: EpochLog,
        planner: EpochPlanner,
        send: Callable[[Telemetry], None],
        checkpoints: Checkpoints,
        retention: Retention,
        sink: Sink,
        settings: Environment,
        clock: Callable[[], float],
        stop: threading.Event,
    ) -> None:
        self.topology = topology
        self.coordination = coordination
        # What `topology` and the log are of.
        self.spec = coordination.spec
        self.deployment = coordination.plan.deployment if coordination.plan is not None else 0
        self.cluster = cluster
        self.log = epoch_log
        self.planner = planner
        self.clock = clock
        self.stop = stop
        epoch_log.begin_life()
        self.placement = TaskPlacement(
            topology,
            cluster=cluster,
            coordination=coordination,
            clock=clock,
            settings=settings,
            division=epoch_log.division,
            life=epoch_log.life,
        )
        self.machine = EpochMachine(
            topology, recorded(epoch_log), checkpoints, realtime=planner.realtime, at=clock()
        )
        self.send = send
        self._retention = retention
        self.sink = sink
        self._prepared = False
        self._measure = Measure(topology, coordination.read_costs())
        self._status = Status(topology.name, coordination, send, clock)
        self.keys = KeyFigures()
        self._late_rows = LateRows(topology, planner.directory, send)
        self._carriers: Mapping[type, Callable[[Any], Event | None]] = {
            StartInput: self._start_input,
            HandOver: self._hand_over,
            RecordPlan: self._record_plan,
            RecordHomes: self._record_homes,
            RecordPosition: self._record_position,
            LeaveOut: self._leave_out,
            PointTo: self._point_to,
            LookAgain: self._look_again,
            PlaceTasks: self._place_tasks,
            PlanEpochs: self._plan_epochs,
            RunJob: self._run_job,
            StartReplay: self._start_replay,
            CancelReplay: self._cancel_replay,
            ReadAcknowledgements: self._read_acknowledgements,
            Retire: self._retire,
            TellCheckpoint: self._tell_checkpoint,
            TellProblem: self._tell_problem,
            Note: self._note,
            Publish: self._publish,
            Measured: self._report,
            Sleep: self._sleep,
            AwaitNews: self._await_news,
            GiveUp: self._give_up,
            MakeWay: self._make_way,
        }

    @property
    def state(self) -> DriverState:
        return self._status.state

    # -- the loop --------------------------------------------------------------------------------------

    def run(self) -> DriverState:
        """Returns the final state: completed or stopped."""
        ended: DriverState | None = None
        while ended is None:
            ended = "stopped" if self.stop.is_set() else self.iterate()
        self._late_rows.tell()
        self._publish(self.machine.publish(ended))
        return ended

    def iterate(self) -> DriverState | None:
        """One turn: news, due epochs, at most one Spark job of the present, and one that begins to replay
        beside it. The final state when there is nothing left."""
        self.coordination.refresh()
        if self.coordination.superseded:
            raise MakeWayError(f"process {self.coordination.superseded} drives {self.topology.name} now")
        self._require_loaded()
        self.placement.prepare()
        over = self._replay_over()
        if over is not None:
            self._carry_out_all(self.machine.handle(over))
        return self._carry_out_all(self.machine.handle(self._news()))

    def _require_loaded(self) -> None:
        """This driver may have missed that the topology was undeployed: nothing of another version, or of a
        later deployment, is done with what it has loaded."""
        spec, plan, own = self.coordination.spec, self.coordination.plan, self.spec
        if plan is not None and plan.deployment > self.deployment > 0:
            raise MakeWayError(f"plan {plan.generation} is of a later deployment")
        if spec is None or own is None or spec.desired == "stopped":
            return
        if (spec.version, spec.computation) != (own.version, own.computation):
            raise MakeWayError(f"version {spec.version} is deployed, and this driver has {own.version}")

    def _carry_out_all(self, told: Sequence[Instruction]) -> DriverState | None:
        instructions = deque(told)
        while instructions:
            instruction = instructions.popleft()
            if isinstance(instruction, End):
                return self._end(instruction)
            answer = self._carry_out(instruction)
            if answer is not None:
                instructions.extendleft(reversed(self.machine.handle(answer)))
        return None

    def _carry_out(self, instruction: Instruction) -> Event | None:
        return self._carriers[type(instruction)](instruction)

    def _news(self) -> TurnBegun:
        coordination, machine = self.coordination, self.machine
        return TurnBegun(
            at=self.clock(),
            plan=coordination.plan,
            ready=self.placement.ready(coordination.plan) if coordination.plan else (),
            warming=self.placement.warming(coordination.plan) if coordination.plan else (),
            stopped=coordination.spec is not None and coordination.spec.desired == "stopped",
            paused=coordination.control.paused,
            request=coordination.control.checkpoint_request,
            latest_generation=coordination.latest.generation if coordination.latest else 0,
            pin_seconds=self.placement.pin_seconds,
            misplaced=machine.plan is not None and self.placement.outdated(machine.placed),
            replicas=coordination.replicas_of(self.placement.deployed),
            tentative=coordination.tentative_of(self.placement.deployed),
        )

    # -- the epoch log and the input -------------------------------------------------------------------

    def _start_input(self, instruction: StartInput) -> None:
        with suppress(SinkError):  # tried again, and told, when tasks are placed
            self._prepare_sink()
        self.planner.start()

    def _prepare_sink(self) -> None:
        """Readers may not see yet what the driver before this one put into the log last, and its tasks may
        still write. Raises `SinkError`."""
        if not self._prepared:
            self.sink.prepare(
                deployed=self.placement.deployed, life=self.log.life, written=self.log.has_output
            )
            self._prepared = True
            self._show(self.log.position)

    def _end(self, instruction: End) -> DriverState | None:
        """Not before readers see all that the log says: no epoch follows with which they would."""
        if self.log.generation:
            try:
                self._prepare_sink()
                shown = self._show(self.log.position)
            except SinkError as error:
                self._status.problem(error.where, error.what, error.hint)
                shown = False
            if not shown:
                self.coordination.changed.wait(SHOW_AGAIN)
                return None
        return instruction.state

    def _plan_epochs(self, instruction: PlanEpochs) -> EpochsPlanned:
        self.planner.plan_due(ahead=FAST_AHEAD, reached=instruction.reached, after=instruction.after)
        newest = self.log.plans.get(self.log.head)
        return EpochsPlanned(
            at=self.clock(),
            head=self.log.head,
            ended=self.planner.ended,
            next_due=self.planner.due_at(self.log.head + 1),
            final=newest is not None and newest.final,
            drained=newest.drained if newest is not None else 0,
        )

    def _record_plan(self, instruction: RecordPlan) -> None:
        self.log.deployed = self.placement.deployed
        if self.spec is not None:
            self.log.computation = self.spec.computation
        self.log.applied(instruction.generation, instruction.position, instruction.homes)

    def _record_homes(self, instruction: RecordHomes) -> None:
        self.log.applied(self.log.generation, instruction.position, instruction.homes)

    def _record_position(self, instruction: RecordPosition) -> None:
        self.log.commit(instruction.position, self.clock(), durable=instruction.durable)
        self._show(instruction.position)

    def _leave_out(self, instruction: LeaveOut) -> None:
        outputs = self.sink.outputs(
            deployed=self.placement.deployed, attempt=instruction.attempt, life=self.log.life
        )
        try:
            outputs.leave_out(instruction.epochs)
        except SinkError as error:
            self._status.problem(error.where, error.what, error.hint)

    def _show(self, position: Position) -> bool:
        """Have readers of the outputs see what can never be undone: without determinism that is what is in a
        checkpoint, if there are any. False after an error, which is told, and made good with the next epoch
        or at the end."""
        final = self.topology.deterministic or self.topology.spec.bounded
        epoch = position.committed if final else position.checkpoint
        try:
            self.sink.commit(epoch=epoch)
        except SinkError as error:
            self._status.problem(error.where, error.what, error.hint)
            return False
        return True

    # -- Spark -----------------------------------------------------------------------------------------

    def _look_again(self, instruction: LookAgain) -> None:
        self.placement.look_again(trusted=instruction.trusted)

    def _hand_over(self, instruction: HandOver) -> Event:
        try:
            done = self.placement.hand_over(instruction, self.planner.options)
        except JobCancelledError as error:  # a node went away meanwhile: look again
            return self._failed(error, placing=True)
        except Exception as error:  # then all of it is restored from the checkpoint
            log.warning("no state handed over", error=str(error))
            done = set()
        return HandedOver(at=self.clock(), partitions=done)

    def _place_tasks(self, instruction: PlaceTasks) -> Event:
        if self.cluster.replaying:  # executors have changed since the turn began: in the next one
            return TasksPlaced(at=self.clock(), absent=None, reachable=self.placement.layout is not None)
        try:
            self._prepare_sink()
            absent = self.placement.follow(instruction.plan, self.planner.options, instruction.graph)
        except Exception as error:  # a node went away meanwhile: look again
            return self._failed(error, placing=True)
        return TasksPlaced(at=self.clock(), absent=absent, reachable=self.placement.layout is not None)

    def _run_job(self, instruction: RunJob) -> Event:
        assert self.placement.layout is not None  # noqa: S101 - the machine knows that it is not
        try:
            reports = self.cluster.run(self.placement.layout, self._job(instruction), self._obsolete)
        except Exception as error:  # Spark's own failures
            return self._failed(error, placing=False)
        return JobEnded(at=self._taken(reports), reports=reports, disturbed=self._disturbed(reports))

    def _disturbed(self, reports: Sequence[TaskReport]) -> bool:
        return self.placement.disturbed() or any(report.repeated for report in reports)

    def _taken(self, reports: Sequence[TaskReport]) -> float:
        """Take what tasks said of event times; returns when."""
        at = self.clock()
        self.planner.observe(reports)
        self.keys.take(reports)
        self._late_rows.take(reports, at, final=self.planner.finished)
        return at

    def _start_replay(self, instruction: StartReplay) -> None:
        assert self.placement.layout is not None  # noqa: S101 - the machine knows that it is not
        job = self._job(instruction.job)
        self.cluster.start_replay(
            self.placement.layout, job, self._obsolete, over=self.coordination.changed.set
        )

    def _cancel_replay(self, instruction: CancelReplay) -> None:
        self.cluster.cancel_replay()

    def _replay_over(self) -> ReplayEnded | ReplayFailed | None:
        """What became of a replay, once it is over."""
        try:
            reports = self.cluster.replayed()
        except Exception as error:  # Spark's own failures
            failed = self._failed(error, placing=False)
            return ReplayFailed(at=failed.at, error=failed.error, cancelled=failed.cancelled)
        if reports is None:
            return None
        return ReplayEnded(
            at=self._taken(reports),
            took=self.cluster.replay_took,
            reports=reports,
            disturbed=self._disturbed(reports),
        )

    def _job(self, told: RunJob) -> Job:
        lane, plans = told.lane, self.log.plans
        epochs = [plans[epoch] for epoch in range(lane.first, lane.last + 1)] if lane else []
        return Job(**msgspec.structs.asdict(told), epochs=epochs)

    def _obsolete(self) -> bool:
        """Called in another thread while a job runs. What its tasks may still write then comes out the same
        when it is written again, if operators are deterministic. Otherwise all partitions have to start
        again, and only a node that Spark would wait for in vain is worth that."""
        placement = self.placement
        repeatable = self.topology.deterministic or self.topology.spec.bounded
        return (repeatable and placement.disturbed()) or placement.forsaken()

    def _failed(self, error: Exception, *, placing: bool) -> JobFailed:
        cancelled = isinstance(error, JobCancelledError)
        if not cancelled:
            log.exception("spark job failed")
        text = str(error).strip()
        summary = text.splitlines()[0] if text else type(error).__name__
        if isinstance(error, SinkError):
            return JobFailed(
                at=self.clock(),
                error=error.what,
                cancelled=False,
                placing=placing,
                where=error.where,
                hint=error.hint,
            )
        return JobFailed(at=self.clock(), error=summary, cancelled=cancelled, placing=placing)

    # -- checkpoints -----------------------------------------------------------------------------------

    def _point_to(self, instruction: PointTo) -> CheckpointPointed:
        accepted = self.coordination.complete(instruction.latest)
        return CheckpointPointed(at=self.clock(), accepted=accepted)

    def _read_acknowledgements(self, instruction: ReadAcknowledgements) -> AcknowledgementsRead:
        acks = self.coordination.acknowledgements(
            instruction.checkpoint, self.placement.deployed, job=instruction.job
        )
        return AcknowledgementsRead(at=self.clock(), acks=acks)

    def _retire(self, instruction: Retire) -> None:
        kept, deployed = list(instruction.kept), self.placement.deployed
        self._retention.keep(kept, deployed, self._record(instruction.latest, deployed))
        self.sink.settle(epoch=instruction.log_below - 1)
        self.log.trim(instruction.log_below)
        self.coordination.write_costs(self._measure.costs())

    def _record(self, checkpoint: int, deployed: int) -> CheckpointRecord | None:
        """What a checkpoint is one of. That of another parallelism has its record, and keeps it."""
        spec, plan, origin = self.spec, self.log.plans.get(checkpoint), self.log.origin_us
        divided = self.log.division is not None and self.log.division.checkpoint == checkpoint
        if spec is None or plan is None or origin is None or divided:
            return None
        return CheckpointRecord(
            topology=self.topology.name,
            deployed=deployed,
            checkpoint=checkpoint,
            version=spec.version,
            spec=self.topology.to_data(),
            origin_us=origin,
            plan=plan,
            renewed=spec.renewed,
        )

    # -- what others see -------------------------------------------------------------------------------

    def _tell_checkpoint(self, instruction: TellCheckpoint) -> None:
        report = instruction.report
        log.info("checkpoint", checkpoint=report.checkpoint, state=report.state, cause=report.cause)
        self.send(report)

    def _tell_problem(self, instruction: TellProblem) -> None:
        self._status.problem(instruction.where, instruction.what, instruction.hint, instruction.row)

    def _note(self, instruction: Note) -> None:
        (log.warning if instruction.warning else log.info)(instruction.event, **instruction.fields)

    def _publish(self, instruction: Publish) -> None:
        self._status.enter(instruction, log=self.log, keys=self.keys.told())

    def _report(self, instruction: Measured) -> None:
        report = self._measure.report(instruction, log=self.log, ended=self.clock(), state=self.state)
        self.send(report)

    # -- waiting ---------------------------------------------------------------------------------------

    def _sleep(self, instruction: Sleep) -> None:
        time.sleep(instruction.seconds)

    def _await_news(self, instruction: AwaitNews) -> None:
        self.coordination.changed.wait(instruction.seconds)

    def _give_up(self, instruction: GiveUp) -> None:
        raise RuntimeError(instruction.cause)

    def _make_way(self, instruction: MakeWay) -> None:
        raise MakeWayError(instruction.cause)


def recorded(epoch_log: EpochLog) -> Recorded:
    """What a machine needs to know of the log."""
    last = epoch_log.plans.get(epoch_log.head)
    return Recorded(
        head=epoch_log.head,
        oldest=min(epoch_log.plans, default=epoch_log.head + 1),
        final=last is not None and last.final,
        drained=last.drained if last is not None else 0,
        life=epoch_log.life,
        position=epoch_log.position,
        generation=epoch_log.generation,
        homes=dict(epoch_log.homes),
    )
