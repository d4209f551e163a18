"""How long those behind still take, from how fast they have come nearer. Pure."""

from __future__ import annotations

from collections import deque

WINDOW, LEAST = 30.0, 5.0
"""Seconds of which the pace is a mean, at most and at least."""
NEVER = 86_400.0
"""Seconds that stand for all that is longer, and for those that come no nearer."""
SOON = 240.0
"""Seconds in which those behind arrive soon enough; what takes longer gains too little."""


class CatchingUp:
    """What those behind lack, over the last half minute. Epochs that are due and were not worked off yet
    count for them, too: to come nearer to those furthest ahead because these are late is no progress."""

    def __init__(self) -> None:
        self._noted: deque[tuple[float, int]] = deque()
        self._late_since: float | None = None

    def begin(self) -> None:
        """Others run than before, or elsewhere."""
        self._noted.clear()
        self._late_since = None

    def note(self, lacking: int, at: float) -> None:
        """They lack so many epochs now, all of them together."""
        self._noted.append((at, lacking))
        while len(self._noted) > 2 and self._noted[1][0] <= at - WINDOW:
            self._noted.popleft()
        left = self.seconds(at)
        if left is not None:
            if left <= SOON:
                self._late_since = None
            elif self._late_since is None:
                self._late_since = at

    def not_gaining(self, at: float) -> float:
        """Seconds for which they have come nearer too slowly to arrive soon. A single slow job does not count
        after the next one, nor do executors that are slow because they have just started."""
        return 0.0 if self._late_since is None else max(0.0, at - self._late_since)

    def seconds(self, at: float) -> float | None:
        """Until they have caught up at this pace; None while it is not known, or no longer."""
        if not self._noted or at - self._noted[-1][0] > WINDOW:
            return None
        (began, before), (ended, lacking) = self._noted[0], self._noted[-1]
        if not lacking:
            return 0.0
        if ended - began < LEAST:
            return None
        nearer = before - lacking
        return min(NEVER, lacking * (ended - began) / nearer) if nearer > 0 else NEVER
