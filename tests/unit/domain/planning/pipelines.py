"""Topologies of pipelines that share nothing, on nodes in racks."""

from __future__ import annotations

import random

from domain.planning import NodeSpace
from domain.planning.racks import RackTerms
from domain.topology import Topology
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec


def pipelines(count: int, width: int, *, shared: bool = False) -> Topology:
    """Each query has sources of its own, `width` of them; one source feeds all besides, if asked for."""
    operators = [OperatorSpec(name="All", kind="k")] if shared else []
    for i in range(count):
        own = InputSpec(source=f"S{i}", partitioning="merge")
        inputs = (own, InputSpec(source="All")) if shared else (own,)
        operators.append(OperatorSpec(name=f"S{i}", kind="k", parallelism=width))
        operators.append(
            OperatorSpec(name=f"O{i}", kind="k", inputs=inputs, output=True, priority=1 + i % 10)
        )
    return Topology(TopologySpec(name="t", operators=tuple(operators)))


def spaces_of(count: int, capacity: float = 100.0) -> list[NodeSpace]:
    return [NodeSpace(name=f"node-{i + 1}", capacity=capacity) for i in range(count)]


def racked(spaces: list[NodeSpace], racks: int, price: float = 0.1) -> RackTerms:
    """Racks alternate."""
    return RackTerms(
        of={node.name: f"r{1 + i % racks}" for i, node in enumerate(spaces)}, priorities={}, price=price
    )


def scattered(topology: Topology, spaces: list[NodeSpace], rng: random.Random) -> dict[str, str]:
    return {p: rng.choice(spaces).name for p in topology.partitions}


def spread(topology: Topology, spaces: list[NodeSpace]) -> dict[str, str]:
    """One after the other: even, and every query is in every rack."""
    return {p: spaces[i % len(spaces)].name for i, p in enumerate(topology.partitions)}
