"""The engine without Spark: the real sources, operators and sink, one epoch after the other, in this
process. It leaves the same files behind as a deployed topology does."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from domain.execution.progress import Position
from domain.topology import Topology, load_topology
from spark_jobs.driver.epoch_log import EpochLog
from spark_jobs.driver.epoch_planner import EpochPlanner
from spark_jobs.executor.exchange import route
from spark_jobs.operators.base import EpochContext, Operator
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
    states, operators = empty_states(topology), operators_of(topology, catalogue)
    start, previous = reader.initialOffset(), reader.watermark(0)
    for epoch in range(1, epochs + 1):
        end = reader.advance(start, tuples)
        final = reader.finished(end)
        watermark = reader.last_ts(end["tuple"]) if final else reader.watermark(end["tuple"])
        context = EpochContext(epoch, watermark, previous, final)
        slices = {topology.sources[0].name: reader.partitions(start, end)}
        readers = {topology.sources[0].name: reader}
        apply(home, topology, context, readers, slices, operators, states)
        plan = {"epoch": epoch, "slices": {topology.sources[0].name: [start, end]}, "watermark": watermark,
                "previous_watermark": previous, "at": 0.0, "final": final}  # fmt: skip
        lines += [{"t": "plan", **plan}, {"t": "commit", "epoch": epoch, "at": 0.0}]
        start, previous = end, watermark
        if final:
            break
    (directory / "epochs.log").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return topology


def run_as_planned(
    home: Path,
    spec: Mapping[str, Any],
    *,
    epochs: int,
    clock: float = 1_700_000_003.0,
    lost: Collection[str] = (),
) -> Topology:
    """Run `epochs` epochs as a driver plans them whose clock goes from one to the next, with the inputs that
    it has prepared. lost: partitions that are down all the time, and give nothing."""
    catalogue = OperatorCatalogue(("tests",))
    topology = load_topology(spec, catalogue)
    log = EpochLog(home / "topologies" / topology.name / "epochs.log", force=False)
    now = [clock]
    planner = EpochPlanner(topology=topology, log=log, home=home, modules=["tests"], clock=lambda: now[0])
    planner.prepare(lambda problem: None)
    planner.start()
    log.deployed = DEPLOYED
    log.applied(DEPLOYED, Position(), {})
    states, operators = empty_states(topology), operators_of(topology, catalogue)
    readers = {
        source.name: reader_create(source.params, planner.options[source.name], ("tests",))
        for source in topology.sources
    }
    for _ in range(epochs):
        now[0] += topology.spec.epoch_interval
        for plan in planner.plan_due(ahead=1, reached=log.head, after=_after(topology, states)):
            slices = {name: readers[name].partitions(*ends) for name, ends in plan.slices.items()}
            context = EpochContext(plan.epoch, plan.watermark, plan.previous_watermark, plan.final)
            apply(home, topology, context, readers, slices, operators, states, lost)
            log.commit(Position(plan.epoch), now[0])
    log.close()
    return topology


def _after(topology: Topology, states: Mapping[str, StateTables]) -> str:
    """Which epoch follows the end of the input."""
    if not topology.fed_back:
        return ""
    return "open" if any(states[partition].sent_back for partition in topology.fed_back) else "final"


def empty_states(topology: Topology) -> dict[str, StateTables]:
    return {partition: StateTables({}, {}, {}) for partition in topology.partitions}


def operators_of(topology: Topology, catalogue: OperatorCatalogue) -> dict[str, Operator]:
    return {
        operator.name: catalogue.create(
            operator.kind, operator.params, [stream.source for stream in operator.inputs], ("tests",)
        )
        for operator in topology.operators
        if operator.inputs
    }


def apply(
    home: Path,
    topology: Topology,
    context: EpochContext,
    readers: Mapping[str, Any],
    slices: Mapping[str, Sequence[Any]],
    operators: Mapping[str, Operator],
    states: Mapping[str, StateTables],
    lost: Collection[str] = (),
) -> None:
    """One epoch: every partition reads or gets its rows, processes them, writes and sends what it gives."""
    inbox: dict[str, dict[str, list[pa.Table]]] = {name: {} for name in topology.partitions}
    for partition in topology.fed_back:
        for targets, rows in route(
            topology, partition, states[partition].sent_back, operators, feedback=True
        ):
            for target in targets:
                if rows is not None:
                    inbox[target].setdefault(topology.operator_of(partition).name, []).append(rows)
    for partition in topology.partitions:
        if partition in lost:
            continue
        operator = topology.operator_of(partition)
        index = int(partition.partition("[")[2][:-1])
        if operator.inputs:
            table = operators[operator.name].process(context, inbox[partition], states[partition])
        else:
            parts = slices[operator.name]
            batches = list(readers[operator.name].read(parts[index])) if parts else []
            table = pa.Table.from_batches(batches) if batches else None
        if partition in topology.fed_back:
            states[partition].send_back(table)
        if operator.output:
            write_epoch(home / "outputs", topology.name, operator.name, index, context.epoch, table)
        for targets, rows in route(topology, partition, table, operators):
            for target in targets:
                if rows is not None:
                    inbox[target].setdefault(operator.name, []).append(rows)
