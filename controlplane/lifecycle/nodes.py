"""Recording nodes as they come, go and are acted upon (write side).

What detection decides and the incident that follows from it are one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter

import structlog
from django.conf import settings
from django.utils import timezone

from controlplane.errors import Conflict
from controlplane.events.audit import audit_record
from controlplane.events.choices import Channel, EventKind
from controlplane.events.pace import round_begins
from controlplane.events.services import Happening, event_publish, events_publish, writing
from controlplane.events.tasks import INCIDENT_STEP, task_send_on_commit
from controlplane.incidents.choices import IncidentTrigger
from controlplane.incidents.loading import nodes_hosting
from controlplane.incidents.models import Incident
from controlplane.incidents.selectors import incidents_open
from controlplane.incidents.services import drain_record, incident_advance, incident_open_or_grow
from controlplane.nodes.choices import (
    NODE_GONE,
    NODE_PRESENT,
    NODE_REQUEST_OPEN,
    NodeRequestState,
    NodeState,
)
from controlplane.nodes.models import Node, NodeRequest
from controlplane.nodes.representation import STANDING, node_change
from controlplane.nodes.selectors import node_get
from controlplane.nodes.states import node_move, nodes_move, request_move
from controlplane.topologies.bulk import rows_update
from controlplane.topologies.choices import TOPOLOGY_LIVE
from controlplane.topologies.models import Partition
from domain.messages import NodeRegistration, NodeStats
from domain.recovery.events import Event, NodeArrived, NodeReturned, NodesLost
from domain.recovery.liveness import NodeAlive

log = structlog.get_logger(__name__)

HEARTBEAT_FIELDS = ("last_heartbeat", "cpu_percent", "throttled", "memory_bytes", "disk_free_bytes")
PULSE_FIELDS = HEARTBEAT_FIELDS[:2]
"""Told each time, also of more nodes than are told in one round."""


def _runs_something(node: Node) -> bool:
    return Partition.objects.filter(node=node, topology__status__in=TOPOLOGY_LIVE).exists()


def node_register(
    *, registration: NodeRegistration, at: datetime, returned: bool = False, evidence: str = ""
) -> Node:
    """A node registered: it is alive. `returned`: its processes never stopped since it was last known."""
    (node,) = nodes_register(alive=[NodeAlive(registration, returned, evidence)], at=at)
    return node


@writing
def nodes_register(*, alive: Iterable[NodeAlive], at: datetime) -> list[Node]:
    """Nodes registered. Each open incident takes all of them in together: it is read anew each time."""
    registered = [_register(one.registration, at, one.returned, one.evidence) for one in alive]
    if events := [event for _, event in registered if event is not None]:
        for incident in incidents_open():
            incident_advance(number=incident.number, events=events, may_plan=False)
            task_send_on_commit(INCIDENT_STEP, incident.number)
    return [node for node, _ in registered]


def _register(
    registration: NodeRegistration, at: datetime, returned: bool, evidence: str
) -> tuple[Node, Event | None]:
    """The node, and what incidents are told of it, if that is news for them."""
    node, created = Node.objects.select_for_update().get_or_create(
        name=registration.id, defaults={"provider": settings.RESURGE.provider}
    )
    before = node.state
    node.address = registration.address
    node.rack = registration.rack
    node.slots = registration.slots
    node.capacity = registration.capacity
    # One that took over stays what it is, whatever it was started as.
    node.standby = registration.standby and not (node.pk and _runs_something(node))
    node.session = registration.session
    node.pid = registration.pid
    node.registered_at = datetime.fromtimestamp(registration.registered_at, tz=UTC)
    node.last_heartbeat = at
    node.forgotten_at = None
    node.save()
    if not (before == NodeState.DRAINING and returned):
        node_move(node, NodeState.ALIVE)
    for request in NodeRequest.objects.filter(node_name=node.name, state__in=NODE_REQUEST_OPEN):
        request_move(request, NodeRequestState.JOINED, at=at)
    event_publish(kind=EventKind.NODE_JOINED, node=node.name, changes=[node_change(node)], reason=evidence)
    if created or before != NodeState.ALIVE:
        log.info("node joined", node=node.name, session=node.session, returned=returned)
    if not returned:
        return node, NodeArrived(at=at.timestamp(), node=node.name)
    if before in NODE_GONE:
        return node, NodeReturned(at=at.timestamp(), node=node.name, evidence=evidence)
    return node, None


@writing
def nodes_heartbeat(*, stats: Iterable[NodeStats], at: datetime) -> None:
    """Store the newest statistics of nodes; one event for all of them, to be called about once a second."""
    newest = {one.id: one for one in stats}
    present = list(Node.objects.filter(name__in=newest, state__in=NODE_PRESENT))
    last = max((node.last_heartbeat for node in present if node.last_heartbeat), default=None)
    for node in present:
        one = newest[node.name]
        node.last_heartbeat = min(at, datetime.fromtimestamp(one.at, tz=UTC))
        node.cpu_percent = one.cpu_percent
        node.throttled = one.throttled
        node.memory_bytes = one.memory_bytes
        node.disk_free_bytes = one.disk_free_bytes
    if not present:
        return
    rows = ((node.pk, *(getattr(node, field) for field in HEARTBEAT_FIELDS)) for node in present)
    rows_update(Node, HEARTBEAT_FIELDS, rows)
    told = HEARTBEAT_FIELDS if round_begins(rows=len(present), last=last, now=at) else PULSE_FIELDS
    event_publish(kind=EventKind.NODE_METRICS, changes=[node_change(node, only=told) for node in present])


@writing
def nodes_suspect(*, evidence: Mapping[str, str]) -> None:
    """Record nodes as suspect (name -> evidence); their partitions still count as running."""
    suspect = nodes_move(Node.objects.filter(name__in=evidence), NodeState.SUSPECT)
    _tell(suspect, EventKind.NODE_SUSPECT, evidence)


@writing
def node_trust(*, name: str, evidence: str) -> None:
    """The doubt was wrong."""
    node = Node.objects.select_for_update().filter(name=name, state=NodeState.SUSPECT).first()
    if node is not None:
        _move_and_tell(node, NodeState.ALIVE, EventKind.NODE_UPDATED, reason=evidence)


def _move_and_tell(node: Node, to: NodeState, kind: EventKind, *, reason: str, actor: str = "") -> None:
    """Move a node, if its state allows it, and publish the event of it."""
    _tell(nodes_move([node], to), kind, {node.name: reason}, actor=actor)


def _tell(nodes: Iterable[Node], kind: EventKind, reasons: Mapping[str, str], *, actor: str = "") -> None:
    """Publish an event of each of these nodes, which have moved."""
    events_publish(
        [
            Happening(
                kind=kind,
                node=node.name,
                changes=[node_change(node, only=STANDING)],
                actor=actor,
                reason=reasons[node.name],
            )
            for node in sorted(nodes, key=attrgetter("name"))
        ]
    )


@writing
def nodes_lost(*, evidence: Mapping[str, str], at: datetime, left: bool = False) -> Incident | None:
    """Give nodes up (name -> evidence) and open or grow an incident, in one transaction.

    A drained node on which nothing runs has `left` instead. None if there is nothing new. left: they are
    nodes that left as the installation stopped, and do not come back with what ran there.
    """
    hosting = nodes_hosting()
    known = Node.objects.select_for_update().filter(name__in=evidence)
    if left:
        known = known.filter(name__in=hosting, state=NodeState.LEFT)
    else:
        known = known.exclude(state__in=NODE_GONE)
    in_order: list[Node] = []
    given_up: list[Node] = []
    for node in known.order_by("name"):
        gone_in_order = node.state == NodeState.DRAINING and node.name not in hosting
        (in_order if gone_in_order else given_up).append(node)
    _tell(nodes_move(in_order, NodeState.LEFT), EventKind.NODE_LEFT, evidence)
    moved = nodes_move(given_up, NodeState.LOST)
    _tell(moved, EventKind.NODE_LOST, evidence)
    lost = {node.name: evidence[node.name] for node in sorted(moved, key=attrgetter("name"))}
    if not lost:
        return None
    return incident_open_or_grow(events=[NodesLost(at=at.timestamp(), nodes=lost)], at=at)


@writing
def nodes_leave(*, reason: str) -> None:
    """Record that every present node leaves in good order, so that its absence is no failure."""
    left = nodes_move(Node.objects.filter(state__in=NODE_PRESENT), NodeState.LEFT)
    _tell(left, EventKind.NODE_LEFT, {node.name: reason for node in left})


# ---- asked for by an operator --------------------------------------------------------------------


@writing
def node_drain(
    *,
    name: str,
    actor: str,
    reason: str,
    channel: Channel = Channel.SYSTEM,
    trigger: IncidentTrigger = IncidentTrigger.MANUAL,
) -> Incident | None:
    """Plan nothing more on a node and move away what runs there. Raises `Missing` or `Conflict`.

    Returns the incident that moves its partitions, or None where there are none.
    """
    node = node_get(name, lock=True)
    if node.state == NodeState.DRAINING:
        return None
    if node.state not in (NodeState.ALIVE, NodeState.SUSPECT):
        raise Conflict(f"node {name} is {node.state}: only an alive node can be drained")
    audit_record(
        actor=actor, channel=channel, action="node.drained", target=name,
        before={"state": node.state}, after={"state": NodeState.DRAINING}, reason=reason,
    )  # fmt: skip
    return drain_begin([node], actor=actor, reason=reason, trigger=trigger)


def drain_begin(
    nodes: Sequence[Node],
    *,
    actor: str,
    reason: str,
    trigger: IncidentTrigger = IncidentTrigger.MANUAL,
) -> Incident | None:
    """Have nodes drain together, as part of a transaction: no plan puts what is on one of them on another.

    Returns the incident that moves their partitions, or None where there are none.
    """
    for node in nodes:
        _move_and_tell(node, NodeState.DRAINING, EventKind.NODE_UPDATED, reason=reason, actor=actor)
    hosting = nodes_hosting()
    moving = [node.name for node in nodes if node.name in hosting]
    return drain_record(nodes=moving, actor=actor, reason=reason, trigger=trigger) if moving else None


@writing
def node_activate(*, name: str, actor: str, reason: str, channel: Channel = Channel.SYSTEM) -> Node:
    """Let a drained node take partitions again. Raises `Missing` or `Conflict`."""
    node = node_get(name, lock=True)
    if node.state == NodeState.ALIVE:
        return node
    if node.state != NodeState.DRAINING:
        raise Conflict(f"node {name} is {node.state}: only a draining node can be activated")
    audit_record(
        actor=actor, channel=channel, action="node.activated", target=name,
        before={"state": node.state}, after={"state": NodeState.ALIVE}, reason=reason,
    )  # fmt: skip
    drain_end([node], actor=actor, reason=reason)
    return node


def drain_end(nodes: Sequence[Node], *, actor: str, reason: str) -> None:
    """Let draining nodes take partitions again, as part of a transaction."""
    for node in nodes:
        _move_and_tell(node, NodeState.ALIVE, EventKind.NODE_UPDATED, reason=reason, actor=actor)
    now = timezone.now().timestamp()
    for incident in incidents_open():
        arrived = [NodeArrived(at=now, node=node.name) for node in nodes]
        incident_advance(number=incident.number, events=arrived, may_plan=False)
        task_send_on_commit(INCIDENT_STEP, incident.number)
