"""A topology with copies of partitions: shadows, and branches that go on without lost inputs. Pure.

Copies are operators beside those that they copy, so that whatever goes by the streams of a topology applies
to them as it is. A shadow reads what its partition reads and gives nothing to others. A branch also reads
from the branches of its inputs, and gives to other branches only.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from domain.topology.graph import Topology
from domain.topology.spec import OperatorSpec

SHADOW, BRANCH = "~", "?"
"""End the name of an operator that consists of copies; no other name has one."""


def shadow_of(partition: str) -> str:
    """`O3[2]` to `O3~[2]`."""
    return partition.replace("[", f"{SHADOW}[")


def branch_of(partition: str) -> str:
    """`O3[2]` to `O3?[2]`."""
    return partition.replace("[", f"{BRANCH}[")


def partition_of(name: str) -> str:
    """The partition that a copy is of; a partition's name is its own."""
    return name.replace(f"{SHADOW}[", "[").replace(f"{BRANCH}[", "[")


def operator_of(name: str) -> str:
    """The operator that a partition, or a copy of one, is of."""
    return name.partition("[")[0].rstrip(SHADOW + BRANCH)


def is_shadow(name: str) -> bool:
    return f"{SHADOW}[" in name


def is_branch(name: str) -> bool:
    return f"{BRANCH}[" in name


def is_copy(name: str) -> bool:
    return is_shadow(name) or is_branch(name)


@lru_cache(maxsize=8)
def with_copies(topology: Topology, shadowed: frozenset[str], branched: frozenset[str]) -> Topology:
    """A view of the topology in which these operators have a second one beside them, of shadows or branches;
    without any, the topology itself."""
    if not (shadowed or branched):
        return topology
    spec = topology.spec
    shadows = (_copied(one, SHADOW) for one in spec.operators if one.name in shadowed)
    branches = (_branch(one, branched) for one in spec.operators if one.name in branched)
    return Topology(msgspec.structs.replace(spec, operators=(*spec.operators, *shadows, *branches)))


def _copied(operator: OperatorSpec, mark: str) -> OperatorSpec:
    return msgspec.structs.replace(operator, name=f"{operator.name}{mark}", output=False)


def _branch(operator: OperatorSpec, branched: frozenset[str]) -> OperatorSpec:
    beside = (
        msgspec.structs.replace(stream, source=f"{stream.source}{BRANCH}")
        for stream in operator.inputs
        if stream.source in branched
    )
    return msgspec.structs.replace(_copied(operator, BRANCH), inputs=(*operator.inputs, *beside))
