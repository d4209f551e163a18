# ruff: noqa: S101 - the assertions are what this module is for
"""A topology run tuple for tuple without Spark or files: the real conductor and partition runtimes over nodes
whose disks are dictionaries.

Operators are symbolic (see `symbolic`). Jobs are cut short by nodes that die in the middle, tasks run twice,
and the driver forgets what it had not yet written down.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from domain.execution.lanes import Lane
from domain.execution.partition import Batch, PartitionRuntime, Process, Processed
from domain.execution.progress import Conductor, Position
from domain.messages import DriverState, Plan
from domain.simulation.symbolic import Digest, Disk, History, Kept, epoch_apply
from domain.topology import Topology


class DriverKilledError(Exception):
    """The driver dies here; nothing after it happens."""


@dataclass(slots=True)
class PendingCheckpoint:
    epoch: int
    generation: int
    acknowledged: set[str] = field(default_factory=set)


class ExactRun:
    """One topology. `disks` holds the nodes alive, and is shared between runs. `interrupt` is called between
    any two tasks: it may take nodes out of `disks` or raise `DriverKilledError`.

    plan: the one in ZooKeeper. latest: epoch and generation of the newest complete checkpoint. kept: those in
    storage, of the present history.
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
    ) -> None:
        self.topology, self.disks, self.plan, self.rng = topology, disks, plan, rng
        self.interrupt, self.flaws = interrupt, flaws
        self.head = 0
        self.latest = (0, 0)
        self.kept: list[int] = []
        self.highest = 0
        self.stored: dict[int, dict[str, Digest]] = {0: dict.fromkeys(topology.partitions, 0)}
        self.history = History(topology)
        self.applied: list[int] = []
        self.replayed = 0
        self._positions = [Position()]
        self._homes: dict[str, str] = {}
        self.generation = 0
        self._start_driver()

    # ---- the driver ------------------------------------------------------------------------------

    def _start_driver(self) -> None:
        self.conductor = Conductor(self.topology, self._positions[-1], self._homes)
        self.in_force: Plan | None = None
        self.pending: PendingCheckpoint | None = None
        self._drop = True
        self._held: set[str] = set()
        self.state: DriverState = "starting"

    def kill_driver(self) -> None:
        """SIGKILL. What it wrote since the last plan may not have reached the disk."""
        del self._positions[max(1, len(self._positions) - self.rng.randrange(3)) :]
        self._start_driver()

    def turn(self, *, present: int = 1) -> None:
        """One turn of the epoch loop; `present` new epochs fall due."""
        try:
            self._turn(present)
        except DriverKilledError:
            self.kill_driver()

    def _turn(self, present: int) -> None:
        self.head += present
        self._adopt()
        if self.in_force is None:
            return
        conductor = self.conductor
        conductor.set_absent(self._unreachable())
        if conductor.absent:
            self.pending = None
        replay = self.rng.choice([0, 1, 2, 3, 8])
        lanes = conductor.lanes(head=self.head, held=self._held, limit=4, replay=replay)
        if conductor.contradicts(lanes):
            conductor.start_again()
            self.pending, self._positions = None, [conductor.position]  # on disk before the job
            lanes = conductor.lanes(head=self.head, held=self._held, limit=4, replay=replay)
        self._held = set()
        if not lanes:
            self._set_state()
            return
        last = lanes[0].last
        punctuated = self.pending is None and last > self.highest + 2 and conductor.whole(lanes, last)
        if self._drop:
            for disk in self._my_disks():
                disk.buffers.clear()
        progress = dict(conductor.progress)
        reached, missing, unbuffered, failed = self._job(lanes, progress)
        if self.flaws and self.rng.random() < 0.02:
            return  # Spark gave the job up after all; its effects stay
        if self._drop:
            self._drop = False
            conductor.dropped()
        conductor.coverage.forget(unbuffered)
        conductor.take(lanes, reached, head=self.head)
        conductor.lost_state(missing)
        self._held = failed - missing
        self._positions.append(conductor.position)
        if missing:
            self.pending, self._positions = None, self._positions[-1:]
        if punctuated and all(epoch == last for epoch in conductor.progress.values()):
            self.pending = PendingCheckpoint(last, self.in_force.generation)
        self._acknowledge()
        self._set_state()

    def _adopt(self) -> None:
        plan = self.plan
        if self.in_force is not None and plan.generation <= self.in_force.generation:
            return
        if not set(plan.assignment.values()) <= self.disks.keys() and self.rng.random() < 0.8:
            return  # executors are missing; in the end patience runs out
        known = plan.generation <= self.generation
        self.in_force = plan
        self.conductor.adopt(plan, refresh=not known)
        if not known:
            assert plan.generation not in self.applied, f"plan {plan.generation} was applied twice"
            self.applied.append(plan.generation)
            if self.conductor.checkpoint < self.latest[0]:
                self.latest = (self.conductor.checkpoint, plan.generation)
                self.kept = [epoch for epoch in self.kept if epoch <= self.conductor.checkpoint]
            self.generation = plan.generation
            self._positions, self._homes = [self.conductor.position], self.conductor.homes
        elif self.latest[1] >= plan.generation:
            self.conductor.stop_buffering()
        self.pending = None

    def _unreachable(self) -> set[str]:
        assert self.in_force is not None
        assignment = self.in_force.assignment
        return {p for p in self.topology.partitions if assignment.get(p) not in self.disks}

    def _set_state(self) -> None:
        conductor = self.conductor
        if conductor.absent or self._held:
            self.state = "degraded"
        elif conductor.restore:
            self.state = "restoring"
        else:
            self.state = "replaying" if conductor.behind(self.head) else "running"

    # ---- a job -----------------------------------------------------------------------------------

    def _job(
        self, lanes: list[Lane], progress: dict[str, int]
    ) -> tuple[dict[str, int], set[str], set[str], set[str]]:
        """Run the lanes; what was reached, whose state was missing, whose buffers were, who failed."""
        reached: dict[str, int] = {}
        missing: set[str] = set()
        unbuffered: set[str] = set()
        failed: set[str] = set()
        for lane in lanes:
            arrived: dict[str, list[Batch[Digest]]] = {}
            for partition in self.topology.partitions:
                if partition not in lane.starts and partition not in lane.serves:
                    continue
                self.interrupt()
                disk = self._disk(partition)
                if disk is None:
                    continue  # Spark ran the task elsewhere; it found itself misplaced
                # Spark repeats a task whose executor died. Those of operators that are not deterministic are
                # not believed then; the real driver starts everybody again.
                repeats = self.topology.deterministic and self.flaws and self.rng.random() < 0.05
                for _ in range(1 + repeats):
                    if partition in lane.serves and not self._serve(disk, lane, partition, progress, arrived):
                        unbuffered.add(partition)
                    if partition in lane.starts:
                        try:
                            epoch = self._task(disk, lane, partition, progress, arrived)
                        except LookupError:
                            if lane.last > progress[partition]:
                                missing.add(partition)
                            continue
                        if lane.last > progress[partition]:
                            reached[partition] = epoch
                if partition in reached and self.flaws and self.rng.random() < 0.01:
                    failed.add(partition)  # its sink could not be written after its last epoch
        return reached, missing, unbuffered, failed

    def _disk(self, partition: str) -> Kept | None:
        """Where the partition runs; None if that node is dead or no plan places it."""
        assert self.in_force is not None
        disk = self.disks.get(self.in_force.assignment.get(partition, ""))
        return None if disk is None else disk[self.topology.name]

    def _serve(
        self,
        disk: Kept,
        lane: Lane,
        partition: str,
        progress: dict[str, int],
        arrived: dict[str, list[Batch[Digest]]],
    ) -> bool:
        for target in lane.serves[partition]:
            kept = disk.buffers.get((partition, target), {})
            for epoch in range(lane.starts[target] + 1, min(progress[partition], lane.last) + 1):
                if epoch not in kept:
                    return False
                arrived.setdefault(target, []).append(Batch(partition, epoch, kept[epoch]))
        return True

    def _task(
        self,
        disk: Kept,
        lane: Lane,
        partition: str,
        progress: dict[str, int],
        arrived: dict[str, list[Batch[Digest]]],
    ) -> int:
        applied, start = progress[partition], lane.starts[partition]
        if partition in self.conductor.restore:
            self._install(disk, partition, self.conductor.restore[partition])
        states = disk.states.setdefault(partition, {})
        if start and start not in states:
            raise LookupError(partition)
        state = states.get(start, 0)
        runtime: PartitionRuntime[Digest] = PartitionRuntime(
            partition, self.topology.upstream(partition), start
        )
        events = sorted(arrived.get(partition, ()), key=lambda batch: batch.epoch)
        work = [runtime.handle(batch) for batch in events] if runtime.inputs else []
        if not runtime.inputs:
            work = [runtime.start(start + 1)] if lane.last > start else []
        queue = [instruction for group in work for instruction in group]
        while queue:
            instruction = queue.pop(0)
            if not isinstance(instruction, Process):
                continue
            epoch = instruction.epoch
            if epoch > lane.last:
                break
            inputs = tuple((batch.source, batch.payload) for batch in instruction.batches)
            if epoch == applied + 1 and start < applied:
                state = states[applied]  # the fork ends here
            chance = 0 if self.topology.deterministic else self.rng.getrandbits(60)
            done = epoch_apply(partition, epoch, state, inputs, chance)
            state = done.state
            if epoch > applied:
                states[epoch] = state
                self.history.record(partition, epoch, done)
            else:
                self.replayed += 1
            self._emit(disk, lane, partition, epoch, done.output, progress, arrived)
            queue += runtime.handle(Processed(epoch))
            if not runtime.inputs and epoch < lane.last:
                queue += runtime.start(epoch + 1)
        runtime.validate_state()
        return runtime.progress

    def _emit(
        self,
        disk: Kept,
        lane: Lane,
        partition: str,
        epoch: int,
        output: Digest,
        progress: dict[str, int],
        arrived: dict[str, list[Batch[Digest]]],
    ) -> None:
        for target in self.topology.downstream(partition):
            if epoch > lane.starts.get(target, epoch):
                arrived.setdefault(target, []).append(Batch(partition, epoch, output))
            elif self.conductor.buffering and target not in lane.starts and epoch > progress[target]:
                disk.buffers.setdefault((partition, target), {})[epoch] = output

    def _install(self, disk: Kept, partition: str, checkpoint: int) -> None:
        stored = self.stored.get(checkpoint, {}).get(partition)
        assert stored is not None, f"checkpoint {checkpoint} of {partition} was never stored"
        disk.states[partition] = {checkpoint: stored}
        for channel in [c for c in disk.buffers if c[0] == partition]:
            del disk.buffers[channel]

    # ---- checkpoints -----------------------------------------------------------------------------

    def _acknowledge(self) -> None:
        """Some of the uploads under way arrive; with the last one the checkpoint is complete."""
        pending = self.pending
        if pending is None:
            return
        stored = self.stored.setdefault(pending.epoch, {})
        for partition in self.topology.partitions:
            disk = self._disk(partition)
            if disk is not None and (not self.flaws or self.rng.random() < 0.7):
                if pending.epoch not in disk.states.get(partition, {}):
                    self.pending = None  # the disk is another one: this snapshot will never come
                    return
                stored[partition] = disk.states[partition][pending.epoch]
                pending.acknowledged.add(partition)
        if len(pending.acknowledged) < len(self.topology.partitions):
            return
        self.latest, self.pending = (pending.epoch, pending.generation), None
        self.kept, self.highest = [*self.kept, pending.epoch][-3:], pending.epoch
        self._drop = self._drop or self.conductor.buffers_kept
        self.conductor.completed(pending.epoch)
        self._positions = [self.conductor.position]  # on disk before anything older is trimmed
        self._trim()

    def _trim(self) -> None:
        below = min(self.conductor.committed, self.conductor.checkpoint)
        for partition in self.topology.partitions:
            disk = self._disk(partition)
            states = disk.states.get(partition, {}) if disk is not None else {}
            for epoch in [e for e in states if e < below]:
                del states[epoch]

    # ---- what must hold --------------------------------------------------------------------------

    def _my_disks(self) -> Iterable[Kept]:
        return [disk[self.topology.name] for disk in self.disks.values()]

    def settled(self) -> bool:
        return self.state == "running" and self.conductor.committed == self.head

    def validate(self) -> None:
        """Raises AssertionError if any output is not what it has to be."""
        self.history.validate(self.conductor.committed)
        assert self.topology.deterministic or not self.replayed, "something was computed twice in a fork"

    def buffered(self) -> int:
        """Epochs of channels that are buffered anywhere."""
        return sum(len(kept) for disk in self._my_disks() for kept in disk.buffers.values())
