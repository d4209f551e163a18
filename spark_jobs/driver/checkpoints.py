"""The coordinator of global checkpoints: asks for P_k, counts acknowledgements, declares cp(P_k) or failure.

Incremental recovery, section 4.1: a checkpoint is global once every partition acknowledged it. The epoch
boundary is the barrier, so the partitions' states are aligned by construction; uploading goes on in the
background on the nodes while later epochs run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from domain.messages import (
    CheckpointAck,
    CheckpointReport,
    CheckpointState,
    LatestCheckpoint,
)

UPLOAD_TIMEOUT = 60.0
KEEP = 3
"""So many complete checkpoints stay in storage."""


class AcknowledgementStore(Protocol):
    def acknowledgements(self, checkpoint: int) -> list[CheckpointAck]: ...

    def complete(self, latest: LatestCheckpoint) -> bool: ...


@dataclass(slots=True)
class Pending:
    checkpoint: int
    generation: int
    started_at: float
    request: int
    acknowledged: int = 0
    acknowledgements: list[CheckpointAck] = field(default_factory=list)


def complete_checkpoints(newest: LatestCheckpoint | None) -> list[int]:
    """Those in storage, ascending, as the driver before this one left them."""
    if newest is None:
        return []
    return newest.kept or [newest.checkpoint] * (newest.checkpoint > 0)


@dataclass(slots=True)
class Checkpoints:
    """At most one checkpoint is under way. `interval` is seconds between two starts. kept: the complete ones
    of the present history that stay in storage, ascending. highest: of those ever completed."""

    topology: str
    partitions: list[str]
    interval: float
    store: AcknowledgementStore
    report: Callable[[CheckpointReport], None]
    kept: list[int] = field(default_factory=list)
    highest: int = 0
    pending: Pending | None = None
    clock: Callable[[], float] = time.time
    _next_at: float = 0.0
    _served: int = 0
    ended: bool = field(default=False)

    def __post_init__(self) -> None:
        self.highest = max(self.highest, self.latest)
        self._next_at = self.clock() + self.interval

    @property
    def latest(self) -> int:
        """The newest complete checkpoint, 0 if none."""
        return self.kept[-1] if self.kept else 0

    def set_interval(self, seconds: float) -> None:
        """From now on, a checkpoint every so many seconds."""
        self.interval = seconds
        self._next_at = self.clock() + seconds

    def wanted(self, request: int) -> bool:
        """Whether the next job should end with punctuation: it is time, or somebody asked."""
        if self.pending is not None:
            return False
        return request > self._served or self.clock() >= self._next_at

    def started(self, *, checkpoint: int, generation: int, request: int) -> None:
        self._next_at = self.clock() + self.interval
        self._served = max(self._served, request)
        self.pending = Pending(checkpoint, generation, self.clock(), request)
        self._report("started")

    def gone_back(self, *, checkpoint: int, generation: int) -> None:
        """Everybody starts again from an older checkpoint than the newest: later ones belong to an undone
        history."""
        if checkpoint >= self.latest:
            return
        self.highest = max(self.highest, self.latest)
        self.kept = [number for number in self.kept if number <= checkpoint]
        self._point(generation, size=0)

    def served(self, request: int) -> None:
        """Requests up to this one were answered before this driver started."""
        self._served = request

    def poll(self) -> None:
        """Look at the acknowledgements; sets `ended` when the pending checkpoint completed or failed."""
        pending = self.pending
        if pending is None:
            return
        acks = {
            ack.partition: ack
            for ack in self.store.acknowledgements(pending.checkpoint)
            if ack.generation == pending.generation
        }
        pending.acknowledgements = list(acks.values())
        errors = [ack for ack in acks.values() if ack.error]
        if errors:
            first = errors[0]
            self.fail(f"{first.partition} on {first.node}: {first.error}")
        elif all(partition in acks for partition in self.partitions):
            self._complete(pending, list(acks.values()))
        elif self.clock() - pending.started_at > UPLOAD_TIMEOUT:
            missing = [partition for partition in self.partitions if partition not in acks]
            self.fail(f"not acknowledged in {UPLOAD_TIMEOUT:.0f} s by {', '.join(missing[:5])}")
        elif len(acks) != pending.acknowledged:
            pending.acknowledged = len(acks)
            self._report("acknowledged", sum(ack.size_bytes for ack in acks.values()))

    def _complete(self, pending: Pending, acks: list[CheckpointAck]) -> None:
        size = sum(ack.size_bytes for ack in acks)
        before = self.kept
        self.kept = [*before, pending.checkpoint][-KEEP:]
        self.highest = max(self.highest, pending.checkpoint)
        if not self._point(pending.generation, size):
            self.kept = before
            return  # ZooKeeper is away; the next poll tries again
        pending.acknowledged = len(acks)
        self._report("completed", size)
        self.pending = None
        self.ended = True

    def _point(self, generation: int, size: int) -> bool:
        """Say in ZooKeeper which is the newest; False if it did not take that."""
        return self.store.complete(
            LatestCheckpoint(
                checkpoint=self.latest,
                generation=generation,
                completed_at=self.clock(),
                size_bytes=size,
                kept=self.kept,
                highest=self.highest,
            )
        )

    def fail(self, cause: str) -> None:
        """Give up the pending checkpoint; the newest complete one stays in force."""
        if self.pending is not None:
            self._report("failed", cause=cause)
            self.pending = None
            self.ended = True

    def _report(self, state: CheckpointState, size: int = 0, cause: str = "") -> None:
        assert self.pending is not None  # noqa: S101 - callers checked
        ended = state in ("completed", "failed")
        self.report(
            CheckpointReport(
                topology=self.topology,
                checkpoint=self.pending.checkpoint,
                generation=self.pending.generation,
                state=state,
                acknowledged=self.pending.acknowledged,
                total=len(self.partitions),
                size_bytes=size,
                started_at=self.pending.started_at,
                ended_at=self.clock() if ended else None,
                cause=cause,
                request=self.pending.request,
                kept=self.kept,
                acknowledgements=self.pending.acknowledgements if ended else [],
            )
        )
