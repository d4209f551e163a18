"""One operator of a stored topology."""

from __future__ import annotations

from typing import Any

from controlplane.errors import Missing
from controlplane.topologies.graphs import graph_of_text
from controlplane.topologies.selectors import topology_worded
from domain.topology import Topology as TopologyGraph
from domain.topology.spec import OperatorSpec


def operator_find(topology: str, operator: str) -> tuple[Any, TopologyGraph, OperatorSpec]:
    """A topology's row and graph, and one of its operators. Raises `Missing`."""
    row = topology_worded(topology)
    graph = graph_of_text(row.spec_text)
    found = graph.by_name.get(operator)
    if found is None:
        raise Missing(f"topology {topology!r} has no operator {operator!r}")
    return row, graph, found
