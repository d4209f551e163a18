"""What becomes of a request for a node, as the launcher learns it from the provider (write side)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F, Q, QuerySet

from controlplane.events.choices import EventKind
from controlplane.events.services import event_publish, writing
from controlplane.nodes.choices import NODE_AWAITED, NodeRequestState, NodeState
from controlplane.nodes.models import Node, NodeRequest
from controlplane.nodes.representation import node_change
from controlplane.nodes.states import node_move, request_move

BACK_OFF_FIRST = timedelta(seconds=5)
BACK_OFF_LAST = timedelta(minutes=5)
AHEAD = timedelta(seconds=30)
"""By which the clock of the host that asks for a node may be ahead."""
FIRST_KEY = "first/"
"""Keys of the nodes that an installation starts with; recovery's begin with `incident-`."""


def requests_due(*, at: datetime) -> QuerySet[NodeRequest]:
    """Requests with which the provider is to be asked now: those it has not seen first."""
    pending = NodeRequest.objects.filter(state=NodeRequestState.PENDING)
    return pending.filter(Q(due_at=None) | Q(due_at__lte=at)).order_by(
        F("due_at").asc(nulls_first=True), "id"
    )


def requests_date_anew(*, at: datetime) -> None:
    """The clock was put back since these were asked for, or started: they are asked for, or started, now."""
    later = NodeRequest.objects.filter(state=NodeRequestState.PENDING, requested_at__gt=at + AHEAD)
    if later.exists():  # an update locks the database also where it changes nothing
        later.update(requested_at=at, due_at=None)
    started = NodeRequest.objects.filter(state=NodeRequestState.STARTED, started_at__gt=at + AHEAD)
    if started.exists():
        started.update(started_at=at)


def requests_unregistered(*, before: datetime) -> QuerySet[NodeRequest]:
    """Requests whose node was started before that moment and has not registered."""
    return NodeRequest.objects.filter(state=NodeRequestState.STARTED, started_at__lt=before).order_by("id")


@writing
def first_nodes_request(
    *,
    names_and_racks: Iterable[tuple[str, str]],
    slots: int,
    capacity: int,
    at: datetime,
    standby: bool = False,
) -> None:
    """Ask for nodes that a starting installation needs."""
    for name, rack in names_and_racks:
        NodeRequest.objects.get_or_create(
            key=f"{FIRST_KEY}{name}",
            defaults={
                "node_name": name, "rack": rack, "slots": slots, "capacity": capacity, "standby": standby,
                "requested_at": at,
            },
        )  # fmt: skip


def request_back_off(request: NodeRequest) -> datetime | None:
    """Until when a request waits because those before it, for the same lost node, have failed one after the
    other; None if the one before has not."""
    if request.incident_id is None:
        return None
    before = NodeRequest.objects.filter(
        incident=request.incident_id, key__startswith=f"{request.key.rpartition('/')[0]}/", pk__lt=request.pk
    )
    failures = 0
    for state in before.order_by("-pk").values_list("state", flat=True)[:BACK_OFF_STEPS]:
        if state != NodeRequestState.FAILED:
            break
        failures += 1
    if not failures:
        return None
    return request.requested_at + min(BACK_OFF_FIRST * 2 ** (failures - 1), BACK_OFF_LAST)


BACK_OFF_STEPS = 1 + (BACK_OFF_LAST // BACK_OFF_FIRST).bit_length()


def request_expect(*, request: NodeRequest, due_at: datetime) -> None:
    """The provider brings the node up later: it is asked again at `due_at`."""
    pending = NodeRequest.objects.filter(pk=request.pk, state=NodeRequestState.PENDING)
    pending.update(due_at=due_at, error="")


def request_postpone(*, request: NodeRequest, at: datetime, error: str) -> None:
    """The provider could not bring the node up: it is asked again, after a longer time with each failure."""
    wait = min(BACK_OFF_FIRST * 2 ** min(request.attempt - 1, BACK_OFF_STEPS), BACK_OFF_LAST)
    pending = NodeRequest.objects.filter(pk=request.pk, state=NodeRequestState.PENDING)
    pending.update(attempt=request.attempt + 1, due_at=at + wait, error=error)


def requests_unanswered(*, error: str) -> None:
    """The provider cannot be asked at all now; pending requests say why, and go on waiting."""
    NodeRequest.objects.filter(state=NodeRequestState.PENDING).update(error=error)


@writing
def request_started(*, request: NodeRequest, at: datetime) -> bool:
    """The node's agent was started; it registers next. False if it has, or if the request was given up."""
    if not request_move(request, NodeRequestState.STARTED, at=at):
        return False
    _node_move(request, NodeState.JOINING, f"the provider {settings.RESURGE.provider} has started it")
    return True


@writing
def request_failed(*, request: NodeRequest, at: datetime, error: str) -> bool:
    """The provider could not bring the node up, or it ended before it registered. False if the request was
    over already."""
    if not request_move(request, NodeRequestState.FAILED, at=at, error=error):
        return False
    _node_move(request, NodeState.LEFT, error)
    return True


def _node_move(request: NodeRequest, to: NodeState, reason: str) -> None:
    node = Node.objects.filter(name=request.node_name, state__in=NODE_AWAITED).first()
    if node is not None and node_move(node, to):
        event_publish(
            kind=EventKind.NODE_UPDATED,
            node=node.name,
            changes=[node_change(node, only=("state",))],
            reason=reason,
        )
