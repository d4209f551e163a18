"""The engine without Spark: the real sources, operators and sink, one epoch after the other, in this
process. It leaves the same files behind as a deployed topology does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from domain.topology import Topology, load_topology
from spark_jobs.executor.exchange import route
from spark_jobs.operators.base import EpochContext
from spark_jobs.operators.catalogue import OperatorCatalogue
from spark_jobs.sources.prepare import prepare
from spark_jobs.sources.registry import reader_create
from spark_jobs.state.tables import StateTables
from tests.outputs import DEPLOYED, write_epoch

ORIGIN_US = 1_700_000_003_000_000


def run(home: Path, spec: Mapping[str, Any], *, source: Path, epochs: int, tuples: int) -> Topology:
    """Run `epochs` epochs of up to `tuples` tuples, or to the limit of the source."""
    catalogue = OperatorCatalogue(("tests",))
    topology = load_topology(spec, catalogue)
    directory = home / "topologies" / topology.name
    params = topology.sources[0].params
    prepared = prepare(source, directory / "input.arrow", ts_unit=params.get("ts_unit", "auto"))
    options = {"path": prepared.path, "origin_us": ORIGIN_US, "parallelism": topology.sources[0].parallelism}
    reader: Any = reader_create(params, options)
    lines: list[dict[str, Any]] = [
        {"t": "start", "at": 0.0, "origin_us": ORIGIN_US},
        {"t": "applied", "generation": DEPLOYED, "deployed": DEPLOYED, "epoch": 0},
    ]
    states = {partition: StateTables({}, {}, {}) for partition in topology.partitions}
    operators = {
        operator.name: catalogue.create(
            operator.kind, operator.params, [stream.source for stream in operator.inputs], ("tests",)
        )
        for operator in topology.operators
        if operator.inputs
    }
    start, previous = reader.initialOffset(), reader.watermark(0)
    for epoch in range(1, epochs + 1):
        end = reader.advance(start, tuples)
        final = reader.finished(end)
        watermark = reader.last_ts(end["tuple"]) if final else reader.watermark(end["tuple"])
        context = EpochContext(epoch, watermark, previous, final)
        inbox: dict[str, dict[str, list[pa.Table]]] = {name: {} for name in topology.partitions}
        slices = reader.partitions(start, end)
        for partition in topology.partitions:
            operator = topology.operator_of(partition)
            index = int(partition.partition("[")[2][:-1])
            if operator.inputs:
                given = inbox[partition]
                table = operators[operator.name].process(context, given, states[partition])
            else:
                table = pa.Table.from_batches(list(reader.read(slices[index])), None) if slices else None
            if operator.output:
                write_epoch(home / "outputs", topology.name, operator.name, index, epoch, table)
            for targets, rows in route(topology, partition, table, operators):
                for target in targets:
                    if rows is not None:
                        inbox[target].setdefault(operator.name, []).append(rows)
        plan = {"epoch": epoch, "slices": {topology.sources[0].name: [start, end]}, "watermark": watermark,
                "previous_watermark": previous, "at": 0.0, "final": final}  # fmt: skip
        lines += [{"t": "plan", **plan}, {"t": "commit", "epoch": epoch, "at": 0.0}]
        start, previous = end, watermark
        if final:
            break
    (directory / "epochs.log").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return topology
