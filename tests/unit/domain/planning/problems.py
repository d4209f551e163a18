"""Random recovery problems for property tests."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from domain.planning import NodeSpace, RecoveryProblem, problem_from_sets, recovery_problem
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


@st.composite
def tight_problems(draw: st.DrawFn, *, max_queries: int = 6, max_partitions: int = 8) -> RecoveryProblem:
    """Partitions that are large for the room that nodes have: what fits in sum often fits on no node."""
    problem = draw(problems(max_queries=max_queries, max_partitions=max_partitions, max_cost=1))
    costs = draw(st.lists(st.integers(1, 60), min_size=len(problem.costs), max_size=len(problem.costs)))
    rooms = draw(st.lists(st.integers(0, 90), min_size=1, max_size=4))
    queries = {
        query: {problem.partitions[i] for i in problem.partitions_of(row)}
        for query, row in zip(problem.queries, problem.needs, strict=True)
    }
    known = {name: float(cost) for name, cost in zip(problem.partitions, costs, strict=True)}
    priorities = dict(zip(problem.queries, problem.priorities.tolist(), strict=True))
    return with_nodes(
        problem_from_sets(queries, costs=known, capacity=0.0, priorities=priorities), known, rooms
    )


def with_nodes(problem: RecoveryProblem, costs: dict[str, float], rooms: list[int]) -> RecoveryProblem:
    """The problem on nodes with so much room each, in whole percent."""
    return replace(
        problem,
        capacity=sum(rooms) * PERCENT,
        nodes=tuple(NodeSpace(name=f"n{i}", load=80.0 - room) for i, room in enumerate(rooms)),
        placed_costs=costs,
    )


def rooms_of(problem: RecoveryProblem) -> list[int]:
    """Room of each node of such a problem, in whole percent."""
    return [round(80.0 - node.load) for node in problem.nodes]


def synthetic(seed: int, *, fraction: float = 0.4, **recipe: object) -> RecoveryProblem:
    """All partitions of a generated topology failed; the capacity is a fraction of their cost."""
    drawn = generate_topology(TopologyRecipe(**recipe), seed)  # type: ignore[arg-type]
    return recovery_problem(
        drawn.topology,
        failed=drawn.topology.partitions,
        costs=drawn.costs,
        capacity=sum(drawn.costs.values()) * fraction,
    )
