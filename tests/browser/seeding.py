"""Rows as a running system leaves them, for looking at the dashboard without one.

`seed(scenario)` fills an empty database: "empty" (nothing), "healthy" (two topologies on eight nodes),
"large" (two topologies of 1,000 partitions each), "moved" (a node is drained), "bounded" (one of the two has
a bounded guarantee, and a node that does not store its keys), and six moments of an incident that the
coordinator's own code recovers in waves (`recovering.py`): "tentative" (the first wave waits for an approval,
while queries give tentative output), "proposed" (the second one waits for it), "broken" (the third one
replays), "catching_up" (all is restored, and some queries are not available yet), "recovered" (it is over),
"aborted" (an operator has ended it). What changes from second to second then is in
`pulse.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from django.db import transaction
from django.utils import timezone

from controlplane.events.services import event_publish
from controlplane.incidents.area import availability_area
from controlplane.incidents.models import Incident, IncidentEntry
from controlplane.nodes.models import Node, NodeSample
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import (
    AvailabilitySample,
    Partition,
    Problem,
    Query,
    TentativePeriod,
    Topology,
)
from controlplane.topologies.racks import rack_exposure_note
from domain.topology import Topology as Graph
from domain.topology import load_yaml
from tests.browser.alarming import alerts_play
from tests.browser.bounded import bounded_write
from tests.browser.chronicle import (
    audit_write,
    checkpoints_write,
    experiment_write,
    savepoint_write,
    versions_write,
)
from tests.browser.figures import figures_write, node_figures_write
from tests.browser.large import large_write
from tests.browser.recovering import deployed, drain_play, recovery_play, samples_write

Scenario = Literal[
    "empty",
    "healthy",
    "broken",
    "proposed",
    "tentative",
    "catching_up",
    "recovered",
    "aborted",
    "large",
    "moved",
    "bounded",
]
PIPELINES = Path(__file__).resolve().parents[2] / "spark_jobs" / "pipelines"
NODES = 8
THROTTLED = 5
"""The number of a node that its quota stops in more than half of the periods."""
UNTIL: dict[Scenario, str] = {
    "broken": "replaying",
    "proposed": "proposed",
    "tentative": "undecided",
    "catching_up": "catching_up",
    "recovered": "closed",
    "aborted": "aborted",
}


def seed(scenario: Scenario) -> None:
    """Fill an empty database. Times are relative to now, so seed just before the pages are opened."""
    if scenario == "empty":
        return
    now = timezone.now()
    with transaction.atomic():
        if scenario == "large":
            large_write(now)
        else:
            _installation(scenario, now)
        rack_exposure_note()
        event_publish(kind="topology.updated", changes=[], topology="hashtags")


def _installation(scenario: Scenario, now: datetime) -> None:
    nodes = _nodes(now)
    main = _topology("hashtags", nodes, now, priorities=True)
    _weigh(main)
    # Only one topology is recovered or moved. The other one has no partition in the other rack, and no
    # plan, so the coordinator does not look at it.
    one = scenario in UNTIL or scenario == "moved"
    racks = ("rack-a",) if one else ("rack-a", "rack-b")
    side = _topology("trending", nodes, now, racks=racks)
    _topology("mentions", {}, now, status="completed")
    for topology in (main, side):
        if scenario == "bounded" and topology is side:
            bounded_write(side, now)
        else:
            checkpoints_write(topology, now)
            savepoint_write(topology, now)
        if topology is main or not one:
            deployed(topology, now - timedelta(minutes=89))
        _samples(topology, now)
        figures_write(topology, now)
    node_figures_write(now)
    versions_write(main, now)
    audit_write(now)
    experiment_write(now)
    _closed_incident(main, nodes, now - timedelta(hours=3))
    if scenario in UNTIL:
        _in_waves(main, now, UNTIL[scenario])
    if scenario == "tentative":
        _go_on(main, now)
    if scenario == "moved":
        drain_play(now, number=2, node="node-2")
    if scenario == "broken":
        _problems(main, now)
    alerts_play(now, broken=scenario == "broken")


def _nodes(now: datetime) -> dict[str, Node]:
    nodes = {}
    for i in range(1, NODES + 1):
        name = f"node-{i}"
        nodes[name] = Node.objects.create(
            name=name,
            address=f"127.0.1.{i}",
            rack="rack-b" if i % 2 == 0 else "rack-a",
            slots=2,
            state="alive",
            registered_at=now - timedelta(seconds=5400),
            last_heartbeat=now - timedelta(seconds=0.4),
            cpu_percent=18 + (i * 37) % 50,
            predicted_percent=20 + (i * 37) % 50,
            throttled=0.62 if i == THROTTLED else 0.0,
            memory_bytes=410_000_000 + i * 13_000_000,
            disk_free_bytes=81_200_000_000 - i * 700_000_000,
        )
        NodeSample.objects.bulk_create(
            NodeSample(
                node=nodes[name],
                at=now - timedelta(seconds=10 * back),
                cpu_percent=18 + (i * 37) % 50 + (i * back) % 7,
                predicted_percent=20 + (i * 37) % 50,
                throttled=0.62 if i == THROTTLED and back < 20 else 0.0,
            )
            for back in range(89, -1, -1)
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
        deployed_spec=spec,
        computation=1,
        status=status,
        desired="running" if status == "running" else "stopped",
        generation=4 if priorities else 1,
        head_epoch=5321,
        committed_epoch=5320,
        checkpoint_epoch=5310,
        input_rate=1000.0 if status == "running" else 0.0,
        load=0.46 if status == "running" else None,
        deployed_at=now - timedelta(minutes=89),
    )
    hosts = [node for node in nodes.values() if node.rack in racks]
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
    """Costs of partitions, so high that four nodes have no room for the partitions of the other four."""
    for i, partition in enumerate(Partition.objects.filter(topology=topology)):
        partition.cpu = round(0.1 + 0.03 * ((i * 7) % 9), 3)
        partition.save(update_fields=["cpu"])


def _samples(topology: Topology, now: datetime) -> None:
    total = Query.objects.filter(topology=topology).count()
    AvailabilitySample.objects.bulk_create(
        AvailabilitySample(
            topology=topology, at=now - timedelta(seconds=age), available=total, total=total, weighted=1.0
        )
        for age in range(900, 0, -1)
    )


def _tentative(topology: Topology, at: datetime) -> None:
    """What two queries gave without a source while the incident was open."""
    for query, fidelity, counts in (("O1[0]", 0.744, (1204, 63, 440, 2)), ("O5[0]", 0.512, (388, 41, 97, 0))):
        stayed, changed, appeared, vanished = counts
        TentativePeriod.objects.create(
            topology=topology,
            query=query,
            generation=1,
            began_at=at + timedelta(seconds=2),
            ended_at=at + timedelta(seconds=22),
            first_epoch=1822,
            last_epoch=1841,
            fidelity=fidelity,
            corrected_at=at + timedelta(seconds=31),
            stayed=stayed,
            changed=changed,
            appeared=appeared,
            vanished=vanished,
        )


def _go_on(topology: Topology, now: datetime) -> None:
    """Queries that run, and lack a part of their input, give tentative output."""
    topology.tentative_output = "on"
    topology.save()
    found = Query.objects.filter(topology=topology, available=False, partition__node__state="alive")
    waiting = list(found.select_related("partition").order_by("pk"))
    if not waiting:
        raise RuntimeError("no query lacks a part of its input alone: the seeds do not fit")
    since = now - timedelta(seconds=14)
    AvailabilitySample.objects.filter(topology=topology, at__gte=since).update(tentative=len(waiting))
    for number, query in enumerate(waiting):
        query.fidelity = round(0.75 - 0.031 * number, 3)
        query.save(update_fields=["fidelity"])
        TentativePeriod.objects.create(
            topology=topology,
            query=query.partition.label,
            generation=topology.generation,
            began_at=since,
            first_epoch=topology.head_epoch - 14,
            last_epoch=topology.head_epoch,
            fidelity=query.fidelity,
        )


def _closed_incident(topology: Topology, nodes: dict[str, Node], at: datetime) -> None:
    _tentative(topology, at)
    incident = Incident.objects.create(
        number=1,
        state="closed",
        detected_at=at - timedelta(seconds=1.2),
        opened_at=at,
        first_query_at=at + timedelta(seconds=21),
        half_queries_at=at + timedelta(seconds=21),
        all_queries_at=at + timedelta(seconds=24),
        closed_at=at + timedelta(seconds=33),
        checkpoints={topology.name: 1820},
        summary={
            "failed_queries": {topology.name: ["O4[0]", "O9[0]"]},
            "returned": {
                f"{topology.name}/O4[0]": (at + timedelta(seconds=21)).isoformat(),
                f"{topology.name}/O9[0]": (at + timedelta(seconds=24)).isoformat(),
            },
        },
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


def _in_waves(topology: Topology, now: datetime, until: str) -> None:
    # So long ago that the samples of the snapshot begin after its end.
    end = now - timedelta(minutes=50) if until == "closed" else now
    rack = [f"node-{i}" for i in range(2, NODES + 1, 2)]
    recovery_play(end, number=2, lost=rack, rack="rack-b", until=until)
    incident = Incident.objects.get(number=2)
    samples_write(topology, incident, end)
    if until in ("undecided", "proposed", "aborted"):
        Topology.objects.filter(pk=topology.pk).update(status="degraded")
    if until == "aborted":
        Query.objects.filter(topology=topology, status="recovering").update(status="failed")
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
        hint="Rejected rows are kept in topologies/hashtags/input.rejected.jsonl.",
        count=12,
    )
