"""Latency of epochs at a set rate while snapshots are taken at several intervals (Appendix C, Figure 20 of
incremental recovery). A part of `benchmarks.snapshots`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spark_jobs.driver.loop import EpochLoop

OF_THROUGHPUT = 0.6
"""The rate, of what was measured without snapshots. The paper has 11,000 of 12,000 tuples per second."""
SETTLING = 60
"""Epochs before the first block."""


def by_interval(
    loop: EpochLoop, intervals: Sequence[float], never: float, *, epochs: int, step: Callable[[], None]
) -> list[dict[str, Any]]:
    """A row for no snapshots (`interval` 0), and for each interval. loop: of a topology whose input comes at
    its rate. never: an interval longer than all blocks."""
    checkpoints = loop.machine.checkpoints
    checkpoints.set_interval(never, loop.clock())
    latencies(loop, SETTLING)
    found: list[dict[str, Any]] = []
    for interval in (0.0, *intervals):
        checkpoints.set_interval(interval or never, loop.clock())
        latest, completed = checkpoints.latest, 0
        seconds: list[float] = []
        while len(seconds) < epochs or (interval and completed < 2):
            seconds += latencies(loop, 1)
            completed += checkpoints.latest != latest
            latest = checkpoints.latest
        checkpoints.set_interval(never, loop.clock())
        while checkpoints.under_way:  # it is not of the next block
            loop.iterate()
        p50, p99 = (round(float(np.quantile(seconds, share)), 4) for share in (0.5, 0.99))
        row = {"interval": interval, "epochs": len(seconds), "checkpoints": completed, "p50": p50, "p99": p99}
        found.append(row)
        step()
    return found


def latencies(loop: EpochLoop, epochs: int) -> list[float]:
    """Seconds from the moment at which all tuples of an epoch were there until every partition had applied
    it, of so many epochs or a few more."""
    found: list[float] = []
    while len(found) < epochs:
        before, due = loop.log.committed, {epoch: plan.at for epoch, plan in loop.log.plans.items()}
        loop.iterate()
        at = loop.clock()
        due |= {epoch: plan.at for epoch, plan in loop.log.plans.items()}
        found += [at - due[epoch] for epoch in range(before + 1, loop.log.committed + 1)]
    return found
