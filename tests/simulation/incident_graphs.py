"""Topologies of the incident world."""

from __future__ import annotations

from domain.topology import Topology, TopologySpec
from domain.topology.spec import InputSpec, OperatorSpec

PLANNERS = ("best_density", "profit_density", "adaptive_density", "look_ahead", "operator_centric")


def topology(name: str, width: int) -> Topology:
    """Source -> keyed operator -> output, `width` partitions each."""
    return Topology(
        TopologySpec(
            name=name,
            operators=(
                OperatorSpec(name="Source", kind="file", parallelism=width),
                OperatorSpec(
                    name="Count", kind="count", parallelism=width,
                    inputs=(InputSpec(source="Source", partitioning="full"),),
                ),
                OperatorSpec(
                    name="Top", kind="top", parallelism=width, output=True,
                    inputs=(InputSpec(source="Count", partitioning="one_to_one"),),
                ),
            ),
        )
    )  # fmt: skip


def branches(name: str, width: int, *, deterministic: bool = True) -> Topology:
    """`width` independent chains Source -> A (an output) -> B (an output), and one output over all of them:
    some queries can return without the others. The first chain also feeds an operator that no query needs."""

    def one_to_one(source: str) -> tuple[InputSpec, ...]:
        return (InputSpec(source=source, partitioning="one_to_one"),)

    return Topology(
        TopologySpec(
            name=name,
            operators=(
                OperatorSpec(name="Source", kind="file", parallelism=width),
                OperatorSpec(
                    name="A", kind="map", parallelism=width, output=True, priority=3,
                    inputs=one_to_one("Source"), deterministic=deterministic,
                ),
                OperatorSpec(name="B", kind="map", parallelism=width, output=True, inputs=one_to_one("A")),
                OperatorSpec(
                    name="All", kind="count", output=True, priority=7,
                    inputs=(InputSpec(source="A", partitioning="full"),),
                ),
                OperatorSpec(
                    name="Unused", kind="map", parallelism=width, inputs=one_to_one("Source"),
                ),
            ),
        )
    )  # fmt: skip
