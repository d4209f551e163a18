"""What else a machine did while something was measured on it."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

from host.processes import TICKS_PER_SECOND, all_processes

INIT = 1


@dataclass(frozen=True, slots=True)
class Others:
    """CPU seconds of processes up to a moment (monotonic)."""

    at: float
    seconds: float

    def cores_since(self, earlier: Others) -> float:
        """Cores that they took since an earlier moment."""
        return max(0.0, self.seconds - earlier.seconds) / max(self.at - earlier.at, 1e-3)


def others(own: Collection[int]) -> Others:
    """All processes but these, and what they started and waited for."""
    ticks = 0
    for one in all_processes():
        if one.pid not in own:
            # The first process waits for those whose parent is gone, also for those left out here.
            ticks += one.cpu_ticks + (0 if one.pid == INIT else one.reaped_ticks)
    return Others(time.monotonic(), ticks / TICKS_PER_SECOND)
