"""Planners by the name that REST, settings and plans use."""

from __future__ import annotations

from domain.planning.best_density import AdaptiveDensity, BestDensity, ProfitDensity
from domain.planning.dynamic_programming import DynamicProgramming
from domain.planning.look_ahead import LookAhead
from domain.planning.operator_centric import OperatorCentric
from domain.planning.optimal import Optimal
from domain.planning.planner import Planner

PLANNERS: dict[str, type[Planner]] = {
    planner.name: planner
    for planner in (
        BestDensity,
        ProfitDensity,
        AdaptiveDensity,
        DynamicProgramming,
        OperatorCentric,
        Optimal,
        LookAhead,
    )
}


def planner_named(name: str) -> Planner:
    """The planner with its default parameters; raises ValueError that lists the known names."""
    try:
        return PLANNERS[name]()
    except KeyError:
        raise ValueError(f"there is no planner {name!r}; known: {', '.join(sorted(PLANNERS))}") from None
