"""The state of a partition from a checkpoint whose keys are in other partitions: the topology has another
parallelism now, or spreads its rows by another column.

The checkpoint stays as it is. Each partition reads what partitions of its operator had in it, and keeps the
rows of its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import gcd
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from domain.execution.job import Layout
from domain.topology import Topology, split_partition
from domain.topology.graph import partition_id
from domain.topology.routing import Routing, routings_of
from domain.topology.spec import TopologySpec
from host.scratch import empty_directory
from spark_jobs.executor.exchange import key_buckets
from spark_jobs.operators.base import Operator
from spark_jobs.operators.catalogue import catalogue
from spark_jobs.operators.problems import OperatorError
from spark_jobs.state.keyed_merging import note_divided
from spark_jobs.state.late import LEFT_OUT, leave_out
from spark_jobs.state.records import CheckpointRecord
from spark_jobs.state.store import Manifest, StateStore
from spark_jobs.state.tables import SENT_BACK, StateTables

Fetch = Callable[[str, Path], Manifest]
"""Brings the files of a partition's state into a directory, and returns its manifest."""
SCRATCH: Final = ".divided"
"""Directory beside the state of a partition, for the states that it is made from."""


def is_divided(layout: Layout, partition: str, checkpoint: int) -> bool:
    """Whether the state of a partition is not in a checkpoint as it is needed."""
    division = layout.division
    operator, _ = split_partition(partition)
    return division is not None and checkpoint == division.checkpoint and operator in division.operators


def division_sources(layout: Layout, partition: str, record: CheckpointRecord) -> list[str]:
    """The partitions of the checkpoint that may have state of this one's keys, in their order."""
    operator, index = split_partition(partition)
    before = Topology(msgspec.convert(record.spec, TopologySpec))
    earlier, later = (
        list(routings_of(topology, catalogue)[operator].values())
        for topology in (before, Topology(layout.spec))
    )
    step = alike(earlier, later)
    count = before.by_name[operator].parallelism
    return [partition_id(operator, number) for number in range(count) if number % step == index % step]


def alike(earlier: Sequence[Routing], later: Sequence[Routing]) -> int:
    """A number by which the partitions of a key before and now leave the same remainder: where a hash is
    taken modulo the number of partitions, a divisor of both tells it."""
    routings = [*earlier, *later]
    hashed = all(len(one.cuts) == 1 for one in routings)
    by_one_column = all(
        one.column and one.column == other.column for one, other in zip(earlier, later, strict=True)
    )
    return gcd(*(one.cuts[0] for one in routings)) if hashed and by_one_column else 1


def divided_manifest(
    store: StateStore, layout: Layout, partition: str, record: CheckpointRecord, fetch: Fetch
) -> Manifest:
    """Write the state of a partition, whose manifest is returned and not installed."""
    name, index = split_partition(partition)
    topology = Topology(layout.spec)
    spec = topology.by_name[name]
    inputs = [stream.source for stream in spec.inputs]
    operator = catalogue.create(spec.kind, spec.params, inputs, layout.operator_modules)
    share = Share(operator, routings_of(topology, catalogue)[name], index, spec.parallelism)
    with empty_directory(store.directory / SCRATCH) as scratch:
        states = {}
        for source in division_sources(layout, partition, record):
            _, number = split_partition(source)
            directory = scratch / str(number)
            directory.mkdir()
            states[number] = StateStore(directory).open(fetch(source, directory))
        return store.write(share.of(states), epoch=record.checkpoint, generation=layout.generation)


class Share:
    """What one of `count` partitions has of its operator's state; `routings` say by what the rows of each
    input are spread over them."""

    def __init__(self, operator: Operator, routings: Mapping[str, Routing], index: int, count: int) -> None:
        self.operator = operator
        self.routings = routings
        self.index = index
        self.count = count

    def of(self, states: Mapping[int, StateTables]) -> StateTables:
        """Of the states of partitions of the checkpoint, by their number. Raises `OperatorError`."""
        own = {number: dict(state.values) for number, state in states.items()}
        left_out = {number: values.pop(LEFT_OUT, 0) for number, values in own.items()}
        merged = StateTables(self.operator.values_merged(list(own.values())), {}, {})
        leave_out(merged, sum(rows for number, rows in left_out.items() if self._follows(number)))
        for number, state in states.items():
            for name, entries in state.maps.items():
                keys = list(entries)
                mine = self._mine(pa.chunked_array([keys], pa.string()), name)
                merged.map(name).update((keys[at], entries[keys[at]]) for at in np.flatnonzero(mine))
            for name, table in state.tables.items():
                for chunk in table:
                    rows = self._rows(name, chunk.table, number)
                    merged.table(name).append(rows, note_divided(chunk.note))
        return merged

    def _follows(self, number: int) -> bool:
        """Whether this one has what a partition of the checkpoint had of no key."""
        return number % self.count == self.index

    def _rows(self, name: str, table: pa.Table, number: int) -> pa.Table:
        """Those of a chunk of the partition `number` that are this one's."""
        if name == SENT_BACK:  # from wherever they are sent, they reach the same partitions
            return table if self._follows(number) else table.slice(0, 0)
        column = self.routings[self.operator.state_input(name)].column
        if self.count > 1 and column not in table.column_names:
            raise OperatorError(
                f"table {name!r} of the state of a {self.operator.kind} has no column {column!r}",
                "Deploy the version before, or from the first tuple; and report this.",
            )
        return table if self.count == 1 else table.filter(pa.array(self._mine(table.column(column), name)))

    def _mine(self, keys: pa.ChunkedArray, name: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
        if self.count == 1:
            return np.ones(len(keys), dtype=np.bool_)
        return key_buckets(keys, *self.routings[self.operator.state_input(name)].cuts) == self.index
