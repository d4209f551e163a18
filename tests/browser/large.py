"""Two topologies of 1,000 partitions each: few wide operators, and many narrow ones."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from controlplane.nodes.models import Node
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import Partition, Query, Topology

NODES, RACKS = 40, 5
WIDE, WOVEN = 100, 4


def wide_spec() -> dict[str, Any]:
    """Ten operators of 100 partitions: a source, a parser, four windows, four that compare them."""
    operators: list[dict[str, Any]] = [_operator("Source", "source", WIDE, [])]
    operators.append(_operator("Parser", "filter", WIDE, ["Source"], one_to_one=True))
    operators += [_operator(f"Window{i}", "filter", WIDE, ["Parser"]) for i in range(4)]
    operators += [
        _operator(f"Change{i}", "union", WIDE, [f"Window{i}", f"Window{(i + 1) % 4}"], output=True)
        for i in range(4)
    ]
    return {"name": "wide", "description": "Ten operators of a hundred partitions", "operators": operators}


def woven_spec() -> dict[str, Any]:
    """250 operators of 4 partitions: 10 sources, then 8 levels of 30, each fed by two of the level before."""
    operators = [_operator(f"S{i}", "source", WOVEN, []) for i in range(10)]
    before = [operator["name"] for operator in operators]
    for level in range(8):
        names = [f"L{level}x{i}" for i in range(30)]
        for i, name in enumerate(names):
            feeding = [before[i % len(before)], before[(i * 7 + level + 1) % len(before)]]
            operators.append(
                _operator(
                    name, "union", WOVEN, list(dict.fromkeys(feeding)), one_to_one=True, output=level == 7
                )
            )
        before = names
    return {"name": "woven", "description": "250 operators of four partitions", "operators": operators}


def _operator(
    name: str,
    kind: str,
    parallelism: int,
    inputs: list[str],
    *,
    one_to_one: bool = False,
    output: bool = False,
) -> dict[str, Any]:
    partitioning = "one_to_one" if one_to_one else "full"
    return {
        "name": name,
        "kind": kind,
        "parallelism": parallelism,
        "inputs": [{"from": source, "partitioning": partitioning} for source in inputs],
        "output": output,
    }


def large_write(now: datetime) -> None:
    nodes = Node.objects.bulk_create(
        Node(
            name=f"node-{i}",
            address=f"10.0.{i % RACKS}.{i}",
            rack=f"rack-{i % RACKS}",
            slots=32,
            capacity=1600.0,
            state="alive",
            registered_at=now,
            last_heartbeat=now,
            cpu_percent=300.0,
            memory_bytes=8_000_000_000,
            disk_free_bytes=400_000_000_000,
        )
        for i in range(1, NODES + 1)
    )
    for spec in (wide_spec(), woven_spec()):
        _topology(spec, nodes, now)


def _topology(spec: dict[str, Any], nodes: list[Node], now: datetime) -> None:
    graph = graph_of(spec)
    topology = Topology.objects.create(
        name=graph.name,
        spec=graph.to_data(),
        status="running",
        desired="running",
        generation=1,
        head_epoch=800,
        committed_epoch=799,
        checkpoint_epoch=790,
        input_rate=100_000.0,
        deployed_at=now - timedelta(minutes=20),
    )
    partitions = Partition.objects.bulk_create(
        Partition(
            topology=topology,
            operator=label.partition("[")[0],
            index=int(label.rstrip("]").partition("[")[2]),
            node=nodes[i % len(nodes)],
            state="running",
            epoch=799,
            cpu=0.05 + 0.01 * (i % 7),
            rows_in_rate=1_000.0,
            rows_out_rate=900.0,
            state_bytes=200_000 + 1_000 * (i % 90),
        )
        for i, label in enumerate(graph.partitions)
    )
    rows = {row.label: row for row in partitions}
    Query.objects.bulk_create(
        Query(
            topology=topology,
            partition=rows[label],
            priority=1 + i % 10,
            status="available",
            available=True,
            latency=0.8,
            baseline_latency=0.78,
            relative_latency=1.02,
            epoch=799,
        )
        for i, label in enumerate(graph.queries)
    )
