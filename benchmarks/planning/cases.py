"""The planning problems: generated topologies of which all partitions failed."""

from __future__ import annotations

from dataclasses import replace

from domain.planning import RecoveryProblem, recovery_problem
from domain.simulation.generator import TopologyRecipe, generate_topology

BASE = TopologyRecipe(queries=18, size=8, max_sharing=6, priorities="random")
SETTINGS: dict[str, TopologyRecipe] = {
    "a: shared by up to 3": replace(BASE, max_sharing=3),
    "a: shared by up to 6": BASE,
    "b: Zipf, s = 0.2": replace(BASE, skew=0.2),
    "b: Zipf, s = 0.5": replace(BASE, skew=0.5),
    "c: random priorities": BASE,
    "c: priority by workload": replace(BASE, priorities="linear"),
}


def failed_topology(recipe: TopologyRecipe, seed: int, fraction: float) -> RecoveryProblem:
    """All partitions failed; there is capacity for this share of their cost."""
    drawn = generate_topology(recipe, seed)
    return recovery_problem(
        drawn.topology,
        failed=drawn.topology.partitions,
        costs=drawn.costs,
        capacity=fraction * sum(drawn.costs.values()),
    )
