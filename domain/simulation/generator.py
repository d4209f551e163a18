"""Synthetic topologies after section 7.3 of incremental recovery: number of queries, their size, how often
partitions are shared, how skewed that is, and priorities.

Every operator has one partition and every query one output operator. The other operators are drawn one
after another, the most shared first. Each either continues an existing operator (its sharing set is then a
part of that operator's, so query closures stay exactly as drawn) or is a new source. The paper does not
give the shape of its topologies; docs/planning.md lists the choices made here.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from domain.topology import InputSpec, OperatorSpec, Topology, TopologySpec, partition_id

Priorities = Literal["random", "linear", "equal"]
MAX_PRIORITY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRecipe:
    """What to draw.

    queries: number of queries. size: partitions per query, on average.
    max_sharing: the most queries that share one partition.
    skew: None draws sharing frequencies evenly from 1 to `max_sharing`; a number makes them follow a Zipf
        curve over the ranks of the partitions, `max_sharing / rank ** skew`.
    priorities: `random` from 1 to 10, `linear` from 1 to 10 with the cost of the query, or `equal` (all 1).
    chaining: probability that an operator continues an existing one instead of starting as a source.
    costs: range of partition costs, CPU percent, drawn evenly.
    """

    queries: int = 18
    size: int = 8
    max_sharing: int = 6
    skew: float | None = None
    priorities: Priorities = "random"
    chaining: float = 0.5
    costs: tuple[float, float] = (1.0, 20.0)
    name: str = "synthetic"


@dataclass(frozen=True, slots=True)
class SyntheticTopology:
    """A drawn topology and the cost of each of its partitions in CPU percent."""

    topology: Topology
    costs: dict[str, float]


@dataclass(slots=True)
class _Drawn:
    name: str
    shared_by: frozenset[int]
    upstream: list[int]


def generate_topology(recipe: TopologyRecipe, seed: int) -> SyntheticTopology:
    """The same recipe and seed always give the same topology."""
    rng = random.Random(f"{recipe}/{seed}")  # noqa: S311 - reproducible, not secret
    drawn = _draw_operators(recipe, rng)
    inputs = _tips(recipe.queries, drawn)
    costs = {partition_id(op.name, 0): round(rng.uniform(*recipe.costs), 2) for op in drawn}
    for query in range(recipe.queries):
        costs[partition_id(f"Q{query}", 0)] = round(rng.uniform(*recipe.costs), 2)
    totals = [costs[partition_id(f"Q{query}", 0)] for query in range(recipe.queries)]
    for op in drawn:
        for query in op.shared_by:
            totals[query] += costs[partition_id(op.name, 0)]
    priorities = _priorities(recipe, totals, rng)
    operators = [
        OperatorSpec(
            name=op.name,
            kind="map" if op.upstream else "source",
            inputs=tuple(InputSpec(source=drawn[above].name) for above in op.upstream),
        )
        for op in drawn
    ]
    operators += [
        OperatorSpec(
            name=f"Q{query}",
            kind="union" if inputs[query] else "source",
            inputs=tuple(InputSpec(source=drawn[tip].name) for tip in inputs[query]),
            output=True,
            priority=priorities[query],
        )
        for query in range(recipe.queries)
    ]
    return SyntheticTopology(Topology(TopologySpec(name=recipe.name, operators=tuple(operators))), costs)


def _draw_operators(recipe: TopologyRecipe, rng: random.Random) -> list[_Drawn]:
    """Operators other than the outputs, until the queries have `size` partitions on average."""
    ceiling = min(recipe.max_sharing, recipe.queries)
    frequencies = _frequencies(recipe, ceiling, recipe.queries * (recipe.size - 1), rng)
    drawn: list[_Drawn] = []
    everything = list(range(recipe.queries))
    missing = [recipe.size - 1] * recipe.queries
    for index, frequency in enumerate(frequencies):
        parent = None
        if drawn and rng.random() < recipe.chaining:
            parent = rng.randrange(len(drawn))
            if len(drawn[parent].shared_by) < frequency:
                parent = None
        pool = sorted(drawn[parent].shared_by) if parent is not None else everything
        # Of a few random queries those that lack most partitions: keeps sizes close without fixing them.
        pool = rng.sample(pool, min(len(pool), 3 * frequency + 4))
        members = frozenset(sorted(pool, key=lambda query: -missing[query])[:frequency])
        for query in members:
            missing[query] -= 1
        drawn.append(_Drawn(f"P{index}", members, [parent] if parent is not None else []))
    return drawn


def _frequencies(recipe: TopologyRecipe, ceiling: int, total: int, rng: random.Random) -> list[int]:
    """Sharing frequencies that add up to `total`, largest first."""
    if recipe.skew is None:
        frequencies: list[int] = []
        left = total
        while left > 0:
            frequencies.append(min(left, rng.randint(1, ceiling)))
            left -= frequencies[-1]
        return sorted(frequencies, reverse=True)
    frequencies = []
    left = total
    while left > 0:
        wanted = round(ceiling / (len(frequencies) + 1) ** recipe.skew)
        frequencies.append(min(left, max(1, wanted)))
        left -= frequencies[-1]
    return frequencies


def _tips(queries: int, drawn: list[_Drawn]) -> list[list[int]]:
    """For each query the operators its output must subscribe to, so that its closure is what was drawn."""
    tips: list[list[int]] = [[] for _ in range(queries)]
    covered: list[set[int]] = [set() for _ in range(queries)]
    for index in range(len(drawn) - 1, -1, -1):
        for query in drawn[index].shared_by:
            if index not in covered[query]:
                tips[query].append(index)
            covered[query].update(drawn[index].upstream)
    return [sorted(found) for found in tips]


def _priorities(recipe: TopologyRecipe, totals: list[float], rng: random.Random) -> list[int]:
    if recipe.priorities == "equal":
        return [1] * recipe.queries
    if recipe.priorities == "random":
        return [rng.randint(1, MAX_PRIORITY) for _ in range(recipe.queries)]
    low, high = min(totals), max(totals)
    span = (high - low) or 1.0
    return [1 + round((MAX_PRIORITY - 1) * (total - low) / span) for total in totals]
