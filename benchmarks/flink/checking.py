"""Comparing the rows of the Flink job with those that `manage.py verify` would expect of Resurge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import numpy as np

from benchmarks.flink.installation import FlinkError
from benchmarks.flink.outputs import counted, runs, written
from benchmarks.stack import Verdict
from controlplane.verification.comparison import QueryResult, compare
from controlplane.verification.extent import Extent
from controlplane.verification.original import Original, original_read
from controlplane.verification.rates import Rates
from controlplane.verification.relations import SECOND, Relations
from controlplane.verification.streams import stream_build
from domain.topology import Topology, TopologySpec

KINDS = ("missing", "duplicate", "unexpected", "different")


def texts_read(path: Path) -> list[str | None]:
    """The texts by row. Raises `FlinkError` for a file with event times, which the job does not know."""
    original = original_read(path, text="text", ts="ts", ts_unit="auto")
    if original.times is not None:
        raise FlinkError(f"{path} has event times; the Flink job gives tuples those of their turn")
    return original.texts


def texts_write(texts: Sequence[str | None], path: Path) -> None:
    """The file from which the job reads: number of rows, offsets, bytes."""
    encoded = [(text or "").encode() for text in texts]
    offsets = np.zeros(len(encoded) + 1, dtype="<i4")
    np.cumsum([len(one) for one in encoded], out=offsets[1:])
    with path.open("wb") as file:
        file.write(len(encoded).to_bytes(4, "little"))
        file.write(offsets.tobytes())
        file.writelines(encoded)


def tuples_before(second: int, *, origin_us: int, rate: int) -> int:
    """How many tuples have an event time before this second."""
    return max(0, -(-(second * SECOND - origin_us) * rate // SECOND))


def outputs_check(
    spec: Mapping[str, Any],
    *,
    outputs: Path,
    texts: list[str | None],
    rate: int,
    origin_us: int,
    second: int,
) -> Verdict:
    """Compare all windows that end by `second` (Unix seconds) row by row. `spec`: the same queries as a
    pipeline of Resurge."""
    topology = Topology(msgspec.convert(spec, TopologySpec))
    number = tuples_before(second, origin_us=origin_us, rate=rate)
    extent = Extent(1, origin_us, second * SECOND, False, {one.name: number for one in topology.sources})
    results: list[QueryResult] = []
    with duckdb.connect(":memory:", config={"preserve_insertion_order": False}) as database:
        relations = Relations(database, topology, extent)
        for operator in topology.operators:
            if operator.inputs:
                stream_build(relations, operator)
            else:
                relations.add_source(operator, Original(texts, None, None), Rates([rate], SECOND))
        for operator in topology.outputs:
            result = QueryResult(query=f"{operator.name}[0]", operator=operator.name)
            file = _rows_copy(database, outputs / operator.name, second)
            compare(database, relations.stream(operator.name), [file] if file else [], result, 0)
            results.append(result)
    faults = {
        result.query: {kind: getattr(result, kind) for kind in KINDS if getattr(result, kind)}
        for result in results
        if not result.clean
    }
    rows = sum(result.found for result in results)
    return Verdict(clean=not faults and rows > 0, queries=len(results), rows=rows, faults=faults)


def _rows_copy(database: duckdb.DuckDBPyConnection, directory: Path, second: int) -> str | None:
    """The rows of a query that count, as one file of the form that the comparison reads."""
    paths = sorted(directory.iterdir())
    files = [str(one.path) for one in counted(written(paths), runs(path.name for path in paths))]
    if not files:
        return None
    target = str(directory / "counted.parquet")
    columns = "{'s': 'BIGINT', 'e': 'BIGINT', 'n': 'BIGINT', 'k': 'VARCHAR'}"
    database.execute(
        "COPY (SELECT s * 1000000 AS window_start, e * 1000000 AS window_end, k AS key, n AS count,"  # noqa: S608
        " 'final' AS status FROM read_csv($files, header = false, delim = ',', quote = '', escape = '',"
        f" columns = {columns}) WHERE e <= {int(second)}) TO '{target}' (FORMAT parquet)",
        {"files": files},
    )
    return target
