"""When every query was available, from the moments at which it has caught up.

Relative latency is (latency in peace + lag) / latency in peace. Just before a query has caught up its lag
shrinks by `speed - 1` seconds a second, so the moment at which the mean over a window falls below theta is
known: the window may still hold `grace` seconds of catching up, where

    (speed - 1) grace² / 2 = (theta - 1) window latency

and the query is available `window - grace` seconds after it has caught up. A query counts as unavailable
from the moment it loses a partition, waits for one, or is put back to a checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from domain.availability import Policy
from domain.simulation.fluid import INSTANT, NEVER, Flags, Floats, Fluid


class QueryWatch:
    """Intervals of unavailability of each query. Tell it of every change of the fluid, after it is made."""

    def __init__(self, fluid: Fluid, latencies: Sequence[float], policy: Policy) -> None:
        self.fluid = fluid
        self.latencies: Floats = np.asarray(latencies, dtype=np.float64)
        grace = np.sqrt(2.0 * (policy.theta - 1.0) * policy.window * self.latencies / (fluid.speed - 1.0))
        self.delay: Floats = policy.window - np.minimum(grace, policy.window)
        self.caught_up: Floats = np.full(len(fluid.queries), fluid.now)
        self.down: Flags = np.zeros(len(fluid.queries), dtype=bool)
        self._since: Floats = np.full(len(fluid.queries), NEVER)
        self.gaps: list[list[tuple[float, float]]] = [[] for _ in fluid.queries]

    def available_at(self) -> Floats:
        """For each query that is unavailable, when that ends as things stand."""
        return self.caught_up + self.delay

    def changed(self) -> None:
        """Something stopped or started now."""
        now = self.fluid.now
        self._close(now)
        moments = self.fluid.caught_up()[self.fluid.query_at]
        disturbed = moments > now + INSTANT
        # One that was level before and still is keeps its own moment, from which its window runs.
        self.caught_up = np.where(disturbed, moments, np.minimum(self.caught_up, now))
        fresh = disturbed & ~self.down
        self._since[fresh] = now
        self.down |= disturbed

    def finish(self) -> None:
        """No further change will come: gaps end when they would, or at infinity."""
        self._close(NEVER)

    def _close(self, until: float) -> None:
        ends = self.available_at()
        over = self.down & (ends <= until)
        for query in np.flatnonzero(over):
            self.gaps[query].append((float(self._since[query]), float(ends[query])))
        self.down &= ~over
        self._since[over] = NEVER

    def relative(self) -> Floats:
        """Relative latency of each query now; of one that waits, from the age of what waits."""
        lag = self.fluid.now - self.fluid.position[self.fluid.query_at]
        return (self.latencies + np.maximum(lag, 0.0)) / self.latencies
