"""Random recovery problems for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from domain.planning import RecoveryProblem, problem_from_sets, recovery_problem
from domain.simulation.generator import TopologyRecipe, generate_topology

# One CPU percent in grains: whole-percent costs are whole numbers of this unit.
PERCENT = 10_000


@st.composite
def problems(
    draw: st.DrawFn, *, max_queries: int = 7, max_partitions: int = 9, max_cost: int = 9
) -> RecoveryProblem:
    """Small problems with every kind of sharing, equal costs and priorities (ties), and free partitions."""
    partitions = [f"P{i}[0]" for i in range(draw(st.integers(1, max_partitions)))]
    costs = {name: float(draw(st.integers(0, max_cost))) for name in partitions}
    count = draw(st.integers(1, max_queries))
    members = st.sets(st.sampled_from(partitions), min_size=1)
    queries = {f"Q{i}[0]": draw(members) for i in range(count)}
    priorities = {name: draw(st.integers(1, 10)) for name in queries}
    capacity = draw(st.integers(0, int(sum(costs.values())) + 2))
    return problem_from_sets(queries, costs=costs, capacity=float(capacity), priorities=priorities)


def synthetic(seed: int, *, fraction: float = 0.4, **recipe: object) -> RecoveryProblem:
    """All partitions of a generated topology failed; the capacity is a fraction of their cost."""
    drawn = generate_topology(TopologyRecipe(**recipe), seed)  # type: ignore[arg-type]
    return recovery_problem(
        drawn.topology,
        failed=drawn.topology.partitions,
        costs=drawn.costs,
        capacity=sum(drawn.costs.values()) * fraction,
    )
