"""A topology with shadows: copies of partitions that read the same inputs and give nothing to others. Pure.

They are operators without output beside those that they copy, so that whatever goes by the streams of a
topology applies to them as it is.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from domain.topology.graph import Topology

MARK = "~"
"""Ends the name of an operator that consists of shadows; no other name has it."""


def shadow_of(partition: str) -> str:
    """`O3[2]` to `O3~[2]`."""
    return partition.replace("[", f"{MARK}[")


def partition_of(name: str) -> str:
    """The partition that a shadow is of; a partition's name is its own."""
    return name.replace(f"{MARK}[", "[")


def is_shadow(name: str) -> bool:
    return f"{MARK}[" in name


@lru_cache(maxsize=8)
def shadowed(topology: Topology, operators: frozenset[str]) -> Topology:
    """A view of the topology in which each of these operators has a second one beside it, of shadows."""
    if not operators:
        return topology
    beside = (
        msgspec.structs.replace(operator, name=f"{operator.name}{MARK}", output=False)
        for operator in topology.spec.operators
        if operator.name in operators
    )
    spec = topology.spec
    return Topology(msgspec.structs.replace(spec, operators=(*spec.operators, *beside)))
