"""Topologies in a short notation, random ones, and direct transcriptions of the paper's definitions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from domain.replication import FidelityModel, Flows
from domain.topology import InputSpec, OperatorSpec, Topology, TopologySpec


def operator(name: str, parallelism: int, *inputs: tuple[str, str], **more: Any) -> OperatorSpec:
    """`inputs`: from which operator, and how it is partitioned."""
    streams = tuple(InputSpec(source=source, partitioning=how) for source, how in inputs)  # type: ignore[arg-type]
    return OperatorSpec(name=name, kind="x", parallelism=parallelism, inputs=streams, **more)


def topology_of(*operators: OperatorSpec) -> Topology:
    return Topology(TopologySpec(name="t", operators=operators))


def left_of(
    topology: Topology, rates: Mapping[str, float], alive: Sequence[str], flows: Flows | None = None
) -> dict[str, float]:
    """1 - IL of every partition, by equations 1 to 3, one partition after the other, without streams that
    lead back."""
    left: dict[str, float] = {}
    for partition in topology.partitions:
        own = topology.operator_of(partition)
        streams = []
        for stream in (one for one in own.inputs if not one.feedback):
            substreams = [
                (rates[source] * share, left[source])
                for source, share in _sources(topology, stream, own, partition, flows or {})
            ]
            streams.append((sum(rate for rate, _ in substreams), _mean(substreams)))
        if partition not in alive:
            left[partition] = 0.0
        elif not streams:
            left[partition] = 1.0
        elif own.correlated:
            product = 1.0
            for _, share in streams:
                product *= share
            left[partition] = product
        else:
            left[partition] = _mean(streams)
    return left


def _sources(
    topology: Topology, stream: InputSpec, own: OperatorSpec, partition: str, flows: Flows
) -> list[tuple[str, float]]:
    """What a partition reads from, with the share of each one's output that it reads."""
    found = []
    for index in range(topology.by_name[stream.source].parallelism):
        targets = [f"{own.name}[{at}]" for at in topology.targets(stream, own, index)]
        if partition not in targets:
            continue
        source = f"{stream.source}[{index}]"
        measured = flows.get(source, {}).get(own.name, ())
        share = 1 / len(targets)
        if sum(measured) > 0:
            share = measured[targets.index(partition)] / sum(measured)
        found.append((source, share))
    return found


def _mean(weighted: Sequence[tuple[float, float]]) -> float:
    total = sum(rate for rate, _ in weighted)
    if total == 0:
        return sum(value for _, value in weighted) / len(weighted)
    return sum(rate * value for rate, value in weighted) / total


def fidelity_of(
    topology: Topology, rates: Mapping[str, float], alive: Sequence[str], flows: Flows | None = None
) -> float:
    """Equation 4."""
    left = left_of(topology, rates, alive, flows)
    return _mean([(rates[query], left[query]) for query in topology.queries])


def best_fidelities(model: FidelityModel) -> list[float]:
    """The highest fidelity for every budget, over all sets of partitions."""
    count = len(model.partitions)
    plans = [plan for size in range(count + 1) for plan in itertools.combinations(range(count), size)]
    best = [0.0] * (count + 1)
    for plan, fidelity in zip(plans, model.fidelity(model.flags(plans)), strict=True):
        best[len(plan)] = max(best[len(plan)], float(fidelity))
    return list(itertools.accumulate(best, max))


@st.composite
def topologies(draw: st.DrawFn, *, most: int = 9) -> Topology:
    """Up to five operators and `most` partitions; an operator that no other reads is an output."""
    operators: list[OperatorSpec] = []
    left = most
    for number in range(draw(st.integers(2, 5))):
        if left == 0:
            break
        width = draw(st.integers(1, min(3, left)))
        left -= width
        names = [one.name for one in operators]
        sources = draw(st.lists(st.sampled_from(names), unique=True, max_size=2)) if names else []
        inputs = []
        for source in sources:
            above = next(one.parallelism for one in operators if one.name == source)
            ways = ["full"]
            ways += ["one_to_one"] if above == width else []
            ways += ["split"] if width % above == 0 else []
            ways += ["merge"] if above % width == 0 else []
            inputs.append((source, draw(st.sampled_from(ways))))
        joins = len(inputs) > 1 and draw(st.booleans())
        operators.append(operator(f"O{number}", width, *inputs, correlated=joins))
    read = {stream.source for one in operators for stream in one.inputs}
    outputs = [
        operator(
            one.name,
            one.parallelism,
            *((stream.source, stream.partitioning) for stream in one.inputs),
            correlated=one.correlated,
            output=one.name not in read or draw(st.integers(0, 5)) == 0,
        )
        for one in operators
    ]
    return topology_of(*outputs)


@st.composite
def models(draw: st.DrawFn, *, most: int = 9) -> FidelityModel:
    topology = draw(topologies(most=most))
    rates = {partition: draw(st.sampled_from((0.0, 1.0, 2.0, 5.0, 9.0))) for partition in topology.partitions}
    return FidelityModel(topology, rates, flows=draw(flows_of(topology)))


@st.composite
def flows_of(draw: st.DrawFn, topology: Topology) -> Flows:
    """Of some partitions how they divide what they give, skewed; of others nothing is known."""
    flows: dict[str, dict[str, list[float]]] = {}
    if draw(st.booleans()):
        return flows
    values = st.sampled_from((0.0, 1.0, 3.0, 20.0))
    for own in topology.operators:
        for stream in own.inputs:
            for index in range(topology.by_name[stream.source].parallelism):
                count = len(topology.targets(stream, own, index))
                if count > 1 and draw(st.integers(0, 4)):
                    found = draw(st.lists(values, min_size=count, max_size=count))
                    flows.setdefault(f"{stream.source}[{index}]", {})[own.name] = found
    return flows
