"""Which keys are stored at the end of an epoch. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from domain.key_saving.every import Every


@dataclass(frozen=True, slots=True)
class Saving:
    """When a partition stored all its changed keys last: `at` is the time of an epoch in Unix seconds, as of
    `EpochPlan.at`; 0 before the first one."""

    every: Every
    at: float

    def begun(self, now: float, index: int, count: int) -> Saving:
        """Where nothing was stored yet: partitions of an operator begin at different times, so that they do
        not store all at once."""
        if self.at or self.every.seconds is None:
            return self
        return Saving(self.every, now - self.every.seconds * index / max(1, count))

    def due(self, now: float) -> bool:
        """Whether all changed keys are to be stored after this epoch, also where the clock was put back."""
        return self.every.seconds is not None and not 0 <= now - self.at < self.every.seconds
