"""What partitions of a topology give, and who reads it, from what was measured of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from domain.fidelity import Flows, equal_rates
from domain.topology import Topology as Graph
from domain.topology import partition_id

MEASURED = "measured"
EVEN = "even"
EQUAL = "equal"


def rates_of(
    graph: Graph, flows: Mapping[str, tuple[float, float]], averages: Mapping[str, float]
) -> tuple[dict[str, float], str]:
    """Rate of each partition's output, from what it read and gave lately, and where they come from. averages:
    what partitions gave over a longer time, as their driver told; of another specification they do not count.

    Windows give their rows in bursts, in most epochs none. So a query counts with the input of its partition,
    and so do all partitions of an operator that gave nothing.
    """
    told = averages if averages.keys() == set(graph.partitions) else {}
    rates: dict[str, float] = {}
    for operator in graph.operators:
        own = [partition_id(operator.name, index) for index in range(operator.parallelism)]
        given = {one: told.get(one, flows.get(one, (0.0, 0.0))[1]) for one in own}
        if operator.output or not any(given.values()):
            given = {one: flows.get(one, (0.0, 0.0))[0] for one in own}
        rates |= given
    return (rates, MEASURED) if any(rates.values()) else (equal_rates(graph), EQUAL)


def flows_of(graph: Graph, told: Flows) -> tuple[dict[str, dict[str, Sequence[float]]], bool]:
    """What was told of this graph, and whether anything is known of each stream that divides rows.

    What a driver told of another specification, or of other numbers of partitions, is left out.
    """
    flows: dict[str, dict[str, Sequence[float]]] = {}
    complete = True
    for target in graph.operators:
        for stream in target.inputs:
            width = len(graph.targets(stream, target, 0))
            if width < 2 or stream.feedback:
                continue
            found = False
            for index in range(graph.by_name[stream.source].parallelism):
                source = partition_id(stream.source, index)
                rates = told.get(source, {}).get(target.name, ())
                if len(rates) == width and any(rates):
                    flows.setdefault(source, {})[target.name] = rates
                    found = True
            complete &= found
    return flows, complete
