"""Random topologies: structured, full and general ones, with and without joins, with rates even or skewed.

The same settings and seed always give the same topology.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from domain.replication import FidelityModel
from domain.replication.structure_aware import Structure, structure_of
from domain.topology import InputSpec, OperatorSpec, Partitioning, Topology, TopologySpec, partition_id

Skew = Literal["even", "zipf", "any"]
ZIPF = 0.7
"""Exponent of Zipf's distribution, of partitions within an operator. The text of the paper lost its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What to draw. Ranges include both ends.

    joins: share of the operators with several inputs that join them; None: drawn for each topology, one at
    least.
    skew: `even` and `zipf` divide an operator's rate among its partitions so, and rates follow from those
        upstream; `any` draws each partition's rate by itself, now and then none at all; None draws which.
    sinks: whether outputs may be read as well, and how many there are is left to chance; else there is one.
    """

    structure: Structure
    joins: float | None = 0.0
    operators: tuple[int, int] = (2, 7)
    width: tuple[int, int] = (1, 5)
    partitions: tuple[int, int] = (4, 13)
    skew: Skew | None = None
    sinks: bool = True
    priorities: bool = True


def drawn(recipe: Recipe, seed: int) -> FidelityModel:
    """A topology with its rates."""
    rng = random.Random(f"{recipe}/{seed}")
    while True:
        topology = _topology(recipe, rng)
        if topology is not None and structure_of(topology) == recipe.structure:
            return FidelityModel(topology, _rates(topology, recipe, rng))


def models(recipe: Recipe, count: int, first: int = 0) -> Iterator[FidelityModel]:
    return (drawn(recipe, seed) for seed in range(first, first + count))


def _topology(recipe: Recipe, rng: random.Random) -> Topology | None:
    """None where chance led to something that the recipe excludes."""
    low, high = recipe.partitions
    joins = rng.random() if recipe.joins is None else recipe.joins
    operators: list[OperatorSpec] = []
    total = 0
    for number in range(rng.randint(*recipe.operators)):
        width = _width(recipe, operators, rng)
        if total + width > high:
            break
        total += width
        inputs = _inputs(recipe, operators, width, rng)
        if inputs is None:
            return None
        operators.append(
            OperatorSpec(
                name=f"O{number}",
                kind="any",
                parallelism=width,
                inputs=inputs,
                correlated=len(inputs) > 1 and rng.random() < joins,
                output=recipe.sinks and rng.random() < 0.15,
                priority=rng.randint(1, 10) if recipe.priorities and rng.random() < 0.5 else 1,
            )
        )
    if not low <= total or len(operators) < recipe.operators[0]:
        return None
    if recipe.joins is None and not any(one.correlated for one in operators):
        return None
    read = {stream.source for one in operators for stream in one.inputs}
    last = [one.name not in read for one in operators]
    if not recipe.sinks and sum(last) > 1:
        return None
    finished = tuple(
        OperatorSpec(
            name=one.name,
            kind=one.kind,
            parallelism=one.parallelism,
            inputs=one.inputs,
            correlated=one.correlated,
            output=one.output or unread,
            priority=one.priority,
        )
        for one, unread in zip(operators, last, strict=True)
    )
    return Topology(TopologySpec(name="drawn", operators=finished))


def _width(recipe: Recipe, above: Sequence[OperatorSpec], rng: random.Random) -> int:
    """Often one that divides what is above, or is a multiple of it, or there would be few streams but
    full."""
    least, most = recipe.width
    if above and recipe.structure != "full" and rng.random() < 0.7:
        width = above[-1].parallelism
        fitting = [one for one in range(least, most + 1) if width % one == 0 or one % width == 0]
        if fitting:
            return rng.choice(fitting)
    return rng.randint(least, most)


def _inputs(
    recipe: Recipe, above: Sequence[OperatorSpec], width: int, rng: random.Random
) -> tuple[InputSpec, ...] | None:
    """None where nothing can be read as the recipe wants it."""
    if not above or (len(above) < 3 and rng.random() < 0.3):
        return ()
    read = {stream.source for one in above for stream in one.inputs}
    possible = [(one, ways) for one in above if (ways := _ways(recipe, one, width))]
    if not possible:
        return None
    wanted = min(len(possible), rng.choice((1, 1, 2, 2, 3)))
    # What nothing reads yet comes first: fewer operators are both source and sink.
    possible.sort(key=lambda one: (one[0].name in read, rng.random()))
    chosen = sorted(possible[:wanted], key=lambda one: one[0].name)
    return tuple(InputSpec(source=one.name, partitioning=rng.choice(ways)) for one, ways in chosen)


def _ways(recipe: Recipe, source: OperatorSpec, width: int) -> list[Partitioning]:
    if recipe.structure == "full":
        return ["full"]
    above = source.parallelism
    ways: list[Partitioning] = []
    if above == width:
        ways.append("one_to_one")
    elif width % above == 0:
        ways.append("split")
    elif above % width == 0:
        ways.append("merge")
    if recipe.structure == "general" or source.output:
        ways.append("full")
    return ways


def _rates(topology: Topology, recipe: Recipe, rng: random.Random) -> dict[str, float]:
    skew = recipe.skew or rng.choice(("even", "zipf", "any"))
    if skew == "any":
        return {partition: rng.choice((0.0, 1.0, 2.0, 5.0, 9.0, 30.0)) for partition in topology.partitions}
    totals: dict[str, float] = {}
    rates: dict[str, float] = {}
    for operator in topology.operators:
        read = sum(totals[stream.source] for stream in operator.inputs)
        totals[operator.name] = read * rng.uniform(0.3, 1.0) if operator.inputs else rng.uniform(50.0, 500.0)
        exponent = ZIPF if skew == "zipf" else 0.0
        parts = [(rank + 1) ** -exponent for rank in range(operator.parallelism)]
        rng.shuffle(parts)
        for index, part in enumerate(parts):
            rates[partition_id(operator.name, index)] = totals[operator.name] * part / sum(parts)
    return rates
