"""How many epochs of replay a job may carry, so that queries not behind keep their latency. Pure."""

from __future__ import annotations

from dataclasses import dataclass

SMOOTHING = 0.3
SHARE = 0.12
"""Of the epoch interval: how much longer a job may take for the sake of those behind."""
LEAST = 2
"""Replay must be faster than the present, or it never arrives."""
CAUTION = 0.9


@dataclass(slots=True)
class ReplayPace:
    """Learns what an epoch costs. `interval`: seconds between epochs; `most`: epochs a job may replay.

    base: seconds of a job without replay. each: seconds that one replayed epoch adds.
    """

    interval: float
    most: int
    base: float = 0.4
    each: float = 0.03

    def beside(self) -> int:
        """Epochs to replay in a job that also runs the present."""
        return self._within(SHARE * self.interval, LEAST)

    def alone(self, slack: float) -> int:
        """Epochs to replay in a job of their own that ends within `slack` seconds; 0 if none would."""
        return self._within(slack * CAUTION - self.base, 0)

    def _within(self, seconds: float, least: int) -> int:
        return max(least, int(min(float(self.most), max(0.0, seconds) / self.each)))

    def observe(self, *, seconds: float, present: int, replayed: int) -> None:
        """A job took `seconds` for so many epochs of the present and of replay."""
        if replayed:
            added = max(seconds - (self.base if present <= 1 else seconds), 0.001 * replayed)
            if present <= 1:
                self.each += SMOOTHING * (added / replayed - self.each)
        elif present == 1:
            self.base += SMOOTHING * (seconds - self.base)
