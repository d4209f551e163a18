"""A small valid topology and the messages a driver would send about it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from controlplane.events.audit import By
from controlplane.events.choices import Channel
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import Topology
from domain.messages import (
    CheckpointAck,
    CheckpointReport,
    DriverState,
    DriverStatus,
    EpochReport,
    PartitionMetrics,
    QueryMetrics,
)

BY: By = {"actor": "ada", "reason": "test", "channel": Channel.CLI}
"""Actor, reason and channel of a change, for services that record it."""

_SPEC: dict[str, Any] = {
    "name": "counts",
    "description": "Two windows over one parser",
    "operators": [
        {"name": "Source", "kind": "source", "parallelism": 2, "params": {"rate": 1000}},
        {
            "name": "Parser",
            "kind": "flat_map_regex",
            "parallelism": 2,
            "inputs": [{"from": "Source", "partitioning": "one_to_one"}],
            "params": {"pattern": "#(\\w+)"},
        },
        {
            "name": "O0",
            "kind": "sliding_window",
            "parallelism": 2,
            "inputs": [{"from": "Parser"}],
            "params": {"size_s": 10, "slide_s": 5},
            "output": True,
            "priority": 3,
        },
        {
            "name": "O1",
            "kind": "sliding_window",
            "inputs": [{"from": "Parser"}],
            "params": {"size_s": 20, "slide_s": 5},
            "output": True,
        },
    ],
}


def spec_of(name: str = "counts", *, parallelism: int = 2) -> dict[str, Any]:
    spec = copy.deepcopy(_SPEC)
    spec["name"] = name
    for operator in spec["operators"][:3]:
        operator["parallelism"] = parallelism
    return spec


def epoch_report(
    topology: Topology,
    *,
    epoch: int = 5,
    generation: int | None = None,
    state: DriverState = "running",
    absent: tuple[str, ...] = (),
    latency: float = 0.8,
) -> EpochReport:
    graph = graph_of(topology.spec)
    placed = {
        row.label: row.node.name if row.node else "" for row in topology.partitions.select_related("node")
    }
    return EpochReport(
        topology=topology.name,
        generation=topology.generation if generation is None else generation,
        first=epoch,
        last=epoch,
        head=epoch + 1,
        committed=epoch,
        tuples=1000,
        started_at=100.0 + epoch,
        ended_at=100.5 + epoch,
        input_rate=1000.0,
        watermark=0.0,
        state=state,
        absent=list(absent),
        queries={query: QueryMetrics(epoch=epoch, latency=latency, rows=7) for query in graph.queries},
        partitions={
            partition: PartitionMetrics(
                epoch=epoch,
                node=placed[partition],
                cost=0.05,
                rows_in=500,
                rows_out=250,
                state_bytes=4096,
            )
            for partition in graph.partitions
        },
    )


def driver_status(
    topology: Topology,
    state: DriverState = "running",
    *,
    generation: int | None = None,
    committed: int = 5,
    absent: tuple[str, ...] = (),
    error: str = "",
) -> DriverStatus:
    return DriverStatus(
        topology=topology.name,
        pid=1,
        session="0x1",
        generation=topology.generation if generation is None else generation,
        state=state,
        head=committed + 1,
        committed=committed,
        checkpoint=0,
        absent=list(absent),
        error=error,
        at=100.0,
    )


def checkpoint_report(
    topology: Topology,
    state: str = "completed",
    *,
    checkpoint: int = 10,
    generation: int | None = None,
    acknowledged: int = 7,
    request: int = 0,
    cause: str = "",
    kept: Sequence[int] = (),
    acknowledgements: Sequence[CheckpointAck] = (),
) -> CheckpointReport:
    return CheckpointReport(
        topology=topology.name,
        checkpoint=checkpoint,
        generation=topology.generation if generation is None else generation,
        state=state,  # type: ignore[arg-type]
        acknowledged=acknowledged,
        total=7,
        size_bytes=1000 * acknowledged,
        started_at=110.0,
        ended_at=None if state in ("started", "acknowledged") else 111.0,
        cause=cause,
        request=request,
        kept=list(kept),
        acknowledgements=list(acknowledgements),
    )
