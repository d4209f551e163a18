"""Parts of a topology that can be planned by themselves, because only `full` streams connect them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import msgspec

from domain.fidelity import FidelityModel
from domain.topology import Topology, TopologySpec


@dataclass(frozen=True, slots=True)
class Part:
    """Some operators as a topology of their own. indices: of its partitions in the whole topology."""

    model: FidelityModel
    structure: Literal["structured", "full"]
    indices: tuple[int, ...]

    def outside(self, plan: Collection[int]) -> frozenset[int]:
        """Partitions of this part by their indices in the whole topology."""
        return frozenset(self.indices[one] for one in plan)


def whole(model: FidelityModel, structure: Literal["structured", "full"]) -> Part:
    return Part(model, structure, tuple(range(len(model.partitions))))


def part_of(
    model: FidelityModel, operators: Collection[str], structure: Literal["structured", "full"]
) -> Part:
    """The operators with the streams between them; those that nothing among them reads are outputs."""
    own = [model.topology.by_name[name] for name in sorted(operators, key=list(model.topology.by_name).index)]
    inputs = {
        one.name: tuple(stream for stream in one.inputs if stream.source in operators and not stream.feedback)
        for one in own
    }
    read = {stream.source for streams in inputs.values() for stream in streams}
    specs = tuple(
        msgspec.structs.replace(one, inputs=inputs[one.name], output=one.output or one.name not in read)
        for one in own
    )
    topology = Topology(TopologySpec(name="part", operators=specs))
    rates = {name: float(model.rates[model.index[name]]) for name in topology.partitions}
    indices = tuple(model.index[name] for name in topology.partitions)
    flows = {name: model.flows[name] for name in topology.partitions if name in model.flows}
    return Part(FidelityModel(topology, rates, model.objective, flows=flows), structure, indices)


def parts_of(model: FidelityModel) -> list[Part]:
    """As few parts as possible, each structured or full, in the order of their operators."""
    topology = model.topology
    streams = [
        (stream.source, operator.name, stream.partitioning == "full")
        for operator in topology.operators
        for stream in operator.inputs
        if not stream.feedback
    ]
    structured = {name for source, target, full in streams if not full for name in (source, target)}
    groups = {operator.name: operator.name for operator in topology.operators}

    def root(name: str) -> str:
        while groups[name] != name:
            name = groups[name]
        return name

    for source, target, full in streams:
        if not full or not {source, target} & structured:
            groups[root(target)] = root(source)
    members: dict[str, list[str]] = {}
    for operator in topology.operators:
        members.setdefault(root(operator.name), []).append(operator.name)
    return [
        part_of(model, names, "structured" if names[0] in structured else "full")
        for names in members.values()
    ]
