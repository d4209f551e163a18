"""A topology run tuple for tuple without Spark or files: the epoch machine of the driver and the partition
runs of its Spark tasks, over what `exact_disk` keeps in memory.

Operators are symbolic (see `exact_symbols`). Nodes and the driver die between any two steps, jobs are given
up, tasks run twice, and the driver forgets what has not reached its disk.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from domain.execution.adoption import deployed_since
from domain.execution.checkpoints import Checkpoints, complete_checkpoints
from domain.execution.epoch_machine import EpochMachine
from domain.execution.instructions import (
    AcknowledgementsRead,
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
    MakeWay,
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
    StartReplay,
    TasksPlaced,
    TurnBegun,
)
from domain.execution.job import RunJob, TaskReport
from domain.execution.progress import ProgressTracker
from domain.messages import DriverState, LatestCheckpoint, Plan
from domain.topology import Topology
from domain.topology.copies import is_branch, is_copy
from tests.simulation.exact_disk import Disk, Kept, Outside
from tests.simulation.exact_handover import hand_over
from tests.simulation.exact_job import MemoryJob
from tests.simulation.exact_replay import MemoryReplay
from tests.simulation.exact_symbols import ContradictionError


class DriverKilledError(BaseException):
    """The driver dies here; no step after it happens."""


class ExactRun:
    """One topology. `disks` holds the nodes alive, and is shared between runs. `interrupt` is called between
    any two steps: it may take nodes out of `disks` or raise `DriverKilledError`. pointed: likewise, when
    ZooKeeper has taken a checkpoint that the log does not know of yet. plan: the one in ZooKeeper.
    flaws: whether things go wrong that are no failures of nodes or the driver. emptied: nodes that have lost
    their disk and live, so that they may lack a state. returned: nodes that were away, with their disk, when
    buffers were dropped last. limit: the last epoch of a bounded input, None for one without end;
    `completed` once the driver has ended after it. dry: the epoch from which on operators give no rows.
    drained: epochs after the end of the input. `stopped`: the topology
    is undeployed; `over` when its driver has ended, and nothing happens until it is deployed again.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        disks: dict[str, Disk],
        plan: Plan,
        rng: random.Random,
        interrupt: Callable[[], None] = lambda: None,
        flaws: bool = True,
        limit: int | None = None,
        dry: int | None = None,
    ) -> None:
        self.topology, self.disks, self.plan, self.rng = topology, disks, plan, rng
        self.interrupt, self.flaws = interrupt, flaws
        self.pointed: Callable[[], None] = lambda: None
        self.limit, self.completed = limit, False
        self.dry = dry
        self.outside = Outside(topology)
        self.emptied: set[str] = set()
        self.returned: set[str] = set()
        self.applied: list[int] = []
        self.refused = 0
        self.restorable: list[int] = []
        self.replayed = self.drained = 0
        # Jobs that ran while others were replaying.
        self.beside = 0
        # Replays that were ended before they were done.
        self.ended_early = 0
        # Turns in which partitions of a slow node ran apart from the present.
        self.apart = 0
        self.handed_over = 0
        # The most checkpoints that were under way at a time, and turns in which epochs waited for one.
        self.at_once = self.stood_still = 0
        # Complete checkpoints, each found to hold the states of the history up to its epoch.
        self.compared = 0
        # Where shadows are to be; how often one took over.
        self.replicas: dict[str, str] = {}
        self.taken_over = 0
        self.stopped = self.over = False
        # How often a driver ended; how often all that was committed was in a checkpoint then.
        self.stops = self.left = 0
        # Operators whose queries may give tentative output -> the least fidelity.
        self.tentative: dict[str, float] = {}
        self.now = 1000.0
        self.interval = rng.choice([1.0, 3.0])
        self._present = 0
        self._turns = 0
        self._warm: set[str] = set()
        self._carriers: Mapping[type, Callable[[Any], Event | None]] = {
            HandOver: self._hand_over,
            RecordPlan: self._record_plan,
            RecordHomes: self._record_homes,
            RecordPosition: self._record_position,
            PointTo: self._point_to,
            PlaceTasks: self._place_tasks,
            PlanEpochs: self._plan_epochs,
            RunJob: self._run_job,
            StartReplay: self._start_replay,
            CancelReplay: self._cancel_replay,
            ReadAcknowledgements: self._read_acknowledgements,
            Retire: self._retire,
            Publish: self._publish,
        }
        self._start_driver()

    # ---- the driver ------------------------------------------------------------------------------

    def _start_driver(self) -> None:
        if deployed_since(self.plan, self.outside.log.generation):
            # What `spark_jobs.driver.fresh_start` leaves.
            life = self.outside.log.life
            self.outside = Outside(self.topology)
            self.outside.log.life = life
        latest, log = self.outside.latest, self.outside.log
        recorded = log.begin_life()
        if not self.topology.fed_back:
            recorded = replace(recorded, final=log.head == self.limit)
        checkpoints = Checkpoints(
            topology=self.topology.name,
            partitions=self.topology.partitions,
            interval=self.interval if self.topology.spec.checkpoints_at_once == 1 else 0.5,
            since=self.now,
            kept=complete_checkpoints(latest),
            highest=latest.highest,
            at_once=self.topology.spec.checkpoints_at_once,
            synchronous=self._synchronous,
        )
        self.machine = EpochMachine(self.topology, recorded, checkpoints, realtime=True, at=self.now)
        self.state: DriverState = "starting"
        self.replay: MemoryReplay | None = None

    def kill_driver(self) -> None:
        """SIGKILL. Lines that were not forced to disk may be lost."""
        self.outside.log.crash(self.rng)
        self._start_driver()

    def deploy_again(self, plan: Plan) -> None:
        """To go on from a checkpoint."""
        self.stopped = self.over = False
        self.plan = plan
        self._start_driver()

    def turn(self, *, present: int = 1) -> None:
        """One turn of the epoch loop; `present` new epochs fall due."""
        if self.over:
            return
        self._present += present
        self._turns += 1
        self._warm_up()
        self._pass(self.rng.choice([0.3, 1.0, 1.0, 3.0]) if self.flaws else 1.0)
        if self.flaws and self.rng.random() < 0.01:
            self._pass(70.0)  # after every time limit
        self._slow_down()
        under_way = len(self.machine.checkpoints.under_way)
        self.at_once = max(self.at_once, under_way)
        self.stood_still += self._synchronous and under_way > 0
        try:
            self._upload()
            over = self._replay_over()
            if over is not None:
                self._carry_out(self.machine.handle(over))
            self._carry_out(self.machine.handle(self._news()))
        except DriverKilledError:
            self.kill_driver()
        except ContradictionError as error:
            raise AssertionError(str(error)) from error

    @property
    def _synchronous(self) -> bool:
        return self.topology.spec.checkpoint_mode == "synchronous"

    def _carry_out(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            self.interrupt()
            if isinstance(instruction, MakeWay):
                raise DriverKilledError
            assert not isinstance(instruction, GiveUp), instruction
            if isinstance(instruction, End):
                if self.stopped:
                    self.over, self.stops = True, self.stops + 1
                    self.left += 0 < self.tracker.committed == self.latest[0]
                    return
                assert self.head == self.tracker.committed == self.latest[0], instruction
                self._validate_end()
                self.completed = True
                return
            carrier = self._carriers.get(type(instruction))
            answer = carrier(instruction) if carrier is not None else None
            if answer is not None:
                self._carry_out(self.machine.handle(answer))

    def _slow_down(self) -> None:
        """Now and then a node becomes slow, or is so no longer. Tasks take no time here: it is told."""
        slowness = self.machine.slowness
        if not self.flaws:
            slowness.nodes = frozenset()
        elif self.disks and self.rng.random() < 0.03:
            slowness.nodes ^= {self.rng.choice(sorted(self.disks))}
        self.apart += bool(self.machine._apart())

    def _pass(self, seconds: float) -> float:
        self.now += seconds
        return self.now

    def _news(self) -> TurnBegun:
        return TurnBegun(
            at=self.now,
            plan=self.plan,
            stopped=self.stopped,
            ready=self._ready() & set(self.plan.assignment.values()),
            warming=set(self.plan.assignment.values()) - self._ready(),
            latest_generation=self.outside.latest.generation,
            pin_seconds=self._pin_seconds(),
            misplaced=self.machine.plan is not None
            and self._absent(self.machine.placed) != self._known_absent,
            replicas=dict(self.replicas),
            tentative=dict(self.tentative),
        )

    def _pin_seconds(self) -> float:
        """Changes now and then. No dice are thrown, see `_warm_up`."""
        return zlib.crc32(f"pinning {self._turns // 8}".encode()) % 3 * 1.0 if self.flaws else 0.3

    @property
    def _known_absent(self) -> set[str]:
        tracker = self.tracker
        return tracker.absent | tracker.shadows.absent | tracker.branches.absent

    def _absent(self, plan: Plan) -> set[str]:
        ready = self._ready()
        named = {*self.topology.partitions, *plan.assignment}
        return {p for p in named if plan.assignment.get(p) not in ready}

    def _warm_up(self) -> None:
        """Executors need some turns until they can work. No dice are thrown, so that the schedules of known
        seeds stay as they are."""
        for node in sorted(self.disks.keys() - self._warm):
            if not self.flaws or zlib.crc32(f"{node} {self._turns}".encode()) % 3 == 0:
                self._warm.add(node)
        self._warm &= self.disks.keys()

    def _ready(self) -> set[str]:
        return self._warm & self.disks.keys()

    # ---- instructions ----------------------------------------------------------------------------

    def _record_plan(self, instruction: RecordPlan) -> None:
        generation = instruction.generation
        assert generation not in self.applied, f"plan {generation} was applied twice"
        self.applied.append(generation)
        self.outside.log.applied(generation, instruction.position, instruction.homes)

    def _record_homes(self, instruction: RecordHomes) -> None:
        log = self.outside.log
        self.taken_over += sum(log.homes[p] != node for p, node in instruction.homes.items())
        log.applied(log.generation, instruction.position, instruction.homes)

    def _record_position(self, instruction: RecordPosition) -> None:
        self.outside.log.commit(instruction.position, durable=instruction.durable)

    def _point_to(self, instruction: PointTo) -> CheckpointPointed:
        accepted = not (self.flaws and self.rng.random() < 0.1)
        if self.machine.checkpoints.pending is not None:
            self._validate_checkpoint(instruction.latest)
        if accepted:
            self.outside.latest = instruction.latest
            self.pointed()
        return CheckpointPointed(at=self.now, accepted=accepted)

    def _hand_over(self, instruction: HandOver) -> Event:
        if self.flaws and self.rng.random() < 0.02:
            return JobFailed(at=self.now, error="a node went away", cancelled=True, placing=True)
        done = {p for p in sorted(instruction.sources) if hand_over(self, instruction, p)}
        if self.flaws and self.rng.random() < 0.02:
            # Some states are there, but the driver does not get to know.
            return JobFailed(at=self.now, error="a node went away", cancelled=True, placing=True)
        self.handed_over += len(done)
        return HandedOver(at=self._pass(0.1), partitions=done)

    def _place_tasks(self, instruction: PlaceTasks) -> Event:
        if self.flaws and self.rng.random() < 0.01:
            return JobFailed(at=self.now, error="a node went away", cancelled=True, placing=True)
        absent = self._absent(instruction.plan)
        if self.replay is not None:
            return TasksPlaced(at=self.now, absent=None, reachable=True)
        return TasksPlaced(
            at=self._pass(0.1),
            absent=absent,
            reachable=bool(self._ready().intersection(instruction.plan.assignment.values())),
        )

    def _plan_epochs(self, instruction: PlanEpochs) -> EpochsPlanned:
        log = self.outside.log
        cyclic = bool(self.topology.fed_back)
        left = self._present if self.limit is None else max(0, self.limit - log.head)
        log.plan(min(self._present, left))
        self._present = 0
        next_due = self.now + (self.rng.uniform(0.0, 2.0) if self.flaws else 1.0)
        if self.limit is not None and log.head >= self.limit and instruction.after:
            assert cyclic, "an epoch is planned after the end of the input"
            log.plan_after(final=instruction.after == "final")
            self._validate_final()
        newest = log.plans.get(log.head)
        return EpochsPlanned(
            at=self.now,
            head=log.head,
            ended=self.limit is not None and log.head >= self.limit,
            next_due=next_due,
            final=newest is not None and newest.final,
            drained=newest.drained if newest is not None else 0,
        )

    def _run_job(self, instruction: RunJob) -> Event:
        assert self.machine.plan is not None
        assert not (self._synchronous and self.machine.checkpoints.under_way), "epochs go on"
        self._validate_log(instruction)
        self._validate_apart(instruction)
        job = MemoryJob(self, instruction, self.machine.placed)
        reports, disturbed = self._beside(job)
        self._validate_missing(reports)
        self.replayed += job.replayed
        seconds = self.rng.choice([0.1, 0.5, 2.0]) if self.flaws else 0.2
        if self.flaws and self.rng.random() < 0.02:
            error = "Job aborted due to stage failure"  # the effects of the step stay
            return JobFailed(at=self._pass(seconds), error=error, cancelled=self.rng.random() < 0.5)
        if disturbed and self.rng.random() < 0.5:
            return JobFailed(at=self._pass(seconds), error="executors are gone", cancelled=True)
        return JobEnded(at=self._pass(seconds), reports=reports, disturbed=disturbed)

    def _beside(self, job: MemoryJob) -> tuple[list[TaskReport], bool]:
        """Run a job; a replay under way goes on meanwhile, by any number of tasks."""
        self.beside += self.replay is not None
        steps = job.run()
        while True:
            while self.replay is not None and self.rng.random() < 0.2:
                self.replay.step()
            try:
                next(steps)
            except StopIteration as ended:
                result: tuple[list[TaskReport], bool] = ended.value
                return result

    def _start_replay(self, instruction: StartReplay) -> None:
        assert self.machine.plan is not None
        assert self.replay is None, "two replays at once"
        self._validate_log(instruction.job)
        self.replay = MemoryReplay(MemoryJob(self, instruction.job, self.machine.placed), self.rng)

    def _cancel_replay(self, instruction: CancelReplay) -> None:
        assert self.replay is not None
        self.replay.cancel()
        self.ended_early += self.replay.cancelled

    def _replay_over(self) -> ReplayEnded | ReplayFailed | None:
        """What became of the replay, if it is over."""
        replay = self.replay
        if replay is None:
            return None
        for _ in range(self.rng.randint(0, 3) if self.flaws else 1_000):
            replay.step()
        if replay.result is None and not replay.cancelled:
            return None
        self.replay, self.replayed = None, self.replayed + replay.job.replayed
        if replay.result is None or (self.flaws and self.rng.random() < 0.02):
            return ReplayFailed(at=self.now, error="no use any more", cancelled=replay.cancelled)
        reports, disturbed = replay.result
        self._validate_missing(reports)
        return ReplayEnded(at=self.now, took=self.rng.random(), reports=reports, disturbed=disturbed)

    def _read_acknowledgements(self, instruction: ReadAcknowledgements) -> AcknowledgementsRead:
        acks = self.outside.acks.get(instruction.checkpoint, {})
        return AcknowledgementsRead(at=self.now, acks=list(acks.values()))

    def _retire(self, instruction: Retire) -> None:
        self.outside.retire(list(instruction.kept), instruction.log_below, instruction.latest)

    def _publish(self, instruction: Publish) -> None:
        self.state = instruction.state
        self.refused, self.restorable = instruction.refused, instruction.restorable
        for checkpoint in filter(None, instruction.restorable):
            self._validate_states(checkpoint)

    # ---- the agents ------------------------------------------------------------------------------

    def _upload(self) -> None:
        """The agents continue their uploads, in order; some are slow, and some cannot be reached. Where
        several checkpoints may be under way, half of the agents have to wait for the storage."""
        several = self.topology.spec.checkpoints_at_once > 1
        for node, kept in self._kept().items():
            if several and self.flaws and zlib.crc32(f"storage {node} {self._turns}".encode()) % 2:
                continue
            waiting = list(kept.snapshots)
            if self.flaws:
                slow = self.rng.random() < 0.4
                waiting = waiting[: self.rng.randint(0, len(waiting))] if slow else waiting
            for snapshot in waiting:
                if node in self.disks:
                    self.outside.upload(node, snapshot, kept, self.interrupt)

    # ---- what must hold --------------------------------------------------------------------------

    def _kept(self) -> dict[str, Kept]:
        return {node: disk[self.topology.name] for node, disk in self.disks.items()}

    @property
    def tracker(self) -> ProgressTracker:
        return self.machine.tracker

    @property
    def in_force(self) -> Plan | None:
        return self.machine.plan

    @property
    def head(self) -> int:
        return self.outside.log.head

    @property
    def generation(self) -> int:
        return self.outside.log.generation

    @property
    def latest(self) -> tuple[int, int]:
        """Epoch and generation of the newest complete checkpoint."""
        return self.outside.latest.checkpoint, self.outside.latest.generation

    @property
    def kept(self) -> list[int]:
        """The complete checkpoints of the present history, ascending."""
        return list(self.outside.latest.kept)

    def settled(self) -> bool:
        return self.state == "running" and self.tracker.committed == self.head

    def validate(self) -> None:
        """Raises AssertionError if any output differs from that of a clean run."""
        self.outside.history.validate(self.tracker.committed)
        assert self.topology.deterministic or not self.replayed, "something was computed twice in a fork"

    def _validate_log(self, job: RunJob) -> None:
        """If the driver dies now, the next one knows only what was forced to disk. This must not claim epochs
        that this job computes again, nor need state that this job removes."""
        on_disk = self.outside.log.forced
        assert job.trim_below <= on_disk.checkpoint, "state is trimmed that the log on disk may ask for"
        for partition, reached in job.progress.items():
            if is_copy(partition):
                continue
            believed = on_disk.ahead.get(partition, on_disk.committed)
            assert believed <= reached, f"the log on disk has {partition} at {believed}, not at {reached}"

    def _validate_final(self) -> None:
        """No epoch after the input is final while rows are on feedback streams, unless it is the last one."""
        newest, limit = self.outside.log.plans[self.head], self.topology.spec.drain_epochs
        assert self.dry is not None
        assert not newest.final or self.head > self.dry or newest.drained >= limit, "an early end"

    def _validate_end(self) -> None:
        """The run ends with its input, or when nothing is left on feedback streams, or at the limit."""
        if not self.topology.fed_back:
            assert self.head == self.limit
            return
        newest, limit = self.outside.log.plans[self.head], self.topology.spec.drain_epochs
        self.drained = newest.drained
        assert newest.final
        assert self.dry is not None
        assert newest.drained == limit or (newest.drained < limit and self.head > self.dry)

    def _validate_apart(self, job: RunJob) -> None:
        """No partition advances in two jobs at once, and nothing goes that a replay reads."""
        if self.replay is None:
            return
        lane, replayed = job.lane, self.replay.job.lane
        assert replayed is not None
        advancing = {p for p in replayed.starts if replayed.end(p) > self.replay.job.job.progress[p]}
        running = lane.starts.keys() if lane is not None else set()
        assert not advancing & running, f"{sorted(advancing & running)} run in two jobs at once"
        assert not job.trim_below, "states go that a replay may read"
        assert not job.drop_buffers, "buffers go that a replay may read"

    def _validate_missing(self, reports: Sequence[TaskReport]) -> None:
        """A partition is asked to go on only where its node has the state, unless the disk was lost. A branch
        keeps its last state alone, and a driver may know of an older one."""
        assert self.machine.plan is not None
        for report in reports:
            for partition, one in report.partitions.items():
                node = self.machine.placed.assignment.get(partition)
                excused = node in self.emptied or is_branch(partition)
                assert not one.missing or excused, f"{partition} on {node}: {one.error}"
            for partition in report.lost:
                node = self.machine.placed.assignment.get(partition)
                assert node in self.emptied, f"{partition} on {node}: {report.forks[partition]}"

    def _validate_checkpoint(self, latest: LatestCheckpoint) -> None:
        """A complete checkpoint consists of snapshots of every partition under its own generation, and
        belongs to the present history."""
        acks = self.outside.acks.get(latest.checkpoint, {})
        for partition in self.topology.partitions:
            where = f"checkpoint {latest.checkpoint} of {partition}"
            ack = acks.get(partition)
            assert ack is not None, f"{where} was never acknowledged"
            assert ack.generation == latest.generation, f"{where} is of another generation"
        self._validate_states(latest.checkpoint)
        self.compared += 1

    def _validate_states(self, checkpoint: int) -> None:
        """What can be restored belongs to the present history."""
        stored = self.outside.stored.get(checkpoint, {})
        for partition in self.topology.partitions:
            where = f"checkpoint {checkpoint} of {partition}"
            done = self.outside.history.applied[partition, checkpoint]
            assert stored[partition].digest == done.state, f"{where} is of another history"
            if partition in self.topology.fed_back:
                sent = stored[partition].sent_back.digest
                assert sent == done.output, f"{where} lacks what was in transit"

    def buffered(self) -> int:
        """How many epochs of a channel nodes have buffered, but for those that were away when buffers were
        dropped."""
        there = [kept for node, kept in self._kept().items() if node not in self.returned]
        return sum(len(sent) for kept in there for sent in kept.buffers.values())
