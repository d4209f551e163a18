"""The coordinator of global checkpoints: asks for P_k, counts acknowledgements, declares cp(P_k) or failure.
Pure.

Incremental recovery, section 4.1: a checkpoint is global once every partition acknowledged it. The epoch
boundary is the barrier, so the partitions' states are aligned by construction; uploading goes on in the
background on the nodes while later epochs run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from domain.execution.instructions import PointTo, TellCheckpoint, TellProblem
from domain.messages import (
    CheckpointAck,
    CheckpointReport,
    CheckpointState,
    LatestCheckpoint,
)
from domain.topology.spec import FEWEST_KEPT

UPLOAD_TIMEOUT = 60.0
TOLERATED = 2
STANDSTILL = 10.0
"""Seconds after which operators are told that epochs stand still for a synchronous checkpoint."""
SPREAD = 5.0
"""Seconds over which the uploads of a checkpoint are spread out at most."""
STANDING = (
    "The input waits, and no query gives output. Make the storage of checkpoints answer "
    "(RESURGE_CHECKPOINTS), or have checkpoints made asynchronously (`checkpoint_mode`)."
)
FAILING = (
    "Outputs go on, and a recovery goes back to the newest complete checkpoint. Make the storage of "
    "checkpoints work again (RESURGE_CHECKPOINTS); the list of checkpoints has the cause of each failure."
)


@dataclass(slots=True)
class Pending:
    """A checkpoint under way. attempt: of the job that left its snapshots. Those of an earlier job may be
    of a history that was undone, and of the same number where no later epoch follows."""

    checkpoint: int
    generation: int
    attempt: int
    started_at: float
    request: int
    completed_at: float = 0.0
    acknowledged: int = 0
    acknowledgements: list[CheckpointAck] = field(default_factory=list)
    standstill_told: bool = False


def complete_checkpoints(newest: LatestCheckpoint | None) -> list[int]:
    """Those in storage, ascending, as the driver before this one left them. newest: what ZooKeeper says."""
    if newest is None:
        return []
    return newest.kept or [newest.checkpoint] * (newest.checkpoint > 0)


@dataclass(slots=True)
class Checkpoints:
    """At most `at_once` checkpoints are under way (`under_way`, ascending), and end in this order: of a later
    one acknowledgements are looked at when those before it have ended. synchronous: epochs stand still while
    one is under way. `interval` is seconds between two starts, the first one after `since`; `pause` the least
    seconds between the end of one and the start of the next, unless an operator asks; `timeout` the seconds
    that acknowledgements may take. tolerated: so many may fail in a row before that is a problem; those that
    a plan or a restored partition ended do not count. kept: the complete ones of the present history that
    stay in storage, ascending. highest: of those ever completed. ended: one completed or failed, and what
    follows from that is still to do. held: the one from which a plan starts that is still to be applied, None
    without such a plan; it stays, however many newer ones complete. keep: so many of the newest stay; of
    these not what was completed `keep_for` seconds ago or more, but for the newest few. completed: when those
    in `kept` were, as far as it is known."""

    topology: str
    partitions: list[str]
    interval: float
    since: float
    kept: list[int] = field(default_factory=list)
    highest: int = 0
    under_way: list[Pending] = field(default_factory=list)
    at_once: int = 1
    synchronous: bool = False
    ended: bool = False
    held: int | None = None
    keep: int = FEWEST_KEPT
    keep_for: float = math.inf
    pause: float = 0.0
    timeout: float = UPLOAD_TIMEOUT
    tolerated: int = TOLERATED
    completed: dict[int, float] = field(default_factory=dict)
    _failures: int = 0
    _next_at: float = 0.0
    _asked: int = 0
    _served: int = 0

    def __post_init__(self) -> None:
        if self.keep < 1:
            raise ValueError(f"at least one checkpoint must stay in storage, not {self.keep}")
        self.highest = max(self.highest, self.latest)
        self._next_at = self.since + self.interval
        self.completed = {number: self.completed.get(number, self.since) for number in self.kept}

    @property
    def latest(self) -> int:
        """The newest complete checkpoint, 0 if none."""
        return self.kept[-1] if self.kept else 0

    @property
    def spread(self) -> float:
        """Seconds over which uploads may be spread out, so that epochs beside them keep their latency: not
        where epochs wait for the checkpoint, and so that it ends well before the next one and its timeout."""
        return 0.0 if self.synchronous else min(SPREAD, self.timeout / 6, self.interval / 2)

    @property
    def stops(self) -> bool:
        """Whether no epoch may begin before one has completed or failed."""
        return self.synchronous and bool(self.under_way)

    @property
    def pending(self) -> Pending | None:
        """The oldest one under way."""
        return self.under_way[0] if self.under_way else None

    def set_interval(self, seconds: float, at: float) -> None:
        """From now on, a checkpoint every so many seconds."""
        self.interval = seconds
        self._next_at = at + seconds

    def asked(self, request: int) -> None:
        """The number of the newest request of an operator. One below what was served is of a ZooKeeper that
        has lost its data: they begin anew."""
        self._asked, self._served = request, min(self._served, request)

    def wanted(self, at: float) -> bool:
        """Whether the next job should end with punctuation: it is time, or an operator asked."""
        if len(self.under_way) >= self.at_once:
            return False
        return self._asked > self._served or at >= self._next_at

    def started(
        self, *, checkpoint: int, generation: int, attempt: int, request: int, at: float
    ) -> list[TellCheckpoint]:
        self._next_at = at + self.interval
        self._served = max(self._served, request)
        self.under_way.append(Pending(checkpoint, generation, attempt, at, request))
        return [self._report(self.under_way[-1], "started", at)]

    def gone_back(self, *, checkpoint: int, generation: int, at: float) -> list[PointTo]:
        """All partitions start again from an older checkpoint than the newest, now or when they have to:
        later ones belong to an undone history."""
        if checkpoint >= self.latest:
            return []
        self.highest = max(self.highest, self.latest)
        self.kept = [number for number in self.kept if number <= checkpoint]
        self.completed = {number: self.completed[number] for number in self.kept}
        return [self._point(self.kept, generation, 0, at)]

    def served(self, request: int) -> None:
        """Requests up to this one were answered before this driver started."""
        self._served = request

    def acknowledged(
        self, found: Sequence[CheckpointAck], at: float
    ) -> list[TellCheckpoint | TellProblem | PointTo]:
        """What agents acknowledged so far of the pending checkpoint, which then completes (once ZooKeeper
        names it as the newest), fails or waits."""
        pending = self.pending
        if pending is None:
            return []
        job = pending.generation, pending.attempt
        acks = {ack.partition: ack for ack in found if (ack.generation, ack.attempt) == job}
        pending.acknowledgements = list(acks.values())
        size = sum(ack.size_bytes for ack in acks.values())
        errors = [ack for ack in acks.values() if ack.error]
        if errors:
            first = errors[0]
            return self._failed(pending, f"{first.partition} on {first.node}: {first.error}", at)
        if all(partition in acks for partition in self.partitions):
            self.highest = max(self.highest, pending.checkpoint)
            pending.completed_at = at
            return [self._point(self._with(pending), pending.generation, size, at)]
        if at - pending.started_at > self.timeout:
            missing = [partition for partition in self.partitions if partition not in acks]
            cause = f"not acknowledged in {self.timeout:.0f} s by {', '.join(missing[:5])}"
            return self._failed(pending, cause, at)
        told: list[TellCheckpoint | TellProblem | PointTo] = [*self._standstill(pending, at)]
        if len(acks) != pending.acknowledged:
            pending.acknowledged = len(acks)
            told.append(self._report(pending, "acknowledged", at, size))
        return told

    def _standstill(self, pending: Pending, at: float) -> list[TellProblem]:
        """That epochs have stood still for long, once for each checkpoint."""
        if not self.synchronous or pending.standstill_told or at - pending.started_at <= STANDSTILL:
            return []
        pending.standstill_told = True
        what = f"epochs stand still until one is stored, for more than {STANDSTILL:g} s"
        return [TellProblem("checkpoints", what, STANDING)]

    def pointed(self, *, accepted: bool, at: float) -> list[TellCheckpoint]:
        """Whether ZooKeeper took the pending checkpoint as the newest. If not, the next look at the
        acknowledgements tries again."""
        pending = self.pending
        if pending is None or not accepted:
            return []
        self.kept = self._with(pending)
        self.completed = {**self.completed, pending.checkpoint: pending.completed_at}
        self.completed = {number: self.completed[number] for number in self.kept}
        self._failures = 0
        self._next_at = max(self._next_at, at + self.pause)
        pending.acknowledged = len(pending.acknowledgements)
        size = sum(ack.size_bytes for ack in pending.acknowledgements)
        self.under_way.remove(pending)
        self.ended = True
        return [self._report(pending, "completed", at, size)]

    def fail(self, cause: str, at: float) -> list[TellCheckpoint]:
        """Give up all that are under way; the newest complete one stays in force."""
        return [report for pending in list(self.under_way) for report in self._give_up(pending, cause, at)]

    def fail_newest(self, cause: str, at: float) -> list[TellCheckpoint]:
        """Give up the one that began last."""
        return self._give_up(self.under_way[-1], cause, at)

    def _give_up(self, pending: Pending, cause: str, at: float) -> list[TellCheckpoint]:
        self.under_way.remove(pending)
        self.ended = True
        self._next_at = max(self._next_at, at + self.pause)
        return [self._report(pending, "failed", at, cause=cause)]

    def _failed(
        self, pending: Pending, cause: str, at: float
    ) -> list[TellCheckpoint | TellProblem | PointTo]:
        """It could not be stored."""
        self._failures += 1
        told: list[TellCheckpoint | TellProblem | PointTo] = [*self._give_up(pending, cause, at)]
        if self._failures > self.tolerated:
            # The cause is no part of what is told: another file of another partition is the same problem.
            what = f"more than {self.tolerated} in a row could not be stored"
            told.append(TellProblem("checkpoints", what, f"The newest: {cause}. {FAILING}"))
        return told

    def _with(self, pending: Pending) -> list[int]:
        complete = [*self.kept, pending.checkpoint]
        stay = complete[-self.keep :]
        young = pending.completed_at - self.keep_for
        old = [number for number in stay[:-FEWEST_KEPT] if self.completed[number] <= young]
        return [
            number for number in complete if number == self.held or (number in stay and number not in old)
        ]

    def _point(self, kept: list[int], generation: int, size: int, at: float) -> PointTo:
        return PointTo(
            LatestCheckpoint(
                checkpoint=kept[-1] if kept else 0,
                generation=generation,
                completed_at=at,
                size_bytes=size,
                kept=kept,
                kept_at=[self.completed.get(number, at) for number in kept],
                highest=self.highest,
            )
        )

    def _report(
        self, pending: Pending, state: CheckpointState, at: float, size: int = 0, cause: str = ""
    ) -> TellCheckpoint:
        ended = state in ("completed", "failed")
        return TellCheckpoint(
            CheckpointReport(
                topology=self.topology,
                checkpoint=pending.checkpoint,
                generation=pending.generation,
                state=state,
                acknowledged=pending.acknowledged,
                total=len(self.partitions),
                size_bytes=size,
                started_at=pending.started_at,
                ended_at=at if ended else None,
                cause=cause,
                request=pending.request,
                kept=self.kept,
                acknowledgements=pending.acknowledgements if ended else [],
            )
        )
