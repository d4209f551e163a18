"""By what the rows that reach an operator are spread over its partitions: which partition has the state of a
key. Pure.

A `full` stream says so itself; a `one_to_one` or `merge` stream leaves the rows where the operator before it
has them, so what spread that one's input is followed through the operators in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from domain.topology.graph import Topology
from domain.topology.spec import InputSpec, OperatorSpec


class ColumnCatalogue(Protocol):
    """Under which name the rows of an operator have a column of the input rows that they were made from;
    empty where they do not have it."""

    def carries(self, kind: str, params: Mapping[str, Any], column: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Routing:
    """A row whose `column` hashes to h is in partition h % cuts[0] of the place where rows were spread
    last, and each further cut puts i of the one before into `i * cut // before`. column: as it is called
    where the rows arrive; empty where they do not have it. place: where they were spread, and by what."""

    cuts: tuple[int, ...]
    column: str = ""
    place: tuple[str, ...] = ()

    @property
    def single(self) -> bool:
        """Whether all rows are in one partition."""
        return self.cuts[-1] == 1

    def same(self, other: Routing) -> bool:
        """Whether equal rows are in the same partitions."""
        if self.single or other.single:
            return self.single and other.single
        by_column = self.column != "" and self.column == other.column
        return self.cuts == other.cuts and (by_column or self.place == other.place)


SINGLE = Routing((1,))
Routings = Mapping[str, Mapping[str, Routing]]


def routings_of(topology: Topology, catalogue: ColumnCatalogue) -> Routings:
    """Operator -> the operator that it reads from -> what spreads the rows of that stream."""
    found: dict[str, dict[str, Routing]] = {}
    for operator in topology.operators:
        found[operator.name] = {
            stream.source: _arriving(topology, stream, operator, found, catalogue)
            for stream in operator.inputs
        }
    return found


def _arriving(
    topology: Topology, stream: InputSpec, reader: OperatorSpec, known: Routings, catalogue: ColumnCatalogue
) -> Routing:
    sender = topology.by_name[stream.source]
    partitions = reader.parallelism
    if partitions == 1:
        return SINGLE
    if stream.partitioning == "full" or (stream.partitioning == "split" and sender.parallelism == 1):
        return Routing((partitions,), stream.key, (reader.name, stream.key))
    if stream.feedback:  # what spread the rows of a cycle is not followed around it
        return Routing((partitions,), "", ("feedback", sender.name, stream.partitioning))
    sent = _sent(sender, known[sender.name], catalogue)
    if stream.partitioning == "one_to_one":
        return sent
    if stream.partitioning == "merge":
        return Routing((*sent.cuts, partitions), sent.column, sent.place)
    place = ("split", reader.name, stream.key, *map(str, sent.cuts), *sent.place)
    return Routing((partitions,), "", place)


def _sent(sender: OperatorSpec, arriving: Mapping[str, Routing], catalogue: ColumnCatalogue) -> Routing:
    """Which rows each partition of an operator sends."""
    if sender.parallelism == 1:
        return SINGLE
    routings = list(arriving.values())
    if not routings:
        return Routing((sender.parallelism,), "", ("source", sender.name))
    first = routings[0]
    if not all(first.same(one) and first.column == one.column for one in routings):
        return Routing((sender.parallelism,), "", ("inputs", sender.name))
    column = catalogue.carries(sender.kind, sender.params, first.column) if first.column else ""
    return Routing(first.cuts, column, first.place)
