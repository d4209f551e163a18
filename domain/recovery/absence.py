"""Partitions that stay absent although their nodes live: an executor or its disk is gone, not the node."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from domain.execution.shadows import homes_now
from domain.messages import DriverStatus, Plan

WORKING_STATES = frozenset({"running", "degraded", "replaying"})
ABSENCE_LIMIT = 60.0
"""Seconds; an executor that is started again after a crash is ready within this time, and then the driver
goes on by itself."""
STARTING_LIMIT = 240.0
"""Seconds of a node that has not worked for the topology yet. Its first executor may take a minute and a half
where it has a fifth of a core, and a node that is given up is missing for good: the next one that is asked
for starts as slowly."""


def nodes_seen(driver: DriverStatus | None, plan: Plan | None) -> tuple[frozenset[str], frozenset[str]]:
    """Nodes the driver cannot reach at all, and nodes it saw working.

    Both empty while it starts or applies another plan: then absence says nothing.
    """
    if driver is None or plan is None:
        return frozenset(), frozenset()
    if driver.state not in WORKING_STATES or driver.generation != plan.generation:
        return frozenset(), frozenset()
    absent = set(driver.absent)
    placed = homes_now(plan, driver.acting, driver.generation)
    working = {node for partition, node in placed.items() if partition not in absent}
    return frozenset(set(placed.values()) - working), frozenset(working)


class AbsenceClock:
    """How long partitions of living nodes have been absent, per topology. Soft state."""

    def __init__(self, limit: float = ABSENCE_LIMIT, starting: float = STARTING_LIMIT) -> None:
        self.limit = limit
        self.starting = starting
        self._since: dict[str, dict[str, float]] = {}
        # Topology -> living nodes that it was seen working on.
        self._worked: dict[str, set[str]] = {}

    def overdue(
        self,
        *,
        at: float,
        topology: str,
        driver: DriverStatus | None,
        plan: Plan | None,
        alive: Collection[str],
    ) -> Mapping[str, float]:
        """Partition -> seconds for those that have been absent for longer than the limit."""
        present = driver is not None and plan is not None and driver.generation == plan.generation
        if driver is None or plan is None or not present or driver.state not in WORKING_STATES:
            self._since.pop(topology, None)
            return {}
        placed = homes_now(plan, driver.acting, driver.generation)
        not_there = set(driver.absent)
        worked = self._worked.setdefault(topology, set())
        worked |= {node for partition, node in placed.items() if partition not in not_there}
        worked &= set(alive)
        absent = {p for p in driver.absent if placed.get(p) in alive}
        since = self._since.setdefault(topology, {})
        for partition in list(since):
            if partition not in absent:
                del since[partition]
        for partition in absent:
            since.setdefault(partition, at)
        limits = {p: self.limit if placed[p] in worked else self.starting for p in since}
        return {p: at - start for p, start in since.items() if at - start >= limits[p]}

    def forget(self, topology: str) -> None:
        """Count from the beginning: what was overdue has been reported."""
        self._since.pop(topology, None)
