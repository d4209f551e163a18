"""How long those behind still take, from how fast they have come nearer. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

WINDOW, LEAST = 30.0, 5.0
"""Seconds of which the pace is a mean, at most and at least."""
NEVER = 86_400.0
"""Seconds that stand for all that is longer, and for those that come no nearer."""
SOON = 600.0
"""Seconds in which those that replay arrive soon enough; what takes longer gains too little. What is stopped
instead has to replay all of it later, and a replay gets faster while its jobs grow."""
UNKNOWN = 60.0
"""Seconds without a known pace from which a replay gains too little: none of its jobs has ended in time."""


class CatchingUp:
    """What those that replay lack, over the last half minute. Epochs that are due and were not worked off yet
    count for them, too: to come nearer to those furthest ahead because these are late is no progress.
    Partitions for which other jobs are needed wait meanwhile: that they lack more and more says nothing of
    the pace.

    interval: seconds of an epoch.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._noted: deque[tuple[float, int]] = deque()
        self._late_since: float | None = None
        # When a job ended last, or others began.
        self._heard: float | None = None
        self._group = frozenset[str]()
        self._waiting = 0.0

    def begin(self, at: float) -> None:
        """Others run than before, or elsewhere."""
        self._noted.clear()
        self._late_since, self._heard = None, at

    def note(self, group: frozenset[str], lacks: Mapping[str, int], at: float) -> None:
        """A job has ended that brought these partitions nearer. lacks: the epochs that each partition lacks
        which is behind."""
        if not group <= self._group:
            self.begin(at)
        self._group, self._heard = group, at
        others = [epochs for partition, epochs in lacks.items() if partition not in group]
        self._waiting = sum(others) / len(others) if others else 0.0
        self._noted.append((at, sum(lacks.get(partition, 0) for partition in group)))
        while len(self._noted) > 2 and self._noted[1][0] <= at - WINDOW:
            self._noted.popleft()
        left = self._group_seconds(at)
        if left is not None:
            if left <= SOON:
                self._late_since = None
            elif self._late_since is None:
                self._late_since = at

    def not_gaining(self, at: float) -> float:
        """Seconds for which those that replay have come nearer too slowly to arrive soon. A single slow job
        does not count after the next one, nor do executors that are slow because they have just started."""
        if self._late_since is not None:
            return max(0.0, at - self._late_since)
        if self._heard is None or self._group_seconds(at) is not None:
            return 0.0
        return max(0.0, at - self._heard - UNKNOWN)

    def seconds(self, at: float) -> float | None:
        """Until all have caught up at this pace, those that wait after those that replay; None while it is
        not known, or no longer."""
        first = self._group_seconds(at)
        if first is None or first >= NEVER or not self._waiting:
            return first
        (began, before), (ended, lacking) = self._noted[0], self._noted[-1]
        pace = (before - lacking) / (len(self._group) * (ended - began)) if ended > began else 0.0
        if pace <= 0.0:
            return None  # those that replayed are there, and the next have not begun
        return min(NEVER, first + (self._waiting + first / self._interval) / pace)

    def _group_seconds(self, at: float) -> float | None:
        if not self._noted or at - self._noted[-1][0] > WINDOW:
            return None
        (began, before), (ended, lacking) = self._noted[0], self._noted[-1]
        if not lacking:
            return 0.0
        if ended - began < LEAST:
            return None
        nearer = before - lacking
        return min(NEVER, lacking * (ended - began) / nearer) if nearer > 0 else NEVER
