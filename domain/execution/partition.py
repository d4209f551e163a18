"""One partition's protocol as a state machine: events in, instructions out.

It carries Algorithm 1 of incremental recovery (order-preserving processing): tuples arrive in batches, one
batch per input and epoch; a batch is processed when the barriers of all inputs for that epoch are there, in
the order of the source partitions; what was processed before is a duplicate and is dropped by its sequence
number, which here is the epoch, since a batch is atomic. A partition that misses an input of an epoch waits:
it never skips one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from domain.topology.copies import operator_of

Payload = TypeVar("Payload")


class Batch(msgspec.Struct, Generic[Payload], frozen=True):
    """All tuples that `source` sent us in `epoch`, followed by its barrier."""

    source: str
    epoch: int
    payload: Payload


class SnapshotRequest(msgspec.Struct, frozen=True):
    """Punctuation P_k: acknowledge the state after epoch `checkpoint`."""

    checkpoint: int


class Processed(msgspec.Struct, frozen=True):
    """The shell applied the epoch and its state is committed."""

    epoch: int


class Process(msgspec.Struct, Generic[Payload], frozen=True):
    """Apply an epoch to the state: the batches, ordered by source partition."""

    epoch: int
    batches: tuple[Batch[Payload], ...]


class Acknowledge(msgspec.Struct, frozen=True):
    """Leave the snapshot of this checkpoint for upload."""

    checkpoint: int


class DropDuplicate(msgspec.Struct, frozen=True):
    """The batch was processed before (`seq <= lastSeq` in Algorithm 1)."""

    source: str
    epoch: int


@dataclass(slots=True)
class PartitionRuntime(Generic[Payload]):
    """The runtime of one partition. `progress` is the last epoch applied; `inputs` the upstream partitions.

    A source partition has no inputs; it is driven by `start(epoch)`, one call per slice of the epoch log.
    """

    partition: str
    inputs: Sequence[str]
    progress: int
    _last_seq: dict[str, int] = field(init=False)
    _arrived: dict[int, dict[str, Batch[Payload]]] = field(default_factory=dict)
    _snapshots: set[int] = field(default_factory=set)
    _processing: int | None = None

    def __post_init__(self) -> None:
        self.inputs = sorted(self.inputs)
        self._last_seq = dict.fromkeys(self.inputs, self.progress)

    def handle(
        self, event: Batch[Payload] | SnapshotRequest | Processed
    ) -> list[Process[Payload] | Acknowledge | DropDuplicate]:
        """Take one event; the shell carries out the instructions in order."""
        if isinstance(event, Batch):
            return self._batch(event)
        if isinstance(event, SnapshotRequest):
            return self._snapshot(event.checkpoint)
        return self._processed(event.epoch)

    def start(self, epoch: int) -> list[Process[Payload] | Acknowledge | DropDuplicate]:
        """A source partition is told to read its slice of `epoch`."""
        if self.inputs:
            raise ValueError(f"{self.partition} is no source: it starts when its inputs arrive")
        if epoch <= self.progress:
            return [DropDuplicate(self.partition, epoch)]
        if epoch != self.progress + 1:
            raise ValueError(f"{self.partition} applied epoch {self.progress} and cannot skip to {epoch}")
        self._processing = epoch
        return [Process(epoch, ())]

    def missing(self, epoch: int) -> list[str]:
        """The inputs that have not delivered `epoch`."""
        arrived = self._arrived.get(epoch, {})
        return [source for source in self.inputs if source not in arrived]

    def _batch(self, batch: Batch[Payload]) -> list[Process[Payload] | Acknowledge | DropDuplicate]:
        last = self._last_seq.get(batch.source)
        if last is None:
            raise ValueError(f"{self.partition} does not subscribe to {batch.source}")
        arrived = self._arrived.setdefault(batch.epoch, {})
        if batch.epoch <= last or batch.epoch == self._processing or batch.source in arrived:
            if not arrived:
                del self._arrived[batch.epoch]
            return [DropDuplicate(batch.source, batch.epoch)]
        arrived[batch.source] = batch
        return self._next()

    def _next(self) -> list[Process[Payload] | Acknowledge | DropDuplicate]:
        epoch = self.progress + 1
        if self._processing is not None or not self.inputs or self.missing(epoch):
            return []
        self._processing = epoch
        arrived = self._arrived.pop(epoch)
        return [Process(epoch, tuple(arrived[source] for source in self.inputs))]

    def _processed(self, epoch: int) -> list[Process[Payload] | Acknowledge | DropDuplicate]:
        if epoch != self._processing:
            raise ValueError(f"{self.partition} was not processing epoch {epoch} but {self._processing}")
        self._processing = None
        self.progress = epoch
        for source in self.inputs:
            self._last_seq[source] = epoch
        done: list[Process[Payload] | Acknowledge | DropDuplicate] = []
        if epoch in self._snapshots:
            self._snapshots.discard(epoch)
            done.append(Acknowledge(epoch))
        return done + self._next()

    def _snapshot(self, checkpoint: int) -> list[Process[Payload] | Acknowledge | DropDuplicate]:
        if checkpoint == self.progress:
            return [Acknowledge(checkpoint)]
        if checkpoint > self.progress:
            self._snapshots.add(checkpoint)
        return []

    def validate_state(self) -> None:
        """Invariants, checked after each step of a test."""
        assert all(seq == self.progress for seq in self._last_seq.values()), self  # noqa: S101 - test invariant
        assert all(epoch > self.progress for epoch in self._arrived), self  # noqa: S101 - test invariant
        assert self._processing in (None, self.progress + 1), self  # noqa: S101 - test invariant


def inputs_in_order(batches: Iterable[Batch[Payload]]) -> dict[str, list[Payload]]:
    """Payloads by source operator, in the order the runtime fixed."""
    by_operator: dict[str, list[Payload]] = {}
    for batch in batches:
        by_operator.setdefault(operator_of(batch.source), []).append(batch.payload)
    return by_operator
