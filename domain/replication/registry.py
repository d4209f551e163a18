"""Replication planners by the name that REST and the pages use."""

from __future__ import annotations

from domain.replication.dynamic_programming import DynamicProgramming
from domain.replication.greedy import Greedy
from domain.replication.optimal import Optimal
from domain.replication.planner import ReplicationPlanner
from domain.replication.published import PublishedStructureAware
from domain.replication.structure_aware import StructureAware

REPLICATION_PLANNERS: dict[str, type[ReplicationPlanner]] = {
    planner.name: planner
    for planner in (StructureAware, DynamicProgramming, Optimal, Greedy, PublishedStructureAware)
}


def replication_planner_named(name: str) -> ReplicationPlanner:
    """The planner with its default parameters; raises ValueError that lists the known names."""
    try:
        return REPLICATION_PLANNERS[name]()
    except KeyError:
        known = ", ".join(sorted(REPLICATION_PLANNERS))
        raise ValueError(f"there is no replication planner {name!r}; known: {known}") from None
