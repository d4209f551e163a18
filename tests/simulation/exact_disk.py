"""What survives a crash, in memory: the disks of nodes, the epoch log, ZooKeeper and the checkpoint storage.

They take the place of files behind the interfaces the product uses. `step` is called before every operation
on them, and may raise: what was done so far stays, what was to follow never happens.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from domain.execution.epoch_machine import Recorded
from domain.execution.job import EpochPlan
from domain.execution.lanes import Channel
from domain.execution.progress import Position
from domain.messages import CheckpointAck, LatestCheckpoint
from domain.topology import Topology, split_partition
from domain.topology.copies import branch_of
from spark_jobs.state.store import StateMissingError
from tests.simulation.exact_symbols import (
    Applied,
    ContradictionError,
    History,
    Sent,
    SymbolicState,
    Version,
    epoch_plan,
    nothing_sent,
    slice_read,
)


class Snapshot(msgspec.Struct, frozen=True):
    """The manifest of a partition, left for upload."""

    checkpoint: int
    generation: int
    attempt: int
    partition: str
    version: Version


@dataclass(slots=True)
class Kept:
    """The files of one topology on a node: partition -> epoch -> attempt -> state; channel -> epoch -> sent
    output; and snapshots to upload."""

    states: dict[str, dict[int, dict[int, Version]]] = field(default_factory=dict)
    buffers: dict[Channel, dict[int, Sent]] = field(default_factory=dict)
    snapshots: list[Snapshot] = field(default_factory=list)


class Disk(defaultdict[str, Kept]):
    """The disk of a node, by topology."""

    def __init__(self) -> None:
        super().__init__(Kept)


class MemoryManifest(msgspec.Struct, frozen=True):
    epoch: int
    version: Version
    bytes: int = 0


class MemoryVersion(msgspec.Struct, frozen=True):
    manifest: MemoryManifest


class MemoryStore:
    """`spark_jobs.state.store.StateStore` of one partition without files."""

    def __init__(
        self,
        partition: str,
        kept: Kept,
        attempt: int,
        history: History,
        step: Callable[[], None],
        *,
        shadow: bool = False,
        branch: bool = False,
    ) -> None:
        self.shadow, self.branch = shadow, branch
        self.partition, self.attempt, self.history, self.step = partition, attempt, history, step
        self._kept = kept.states.setdefault(branch_of(partition) if branch else partition, {})
        # What a source partition read in each epoch.
        self.reads: dict[int, Applied] = {}

    def manifest(self, epoch: int) -> MemoryManifest:
        if epoch == 0:
            return MemoryManifest(0, Version(0, nothing_sent(self.partition)))
        attempts = self._kept.get(epoch)
        newest = max(attempts, default=0) if attempts and self.attempt else self.attempt
        if not attempts or newest not in attempts:
            raise StateMissingError(f"no state of epoch {epoch} of {self.partition}")
        return MemoryManifest(epoch, attempts[newest])

    def open(self, manifest: MemoryManifest) -> SymbolicState:
        return SymbolicState(manifest.version.digest, manifest.version.sent_back)

    def commit(self, state: SymbolicState, *, epoch: int, generation: int) -> MemoryManifest:
        self.step()
        version = Version(state.digest, state.sent_back)
        self.install(epoch, version)
        done = state.applied or self.reads.get(epoch)
        if done is not None and self.shadow:
            self.history.shadow(self.partition, epoch, done)
        elif done is not None and self.branch:
            self.history.branch(self.partition, epoch, done)
        elif done is not None:
            self.history.record(self.partition, epoch, done)
        return MemoryManifest(epoch, version)

    def install(self, epoch: int, version: Version) -> None:
        attempts = self._kept.setdefault(epoch, {})
        attempts[self.attempt] = version
        for older in [one for one in attempts if one < self.attempt]:
            del attempts[older]

    def begin_from(self, other: MemoryStore, epoch: int) -> None:
        self.step()
        manifest = other.manifest(epoch)
        self._kept.clear()
        if epoch:
            self.install(epoch, manifest.version)

    def versions(self, *, after: int, last: int) -> Iterator[MemoryVersion]:
        self.manifest(after)
        for epoch in range(after + 1, last + 1):
            yield MemoryVersion(self.manifest(epoch))

    def receive(self, version: MemoryVersion) -> None:
        self.step()
        self.install(version.manifest.epoch, version.manifest.version)

    def rollback(self, epoch: int) -> None:
        for later in [e for e in self._kept if e > epoch]:
            attempts = self._kept[later]
            for one in [one for one in attempts if not self.attempt or one <= self.attempt]:
                del attempts[one]
            if not attempts:
                del self._kept[later]

    def trim(self, *, below: int, keep: Iterable[int] = ()) -> None:
        self.step()
        kept = set(keep)
        for epoch in [e for e in self._kept if e < below and e not in kept]:
            del self._kept[epoch]


class MemoryLog:
    """`spark_jobs.driver.epoch_log.EpochLog` without a file: what was not forced to disk may be lost."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.plans: dict[int, EpochPlan] = {}
        self.head = 0
        self.life = 0
        self.generation = 0
        self.homes: dict[str, str] = {}
        # The last one on disk, and those after it.
        self._positions = [Position()]
        # Plans that went since then: a line that is not forced to disk says so.
        self._trimmed: dict[int, EpochPlan] = {}

    @property
    def position(self) -> Position:
        return self._positions[-1]

    @property
    def forced(self) -> Position:
        """The part that is on disk in any case."""
        return self._positions[0]

    def applied(self, generation: int, position: Position, homes: dict[str, str]) -> None:
        self.generation, self.homes = generation, dict(homes)
        self._positions = [position]
        self._trimmed = {}

    def commit(self, position: Position, *, durable: bool) -> None:
        self._positions.append(position)
        if durable:
            self._force()

    def plan(self, count: int) -> None:
        """So many more epochs are due."""
        for _ in range(count):
            self.head += 1
            self.plans[self.head] = epoch_plan(self.topology, self.head)
        if count:
            self._force()

    def plan_after(self, *, final: bool) -> None:
        """One epoch more after the end of the input."""
        drained = self.plans[self.head].drained + 1
        self.plan(1)
        plan = self.plans[self.head]
        self.plans[self.head] = msgspec.structs.replace(plan, final=final, drained=drained)

    def _force(self) -> None:
        del self._positions[:-1]
        self._trimmed = {}

    def trim(self, below: int) -> None:
        kept = {epoch: plan for epoch, plan in self.plans.items() if epoch >= min(below, self.head)}
        self._trimmed |= {epoch: plan for epoch, plan in self.plans.items() if epoch not in kept}
        self.plans = kept

    def crash(self, rng: random.Random) -> None:
        """The driver dies: of the lines that were not forced to disk, only some have reached it."""
        lines = len(self._positions)
        del self._positions[rng.randrange(lines) + 1 :]
        if len(self._positions) < lines:
            self.plans = {**self._trimmed, **self.plans}
        self._trimmed = {}

    def begin_life(self) -> Recorded:
        self.life += 1
        return Recorded(
            head=self.head,
            oldest=min(self.plans, default=self.head + 1),
            final=self.head > 0 and self.plans[self.head].final,
            drained=self.plans[self.head].drained if self.head else 0,
            life=self.life,
            position=self.position,
            generation=self.generation,
            homes=dict(self.homes),
        )


