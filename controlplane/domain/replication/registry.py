"""Replication planners by the name that REST and the pages use."""

from __future__ import annotations

from controlplane.domain.replication.dynamic_programming import DynamicProgramming
from controlplane.domain.replication.greedy import Greedy
from controlplane.domain.replication.planner import ReplicationPlanner
from controlplane.domain.replication.structure_aware import StructureAware

REPLICATION_PLANNERS: dict[str, type[ReplicationPlanner]] = {
    planner.name: planner for planner in (StructureAware, DynamicProgramming, Greedy)
}


def replication_planner_named(name: str) -> ReplicationPlanner:
    """The planner with its default parameters; raises ValueError that lists the known names."""
    try:
        return REPLICATION_PLANNERS[name]()
    except KeyError:
        known = ", ".join(sorted(REPLICATION_PLANNERS))
        raise ValueError(f"there is no replication planner {name!r}; known: {known}") from None
