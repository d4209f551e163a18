"""Which column of its input rows says to which key of an operator's state a row belongs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from domain.topology.continuation import EVERY_COLUMN, KEYLESS
from domain.topology.graph import Topology
from domain.topology.routing import ColumnCatalogue, routings_of
from domain.topology.spec import InputSpec


class KeyCatalogue(ColumnCatalogue, Protocol):
    """state_columns: the columns of input rows by which the state of an operator can be divided."""

    def state_columns(self, kind: str, params: Mapping[str, Any]) -> Sequence[str]: ...


def key_columns(topology: Topology, operator: str, catalogue: KeyCatalogue) -> dict[str, str]:
    """Input -> its column; empty where the state cannot be told apart by key, so that all of a partition's is
    one."""
    spec = topology.by_name[operator]
    columns = catalogue.state_columns(spec.kind, spec.params)
    if not columns or KEYLESS in columns:
        return {}
    routings = routings_of(topology, catalogue)[operator]
    found: dict[str, str] = {}
    for stream in spec.inputs:
        routing = routings[stream.source]
        column = _single(stream, columns) if routing.single else routing.column
        if not column or (column not in columns and EVERY_COLUMN not in columns):
            return {}
        found[stream.source] = column
    return found


def _single(stream: InputSpec, columns: Sequence[str]) -> str:
    """Where all rows come to one partition, the column that the stream names, if the state has it."""
    if stream.key in columns:
        return stream.key
    if EVERY_COLUMN in columns:
        return stream.key if stream.partitioning == "full" else ""
    return columns[0]
