"""Cycles of a graph of operators: which operators are in one, and which streams lead back. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import rustworkx as rx

from domain.topology.spec import TopologySpec


@dataclass(frozen=True, slots=True)
class Component:
    """Operators of which each leads to each other (a strongly connected component), in topological order
    with feedback streams left out. aligned: all streams between them are one_to_one, so that their partitions
    of one index are a component of their own."""

    operators: tuple[str, ...]
    aligned: bool


def components_of(spec: TopologySpec, levels: Mapping[str, int]) -> tuple[Component, ...]:
    """Those with a cycle, in topological order. levels: of operators, with feedback streams left out."""
    graph, nodes = _graph(spec)
    found: list[Component] = []
    for group in reversed(rx.strongly_connected_components(graph)):
        names = {graph[node] for node in group}
        if len(names) < 2 and not graph.has_edge(group[0], group[0]):
            continue
        inner = [
            stream
            for operator in spec.operators
            if operator.name in names
            for stream in operator.inputs
            if stream.source in names
        ]
        found.append(
            Component(
                tuple(sorted(names, key=lambda name: (levels[name], nodes[name]))),
                all(stream.partitioning == "one_to_one" for stream in inner),
            )
        )
    return tuple(found)


def proposed_back_edges(spec: TopologySpec) -> list[tuple[int, int, Sequence[str]]]:
    """Streams that would have to be marked as feedback so that no cycle is left without one: for each the
    indices of the operator and of its input, and the cycle that it closes, from its target to its source.

    A search in depth begins at the operators that get input from outside of a cycle; a stream to an operator
    that the search is just below closes a cycle there. Marking all of these leaves no cycle (Tarjan 1972);
    they are not always the fewest that would do.
    """
    names = [operator.name for operator in spec.operators]
    position = {name: index for index, name in enumerate(names)}
    outputs: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    for index, operator in enumerate(spec.operators):
        for at, stream in enumerate(operator.inputs):
            if stream.source in outputs and not stream.feedback:
                outputs[stream.source].append((index, at))
    found: list[tuple[int, int, Sequence[str]]] = []
    done: set[str] = set()
    for root in sorted(names, key=lambda name: (bool(spec.operators[position[name]].inputs), position[name])):
        if root in done:
            continue
        path, pending = [root], [iter(outputs[root])]
        below = {root}
        while path:
            step = next(pending[-1], None)
            if step is None:
                pending.pop()
                below.discard(path[-1])
                done.add(path.pop())
                continue
            index, at = step
            target = names[index]
            if target in below:
                found.append((index, at, tuple(path[path.index(target) :])))
            elif target not in done:
                path.append(target)
                below.add(target)
                pending.append(iter(outputs[target]))
    return sorted(found)


def _graph(spec: TopologySpec) -> tuple[rx.PyDiGraph[str, None], dict[str, int]]:
    """The operators with all streams between them, those that lead back, too."""
    graph: rx.PyDiGraph[str, None] = rx.PyDiGraph()
    nodes = {operator.name: graph.add_node(operator.name) for operator in spec.operators}
    for operator in spec.operators:
        for stream in operator.inputs:
            graph.add_edge(nodes[stream.source], nodes[operator.name], None)
    return graph, nodes
