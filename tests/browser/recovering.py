"""An incident recovered in waves, by the coordinator's own code: pages show its real results.

A rack of the seeded `hashtags` is lost; replacements come one after the other. Detection, registrations, the
driver's reports and operators' orders are given to the same services that the workers call; the coordinator's
planner makes the plans. Only the time is set: each step happens at its own second.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch

from django.utils import timezone

from controlplane.events.choices import Channel, OperationKind
from controlplane.incidents.actions import incident_order
from controlplane.incidents.models import Incident, RecoveryPlan
from controlplane.incidents.selectors import incident_get
from controlplane.incidents.services import incident_advance, incident_queries_note
from controlplane.lifecycle.nodes import node_drain, node_register, nodes_lost
from controlplane.lifecycle.recovery_terms import topology_policy_set
from controlplane.nodes.models import Node
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import AvailabilitySample, Partition, Query, Topology
from domain.messages import NodeRegistration
from domain.recovery.events import (
    AbortAsked,
    CheckpointCompleted,
    DriverReported,
    Event,
    Looked,
    PlanPublished,
)

NAME = "hashtags"
CHECKPOINT = 5310
OPERATOR: dict[str, Any] = {"actor": "kim", "channel": Channel.PAGE}


@contextmanager
def clock(at: datetime) -> Iterator[None]:
    with patch.object(timezone, "now", lambda: at):
        yield


class Recovery:
    """The incident from `start` on; `at` is its present second."""

    def __init__(self, start: datetime, number: int) -> None:
        self.start, self.number = start, number
        self.topology = Topology.objects.get(name=NAME)
        self.graph = graph_of(self.topology.spec)
        self.absent: set[str] = set()

    def moment(self, second: float) -> datetime:
        return self.start + timedelta(seconds=second)

    @property
    def plan(self) -> RecoveryPlan:
        return RecoveryPlan.objects.filter(topology=self.topology).order_by("-generation")[0]

    def lose(self, second: float, names: Collection[str]) -> None:
        at = self.moment(second)
        self.absent = {partition for partition, node in self.plan.assignment.items() if node in set(names)}
        with clock(at):
            evidence = dict.fromkeys(names, "no heartbeat for 4.3 s; its registration is gone")
            nodes_lost(evidence=evidence, at=at - timedelta(seconds=0.4))
        self.note_down(self.graph.failed_queries(self.absent))

    def join(self, second: float, name: str, rack: str) -> None:
        at = self.moment(second)
        with clock(at):
            node_register(
                registration=NodeRegistration(
                    id=name, address="127.0.1.30", rack=rack, slots=2, capacity=100, pid=10, session="b2",
                    registered_at=at.timestamp(),
                ),
                at=at,
            )  # fmt: skip
        Node.objects.filter(name=name).update(
            cpu_percent=22.0, memory_bytes=420_000_000, disk_free_bytes=81_000_000_000
        )

    def look(
        self,
        second: float,
        state: str,
        *,
        behind: Collection[str] = (),
        checkpoint: int = CHECKPOINT,
        generation: int | None = None,
    ) -> None:
        """Give the coordinator a report of the driver, which runs `generation` (default: the newest plan).
        Partitions without a node in that plan are absent."""
        at = self.moment(second)
        reported = self.plan.generation if generation is None else generation
        events: list[Event] = [
            DriverReported(
                at=at.timestamp(), topology=NAME, generation=reported, state=state, head=5321, committed=5321,
                checkpoint=CHECKPOINT, absent=frozenset(self.absent), behind=frozenset(behind),
            ),
            CheckpointCompleted(
                at=at.timestamp(), topology=NAME, checkpoint=checkpoint, generation=reported
            ),
            Looked(at=at.timestamp()),
        ]  # fmt: skip
        self.advance(second, events)

    def advance(self, second: float, events: list[Event]) -> None:
        with clock(self.moment(second)):
            incident_advance(number=self.number, events=events)

    def carry_out(self, *, published: float, applied: float) -> None:
        """The newest plan goes to ZooKeeper, and the driver adopts it."""
        at, plan = self.moment(published).timestamp(), self.plan
        if plan.state != "planned":
            raise RuntimeError(f"the coordinator has planned nothing at {published} s: the seeds do not fit")
        self.advance(published, [PlanPublished(at=at, topology=NAME, generation=plan.generation)])
        self.absent = set(self.graph.partitions) - set(plan.assignment)
        self.look(applied, "degraded" if self.absent else "replaying", behind=plan.restore)
        Partition.objects.filter(pk__in=self._rows(plan.restore)).update(state="replaying", epoch=CHECKPOINT)

    def caught_up(self, second: float, *, back_at: float | None = None) -> None:
        """All running partitions have caught up. back_at: when the returned queries count as available."""
        Partition.objects.filter(pk__in=self._rows(self.plan.restore)).update(state="running", epoch=5320)
        self.look(second, "degraded" if self.absent else "running")
        if back_at is not None:
            self.note_back(back_at)

    def note_down(self, labels: Collection[str]) -> None:
        for query in self._queries(labels):
            query.status, query.available = "failed", False
            query.latency = 4.0 + query.pk % 7
            query.relative_latency = query.latency / (query.baseline_latency or 1)
            query.save()

    def note_back(self, second: float) -> None:
        down = set(self.graph.failed_queries(self.absent))
        for query in self._queries(set(self.graph.queries) - down):
            if query.available:
                continue
            query.status, query.available = "available", True
            query.latency = (query.baseline_latency or 1) * 1.02
            query.relative_latency = 1.02
            query.save()
        with clock(self.moment(second)):
            incident_queries_note(number=self.number)

    def note_replaying(self, labels: Collection[str]) -> None:
        for query in self._queries(labels):
            query.status = "recovering"
            query.save()

    def _queries(self, labels: Collection[str]) -> list[Query]:
        rows = Query.objects.filter(topology=self.topology).select_related("partition")
        return [row for row in rows if row.partition.label in set(labels)]

    def _rows(self, labels: Collection[str]) -> list[int]:
        rows = Partition.objects.filter(topology=self.topology)
        return [row.pk for row in rows if row.label in set(labels)]


def deployed(topology: Topology, at: datetime) -> None:
    """The plan it runs under."""
    rows = list(Partition.objects.filter(topology=topology).select_related("node"))
    with clock(at):
        RecoveryPlan.objects.create(
            topology=topology,
            generation=topology.generation,
            kind="deploy",
            state="applied",
            assignment={row.label: row.node.name for row in rows if row.node},
            published_at=at,
            applied_at=at,
        )


def recovery_play(now: datetime, *, number: int, lost: Collection[str], rack: str, until: str) -> Recovery:
    """until: "replaying" (the third wave is on its way, some partitions are in no plan), "aborted" (there an
    operator has ended it), "undecided" (the first wave waits for an approval), "proposed" (the second does),
    "catching_up" (all is restored; the queries of the last wave are not available) or "closed"."""
    lengths = {"replaying": 52.0, "aborted": 60.0, "undecided": 21.0, "proposed": 31.0}
    length = lengths.get(until, 95.0)
    play = Recovery(now - timedelta(seconds=length), number)
    if until in ("undecided", "proposed"):
        with clock(play.moment(-600)):
            topology_policy_set(
                name=NAME,
                changes={"approval": "approve"},
                reason="Carnival week: I want to see it",
                **OPERATOR,
            )
    play.lose(0, lost)
    play.look(0.6, "degraded")  # what the other rack has room for
    if until == "undecided":
        return play
    if until == "proposed":
        _approve(play, 5)
    play.carry_out(published=5.4 if until == "proposed" else 0.8, applied=9)
    play.caught_up(15, back_at=18)
    play.join(22, "node-9", rack)
    play.look(22.3, "degraded")
    if until == "proposed":
        return play
    play.carry_out(published=22.5, applied=28)
    play.caught_up(35, back_at=38)
    play.join(41, "node-10", rack)
    play.look(41.3, "degraded")
    play.carry_out(published=41.5, applied=46)
    if until == "replaying":
        down = set(play.graph.failed_queries(play.absent))
        play.note_replaying(set(play.graph.failed_queries(play.plan.restore)) - down)
        return play
    if until == "aborted":
        at = play.moment(50).timestamp()
        reason = "the rack comes back within minutes; the rest can wait"
        play.advance(50, [AbortAsked(at=at, actor="kim", reason=reason)])
        return play
    play.caught_up(54, back_at=57)
    for second, name in ((60.0, "node-11"), (61.0, "node-12")):
        play.join(second, name, rack)
    play.look(61.4, "degraded")
    play.carry_out(published=61.7, applied=67)
    play.caught_up(76, back_at=None if until == "catching_up" else 79)
    if until == "catching_up":
        play.note_replaying(play.graph.failed_queries(play.plan.restore))
        Topology.objects.filter(name=NAME).update(catch_up=41.0, status="recovering")
    play.look(88, "running", checkpoint=CHECKPOINT + 40)
    return play


def drain_play(now: datetime, *, number: int, node: str) -> Recovery:
    """What ran on a node has moved off it; the checkpoint that verifies it is not complete yet."""
    play = Recovery(now - timedelta(seconds=24), number)
    with clock(play.moment(0)):
        node_drain(name=node, actor="kim", reason="its disk will be replaced")
    play.look(0.6, "running")
    plan = play.plan
    play.advance(
        0.8, [PlanPublished(at=play.moment(0.8).timestamp(), topology=NAME, generation=plan.generation)]
    )
    play.look(2.5, "running", behind=plan.restore)
    play.look(3.5, "running")
    return play


def _approve(play: Recovery, second: float) -> None:
    proposals = [one["proposal"] for one in incident_get(play.number).proposals.values()]
    with clock(play.moment(second)):
        incident_order(
            kind=OperationKind.INCIDENT_APPROVE, number=play.number, actor="kim",
            reason="The revenue queries first, yes", proposals=proposals,
        )  # fmt: skip
    play.look(second + 0.2, "degraded", generation=play.plan.generation - 1)


def samples_write(topology: Topology, incident: Incident, until: datetime) -> None:
    """Availability samples of each second around an incident, as ingestion would write them."""
    start = incident.detected_at
    back: dict[str, str] = incident.summary.get("returned", {})
    failed = set(incident.summary.get("failed_queries", {}).get(topology.name, ()))
    queries = list(Query.objects.filter(topology=topology).select_related("partition"))
    weight = sum(query.priority for query in queries) or 1
    first = start - timedelta(seconds=840)
    AvailabilitySample.objects.filter(topology=topology, at__gte=first, at__lte=until).delete()
    rows = []
    at = first
    while at <= until:
        up = [
            query
            for query in queries
            if at < start
            or query.partition.label not in failed
            or _returned(back, f"{topology.name}/{query.partition.label}", at)
        ]
        rows.append(
            AvailabilitySample(
                topology=topology, at=at, available=len(up), total=len(queries),
                weighted=sum(query.priority for query in up) / weight,
            )
        )  # fmt: skip
        at += timedelta(seconds=1)
    AvailabilitySample.objects.bulk_create(rows)


def _returned(back: Mapping[str, str], key: str, at: datetime) -> bool:
    moment = back.get(key)
    return moment is not None and datetime.fromisoformat(moment) <= at
