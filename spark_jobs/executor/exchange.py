"""The exchange between partitions: few, large messages, one Arrow IPC blob per source partition, epoch and
set of target partitions that receive the same rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from domain.execution.flows import counted_streams
from domain.topology import Topology, partition_id, split_partition
from domain.topology.copies import partition_of
from domain.topology.spec import InputSpec, OperatorSpec
from spark_jobs.operators.base import Combinable, Operator
from spark_jobs.operators.problems import OperatorError
from spark_jobs.state.key_hash import hash_strings
from spark_jobs.state.key_states import in_one_form, key_texts

EMPTY = b""
KEY = "key"
"""The column that rows have after they were combined as well."""
LARGE = 16 * 1024
"""Bytes from which a table counts as large."""
PLAIN, COMPRESSED = pa.ipc.IpcWriteOptions(), pa.ipc.IpcWriteOptions(compression="zstd")
Routed = list[tuple[list[str], pa.Table | None]]
"""Target partitions, and the rows that all of them receive."""


def encode_table(table: pa.Table | None, *, compressed: bool = False) -> bytes:
    """Arrow IPC stream; an empty table is an empty blob, whatever its columns. compressed: if it is large."""
    if table is None or not table.num_rows:
        return EMPTY
    sink = pa.BufferOutputStream()
    options = COMPRESSED if compressed and table.nbytes >= LARGE else PLAIN
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def decode_table(payload: bytes) -> pa.Table | None:
    if not payload:
        return None
    with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
        return reader.read_all()


def route(
    topology: Topology,
    partition: str,
    table: pa.Table | None,
    operators: Mapping[str, Operator],
    *,
    feedback: bool = False,
) -> Routed:
    """Which target partitions receive which rows of one epoch's output. Every downstream neighbour gets a
    table, if only an empty one: it is also the barrier. `operators` maps names to instances that may offer
    partial aggregation; subscribers that receive the same rows share one entry. feedback: through feedback
    streams, not through the others."""
    _, index = split_partition(partition_of(partition))
    name = partition.partition("[")[0]
    streams = [
        (target, stream)
        for target in topology.operators
        for stream in target.inputs
        if stream.source == name and stream.feedback == feedback
    ]
    combining = _combining(streams, operators, topology.spec.epoch_interval) if table is not None else {}
    combined: dict[Any, pa.Table | None] = {None: table}
    groups: dict[Any, tuple[list[str], pa.Table | None]] = {}
    for target, stream in streams:
        operator = combining.get(target.name)
        combine = operator.combine_key() if operator is not None else None
        if operator is not None and combine not in combined:
            combined[combine] = _combine(operator, table)
        rows = combined[combine]
        reached = topology.targets(stream, target, index)
        for position, part in _parts(stream, target, reached, rows):
            share = (position - reached.start, len(reached), stream.key)
            identity = (combine, None if part is rows else share)
            groups.setdefault(identity, ([], part))[0].append(partition_id(target.name, position))
    return list(groups.values())


def _combining(
    streams: Sequence[tuple[OperatorSpec, InputSpec]], operators: Mapping[str, Operator], epoch_s: float
) -> dict[str, Combinable]:
    """For each target that lets rows be combined, the operator that combines them: one for as many as
    possible."""
    targets = {
        target.name: operator
        for target, stream in streams
        if isinstance(operator := operators[target.name], Combinable) and stream.key == KEY
    }
    different = {operator.combine_key(): operator for operator in targets.values()}
    ordered = [different[key] for key in sorted(different)]
    serving = {
        key: next(one for one in ordered if one.serves(operator, epoch_s))
        for key, operator in different.items()
    }
    return {name: serving[operator.combine_key()] for name, operator in targets.items()}


def _combine(operator: Combinable, table: pa.Table | None) -> pa.Table | None:
    """Rows that cannot be combined go as they are: the operator that cannot use them says so."""
    if table is None or not table.num_rows:
        return table
    try:
        return operator.combine(table)
    except OperatorError:
        return table


def routed_count(
    topology: Topology, partition: str, table: pa.Table | None, routed: Routed, into: dict[str, list[int]]
) -> None:
    """Add the rows that each target receives to the counts by operator, of the streams that are counted.
    A partial aggregate counts as the rows of `table` that it stands for."""
    name, index = split_partition(partition)
    by_target = {target: part for targets, part in routed for target in targets}
    for source, reader in counted_streams(topology):
        if source != name:
            continue
        target = topology.by_name[reader]
        stream = next(one for one in target.inputs if one.source == name)
        positions = topology.targets(stream, target, index)
        counts = into.setdefault(reader, [0] * len(positions))
        for offset, position in enumerate(positions):
            counts[offset] += _stands_for(by_target.get(partition_id(reader, position)), table)


def _stands_for(part: pa.Table | None, table: pa.Table | None) -> int:
    if part is None or table is None or not part.num_rows:
        return 0
    if part.column_names == table.column_names or "count" not in part.column_names:
        return int(part.num_rows)
    return int(pc.sum(part.column("count")).as_py() or 0)


def _parts(
    stream: InputSpec, target: OperatorSpec, targets: range, table: pa.Table | None
) -> Iterator[tuple[int, pa.Table | None]]:
    if len(targets) == 1 or table is None or not table.num_rows:
        for position in targets:
            yield position, table
        return
    if stream.key not in table.column_names:
        raise OperatorError(
            f"rows of {stream.source} are spread over the partitions of {target.name} by a column"
            f" {stream.key!r}, but they have {', '.join(table.column_names)}",
            "Name one of these as the `key` of the stream, or give the rows that column.",
        )
    try:
        bucket = key_buckets(table.column(stream.key), len(targets))
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise OperatorError(
            f"rows of {stream.source} are spread over the partitions of {target.name} by a column"
            f" {stream.key!r} whose values cannot be read as text: {table.column(stream.key).type}",
            "Name another column as the `key` of the stream, or make it text before, such as with"
            " `CAST(... AS VARCHAR)` in `sql`.",
        ) from error
    for offset, position in enumerate(targets):
        yield position, table.filter(pa.array(bucket == offset))


def key_buckets(column: pa.ChunkedArray, count: int, *cuts: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The target of each row by a hash of its key that is the same in every process and on every machine;
    all rows without a key have the same, and so have equal keys of different types, for joins. cuts: how many
    partitions `merge` streams behind it lead to, see `Routing`."""
    encoded = pc.dictionary_encode(key_texts(in_one_form(column)))
    bucket = (hash_strings(encoded.dictionary) % np.uint64(count)).astype(np.int64)
    for before, after in pairwise((count, *cuts)):
        bucket = bucket * after // before
    return bucket[encoded.indices.to_numpy(zero_copy_only=False)]