class Outside:
    """The data that survives all processes of a topology: its log, its outputs, ZooKeeper's values and the
    storage. acks: checkpoint -> partition -> acknowledgement. stored: checkpoint -> partition -> state."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.history = History(topology)
        self.log = MemoryLog(topology)
        self.latest = LatestCheckpoint(checkpoint=0, generation=0, completed_at=0.0, size_bytes=0)
        self.acks: dict[int, dict[str, CheckpointAck]] = {}
        self.stored: dict[int, dict[str, Version]] = {}

    def upload(self, node: str, snapshot: Snapshot, kept: Kept, step: Callable[[], None]) -> None:
        """Upload a snapshot as an agent does: first the state, then the acknowledgement."""
        versions = kept.states.get(snapshot.partition, {}).get(snapshot.checkpoint, {})
        error = "" if snapshot.version in versions.values() else "its files are gone"
        if not error:
            step()
            self.stored.setdefault(snapshot.checkpoint, {})[snapshot.partition] = snapshot.version
        step()
        self.acks.setdefault(snapshot.checkpoint, {})[snapshot.partition] = CheckpointAck(
            partition=snapshot.partition,
            checkpoint=snapshot.checkpoint,
            generation=snapshot.generation,
            attempt=snapshot.attempt,
            node=node,
            size_bytes=1,
            uploaded_bytes=1,
            files=1,
            duration=0.0,
            error=error,
        )
        kept.snapshots.remove(snapshot)

    def retire(self, kept: list[int], below: int, latest: int) -> None:
        """Remove checkpoints older than those kept, and acknowledgements older than `latest`."""
        self.stored = {k: one for k, one in self.stored.items() if not kept or k >= kept[0]}
        self.log.trim(below)
        self.acks = {k: one for k, one in self.acks.items() if k >= latest}


class MemoryStorage:
    """`spark_jobs.executor.storage.PartitionStorage` without files."""

    def __init__(
        self,
        outside: Outside,
        kept: Kept,
        partition: str,
        *,
        attempt: int,
        generation: int,
        step: Callable[[], None],
        shadow: bool = False,
        branch: bool = False,
    ) -> None:
        self.outside, self.kept, self.partition = outside, kept, partition
        self.generation, self.step, self.copy = generation, step, shadow or branch
        self.exact = MemoryStore(partition, kept, attempt, outside.history, step, shadow=shadow)
        self.store = self.exact
        if branch:
            self.store = MemoryStore(partition, kept, attempt, outside.history, step, branch=True)

    def restore(self, checkpoint: int) -> None:
        self.bring(checkpoint)
        self.step()
        self.store.rollback(checkpoint)

    def bring(self, checkpoint: int) -> None:
        self.step()
        if checkpoint:
            stored = self.outside.stored.get(checkpoint, {}).get(self.partition)
            if stored is None:
                raise ContradictionError(f"checkpoint {checkpoint} of {self.partition} is not in storage")
            self.store.install(checkpoint, stored)

    def whole(self, checkpoint: int) -> bool:
        return checkpoint == 0 or self.partition in self.outside.stored.get(checkpoint, {})

    def begin_branch(self, epoch: int) -> None:
        self.store.begin_from(self.exact, epoch)

    def end_branch(self) -> None:
        self.kept.states.pop(branch_of(self.partition), None)

    def _by_no_copy(self, what: str) -> None:
        if self.copy:
            raise ContradictionError(f"a copy of {self.partition} {what}")

    def read(self, plan: EpochPlan) -> Sent:
        start, end = plan.slices[split_partition(self.partition)[0]]
        output = slice_read(self.partition, start["tuple"], end["tuple"])
        self.store.reads[plan.epoch] = Applied(0, (), 0, output)
        return Sent(self.partition, output)

    def write(self, epoch: int, table: Sent) -> None:
        self._by_no_copy("wrote to the sink")
        self.step()
        self.outside.history.write(self.partition, epoch, table.digest)

    def write_tentative(self, epoch: int, table: Sent, fidelity: float) -> None:
        self.step()
        self.outside.history.write_tentative(self.partition, epoch, table.digest, fidelity)

    def sample(self, epoch: int, table: Sent) -> None:
        """No user looks at rows here."""

    def snapshot(self, manifest: MemoryManifest) -> None:
        self._by_no_copy("left a snapshot")
        self.step()
        self.kept.snapshots.append(
            Snapshot(manifest.epoch, self.generation, self.store.attempt, self.partition, manifest.version)
        )
