"""Rows as a running system leaves them, for looking at the dashboard without one.

`seed(scenario)` fills an empty database: "empty" (nothing), "healthy" (two topologies on eight nodes),
"broken" (three nodes of a rack lost, recovery in the middle of its replay), and three incidents recovered in
waves by the coordinator's own code (`recovering.py`): "waves" (the third one replays), "proposed" (the second
one waits for an approval), "recovered" (it is over). `Pulse` then publishes a metrics event for each
topology, as ingestion does once a second.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from django.db import transaction
from django.utils import timezone

from controlplane.checkpoints.models import Checkpoint
from controlplane.domain.topology import Topology as Graph
from controlplane.domain.topology.load import load_yaml
from controlplane.events.representation import (
    Change,
    node_change,
    partition_change,
    query_change,
    sample_change,
    topology_change,
)
from controlplane.events.services import event_publish
from controlplane.incidents.area import availability_area
from controlplane.incidents.models import Incident, IncidentEntry, RecoveryPlan
from controlplane.nodes.models import Node
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import AvailabilitySample, Partition, Problem, Query, Topology
from tests.browser.recovering import deployed, recovery_play, samples_write

Scenario = Literal["empty", "healthy", "broken", "waves", "proposed", "recovered"]
PIPELINES = Path(__file__).resolve().parents[2] / "spark_jobs" / "pipelines"
NODES = 8
LOST = ("node-2", "node-4", "node-6")
UNTIL: dict[Scenario, str] = {"waves": "replaying", "proposed": "proposed", "recovered": "closed"}
REPLACEMENTS = ("node-9", "node-10", "node-11")


def seed(scenario: Scenario) -> None:
    """Fill an empty database. Times are relative to now, so seed just before looking."""
    if scenario == "empty":
        return
    now = timezone.now()
    with transaction.atomic():
        nodes = _nodes(now, broken=scenario == "broken")
        main = _topology("hashtags", nodes, now, priorities=True)
        _weigh(main)
        # What is recovered in waves is one topology: the other one stays out of the rack that is lost, and
        # without a plan out of the coordinator's sight.
        racks = ("rack-a",) if scenario in UNTIL else ("rack-a", "rack-b")
        side = _topology("trending", nodes, now, racks=racks)
        _topology("mentions", {}, now, status="completed")
        for topology in (main, side):
            _checkpoints(topology, now)
            if topology is main or scenario not in UNTIL:
                deployed(topology, now - timedelta(minutes=89))
        _samples(main, now, broken=scenario == "broken")
        _samples(side, now, broken=False)
        _closed_incident(main, nodes, now - timedelta(hours=3))
        if scenario == "broken":
            _open_incident(main, nodes, now - timedelta(seconds=42))
            _problems(main, now)
        if scenario in UNTIL:
            _in_waves(main, now, UNTIL[scenario])
        event_publish(kind="topology.updated", changes=[], topology="hashtags")


def _nodes(now: datetime, *, broken: bool) -> dict[str, Node]:
    nodes = {}
    names = [f"node-{i}" for i in range(1, NODES + 1)] + (list(REPLACEMENTS) if broken else [])
    for i, name in enumerate(names, start=1):
        lost = broken and name in LOST
        fresh = name in REPLACEMENTS
        state = "lost" if lost else "joining" if name == "node-11" else "alive"
        nodes[name] = Node.objects.create(
            name=name,
            address=f"127.0.1.{i}",
            rack="rack-b" if fresh or i % 2 == 0 else "rack-a",
            slots=2,
            state=state,
            registered_at=now - timedelta(seconds=20 if fresh else 5400),
            last_heartbeat=now - timedelta(seconds=45 if lost else 0.4),
            cpu_percent=None if state == "joining" else 18 + (i * 37) % 50,
            memory_bytes=None if state == "joining" else 410_000_000 + i * 13_000_000,
            disk_free_bytes=81_200_000_000 - i * 700_000_000,
        )
    return nodes


def _graph(pipeline: str) -> tuple[dict[str, Any], Graph]:
    graph = graph_of(load_yaml((PIPELINES / f"{pipeline}.yaml").read_text()))
    return graph.to_data(), graph


def _topology(
    pipeline: str,
    nodes: dict[str, Node],
    now: datetime,
    *,
    status: str = "running",
    priorities: bool = False,
    racks: Collection[str] = ("rack-a", "rack-b"),
) -> Topology:
    spec, graph = _graph(pipeline)
    topology = Topology.objects.create(
        name=graph.name,
        spec=spec,
        status=status,
        desired="running" if status == "running" else "stopped",
        generation=4 if priorities else 1,
        head_epoch=5321,
        committed_epoch=5320,
        checkpoint_epoch=5310,
        input_rate=1000.0 if status == "running" else 0.0,
        deployed_at=now - timedelta(minutes=89),
    )
    hosts = [node for node in nodes.values() if node.name not in REPLACEMENTS and node.rack in racks]
    rows = {}
    for i, label in enumerate(graph.partitions):
        operator, _, index = label.rstrip("]").partition("[")
        level = graph.levels[operator]
        rows[label] = Partition.objects.create(
            topology=topology,
            operator=operator,
            index=int(index),
            node=hosts[i % len(hosts)] if hosts else None,
            state="running",
            epoch=5320,
            cpu=round(0.004 + 0.001 * (i % 5), 3),
            rows_in_rate=0 if level == 0 else 250 if level == 1 else 1310,
            rows_out_rate=(250, 327, 212, 164, 80)[min(level, 4)],
            state_bytes=0 if level < 2 else 184_000 + i * 41_000,
        )
    for i, label in enumerate(graph.queries):
        latency = 0.62 + 0.017 * ((i * 5) % 13)
        Query.objects.create(
            topology=topology,
            partition=rows[label],
            priority=1 + (i * 7) % 10 if priorities else 1,
            status="available",
            available=True,
            latency=latency * 1.03,
            baseline_latency=latency,
            relative_latency=1.03,
            epoch=5320,
        )
    return topology


def _weigh(topology: Topology) -> None:
    """Partitions so heavy that a rack of four nodes is more than the other four have room for."""
    for i, partition in enumerate(Partition.objects.filter(topology=topology)):
        partition.cpu = round(0.1 + 0.03 * ((i * 7) % 9), 3)
        partition.save(update_fields=["cpu"])


def _checkpoints(topology: Topology, now: datetime) -> None:
    for k in range(24):
        started = now - timedelta(seconds=10 * k + 4)
        failed = k == 9
        Checkpoint.objects.create(
            topology=topology,
            epoch=5310 - 10 * k,
            generation=4,
            state="failed" if failed else "completed",
            acknowledged=20 if failed else 23,
            total=23,
            size_bytes=2_310_000 - 9_000 * k,
            started_at=started,
            ended_at=started + timedelta(seconds=0.8 + 0.11 * (k % 5)),
            cause="node-3: no space left on device while uploading O3-0/table-5220.arrow" if failed else "",
            requested_by="admin" if k == 4 else "",
        )


def _samples(topology: Topology, now: datetime, *, broken: bool) -> None:
    total = Query.objects.filter(topology=topology).count()
    samples = []
    for second in range(900):
        age = 900 - second
        available = total
        if broken and age < 44:
            available = 4 if age > 24 else 6 if age > 14 else 9
        samples.append(
            AvailabilitySample(
                topology=topology,
                at=now - timedelta(seconds=age),
                available=available,
                total=total,
                weighted=1.0 if available == total else min(1.0, 1.22 * available / total),
            )
        )
    AvailabilitySample.objects.bulk_create(samples)


def _closed_incident(topology: Topology, nodes: dict[str, Node], at: datetime) -> None:
    incident = Incident.objects.create(
        number=1,
        state="closed",
        detected_at=at - timedelta(seconds=1.2),
        opened_at=at,
        first_query_at=at + timedelta(seconds=21),
        half_queries_at=at + timedelta(seconds=22),
        all_queries_at=at + timedelta(seconds=24),
        closed_at=at + timedelta(seconds=33),
        checkpoints={topology.name: 1820},
    )
    incident.failed_nodes.add(nodes["node-5"])
    incident.topologies.add(topology)
    _story(
        incident,
        at,
        [
            (0, "stimulus", "node-5 stopped sending heartbeats", {"silent_for_seconds": 4.3}),
            (0, "evidence", "Its registration is gone under a live session", {"session": "0x100a3f"}),
            (33, "outcome", "Checkpoint 1840 is complete: recovery verified", {"checkpoint": 1840}),
        ],
    )


def _open_incident(topology: Topology, nodes: dict[str, Node], at: datetime) -> None:
    incident = Incident.objects.create(
        number=2,
        state="replaying",
        detected_at=at - timedelta(seconds=1.4),
        opened_at=at,
        first_query_at=at + timedelta(seconds=19),
        checkpoints={topology.name: 5280},
    )
    incident.failed_nodes.add(*(nodes[name] for name in LOST))
    incident.topologies.add(topology)
    graph = _graph(topology.name)[1]
    # Sources and parsers are back already; the rest of what the nodes hosted is not.
    failed = [
        partition
        for partition in Partition.objects.filter(topology=topology)
        if partition.node and partition.node.name in LOST and graph.levels[partition.operator] > 1
    ]
    labels = [partition.label for partition in failed]
    _story(
        incident,
        at,
        [
            (0, "stimulus", "node-2, node-4 and node-6 fell silent", {"silent_for_seconds": 4.2}),
            (0, "evidence", "Their registrations are gone under a live session", {"session": "0x100a40"}),
            (1, "evidence", f"The driver reports {len(labels)} partitions absent", {"partitions": labels}),
            (
                1,
                "decision",
                "Three nodes of rack-b within 10 s: one incident, blocking recovery from checkpoint 5280",
                {"correlation_window_seconds": 10, "threshold": 2, "checkpoint": 5280},
            ),
            (2, "step", "Asked the provider for three nodes in rack-b", {"nodes": list(REPLACEMENTS)}),
            (17, "step", "node-9 and node-10 joined; node-11 is still starting", {}),
            (18, "decision", "node-1 has room: the plan does not wait for node-11", {"used": "61 %"}),
            (19, "step", f"Generation 5 restores {len(labels)} partitions", {"generation": 5}),
            (28, "step", "Every restored partition loaded its state; 41 epochs to replay", {"epochs": 41}),
        ],
    )
    homes = {label: ("node-9", "node-10", "node-1")[i % 3] for i, label in enumerate(labels)}
    assignment = {p.label: p.node.name for p in Partition.objects.filter(topology=topology) if p.node} | homes
    RecoveryPlan.objects.create(
        topology=topology,
        incident=incident,
        wave=1,
        generation=5,
        kind="recover",
        rollback=True,
        checkpoint=5280,
        state="applied",
        assignment=assignment,
        restore=labels,
        reason="All failed partitions at once: the blocking method.",
        created_at=at + timedelta(seconds=19),
        published_at=at + timedelta(seconds=19),
        applied_at=at + timedelta(seconds=27),
    )
    topology.status, topology.generation = "recovering", 5
    topology.head_epoch, topology.committed_epoch, topology.checkpoint_epoch = 5321, 5287, 5280
    topology.save()
    for partition in Partition.objects.filter(topology=topology, node__name__in=LOST):
        partition.node = nodes["node-9"]
        partition.save()
    for i, partition in enumerate(failed):
        partition.node = nodes[homes[partition.label]]
        partition.state = ("failed", "replaying", "restoring")[i % 3]
        partition.epoch = 5280 + (i * 3) % 9
        partition.rows_in_rate = partition.rows_out_rate = 0 if partition.state != "replaying" else 410
        partition.save()
    down = graph.failed_queries(p.label for p in failed if p.state != "replaying")
    for query in Query.objects.filter(topology=topology).select_related("partition"):
        if query.partition.label not in down:
            continue
        stuck = query.pk % 3 == 0
        query.status = "failed" if stuck else "recovering"
        query.available = False
        query.latency = 41.0 if stuck else 2.1 + query.pk % 4
        query.relative_latency = query.latency / (query.baseline_latency or 1)
        query.epoch = 5286
        query.save()


def _in_waves(topology: Topology, now: datetime, until: str) -> None:
    # Long enough ago for the snapshot's samples to reach no further back than the end of it.
    end = now - timedelta(minutes=50) if until == "closed" else now
    rack = [f"node-{i}" for i in range(2, NODES + 1, 2)]
    recovery_play(end, number=2, lost=rack, rack="rack-b", until=until)
    incident = Incident.objects.get(number=2)
    samples_write(topology, incident, end)
    if until == "closed":
        incident.availability_area = availability_area(incident, [topology.name])
        incident.save()
        Topology.objects.filter(pk=topology.pk).update(status="running")


def _story(incident: Incident, at: datetime, lines: list[tuple[float, str, str, dict[str, Any]]]) -> None:
    for after, kind, text, data in lines:
        IncidentEntry.objects.create(
            incident=incident, at=at + timedelta(seconds=after), kind=kind, text=text, data=data
        )


def _problems(topology: Topology, now: datetime) -> None:
    Problem.objects.create(
        topology=topology,
        at=now - timedelta(seconds=9),
        severity="error",
        where="node-3: checkpoints/hashtags/files/O3-0/table-5220.arrow",
        what="Checkpoint 5220 could not be uploaded: no space left on device.",
        hint="Free space on the checkpoint storage, or point RESURGE_CHECKPOINTS elsewhere; "
        "the next checkpoint tries again.",
        count=3,
    )
    Problem.objects.create(
        topology=topology,
        at=now - timedelta(minutes=14),
        severity="warning",
        where="Source[2]: tweets.parquet, row 81,204",
        what="The text is not valid UTF-8; the row was left out.",
        hint="Rejected rows are kept in topologies/hashtags/rejected.jsonl.",
        count=12,
    )


class Pulse:
    """Metrics of every running topology, moving a little, as ingestion publishes them each second."""

    def __init__(self) -> None:
        self._random = random.Random(7)
        self._turn = 0

    def beat(self, *, at: datetime | None = None) -> None:
        """Publish one second's worth of events; `at` dates the samples."""
        self._turn += 1
        with transaction.atomic():
            for topology in Topology.objects.filter(status__in=("running", "degraded", "recovering")):
                self._topology(topology, at or timezone.now())
            changes = []
            for node in Node.objects.filter(state="alive"):
                node.last_heartbeat = timezone.now()
                node.cpu_percent = max(3.0, min(96.0, (node.cpu_percent or 30) + self._random.uniform(-4, 4)))
                node.save(update_fields=["last_heartbeat", "cpu_percent"])
                changes.append(node_change(node, only=("last_heartbeat", "cpu_percent")))
            if changes:
                event_publish(kind="node.metrics", changes=changes)

    def _topology(self, topology: Topology, at: datetime) -> None:
        topology.head_epoch += 1
        topology.committed_epoch += 1
        topology.input_rate = 1000 + self._random.uniform(-18, 18)
        topology.save()
        changes: list[Change] = [topology_change(topology)]
        queries = list(Query.objects.filter(topology=topology).select_related("partition"))
        for query in queries:
            query.epoch += 1
            if query.baseline_latency and query.available:
                wave = 1 + 0.06 * math.sin(self._turn / 9 + query.pk) + self._random.uniform(-0.05, 0.05)
                query.latency = query.baseline_latency * wave
                query.relative_latency = wave
            elif query.latency and query.status == "failed":
                query.latency += 1
                query.relative_latency = query.latency / (query.baseline_latency or 1)
            query.save()
            changes.append(query_change(query, topology=topology.name, partition=query.partition.label))
        for partition in Partition.objects.filter(topology=topology).select_related("node"):
            if partition.state == "running":
                partition.epoch = topology.committed_epoch
                partition.save(update_fields=["epoch"])
            node = partition.node.name if partition.node else None
            changes.append(partition_change(partition, topology=topology.name, node=node))
        available = sum(query.available for query in queries)
        weight = sum(query.priority for query in queries) or 1
        sample = AvailabilitySample.objects.create(
            topology=topology,
            at=at,
            available=available,
            total=len(queries),
            weighted=sum(query.priority for query in queries if query.available) / weight,
        )
        changes.append(sample_change(sample, topology=topology.name))
        event_publish(kind="topology.metrics", topology=topology.name, changes=changes)
