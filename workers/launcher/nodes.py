"""Having the provider bring up the nodes that are asked for, and comparing what it has with the requests."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import msgspec
import structlog
from django.utils import timezone

from controlplane.events.services import writing
from controlplane.events.tasks import INCIDENT_STEP, task_send_on_commit
from controlplane.incidents.services import story_add
from controlplane.lifecycle.nodes import nodes_lost
from controlplane.nodes.choices import NODE_PRESENT, NODE_REQUEST_OPEN, NodeRequestState, NodeState
from controlplane.nodes.models import Node, NodeRequest
from controlplane.nodes.requests import (
    FIRST_KEY,
    first_nodes_request,
    request_back_off,
    request_expect,
    request_failed,
    request_postpone,
    request_started,
    requests_date_anew,
    requests_due,
    requests_unanswered,
    requests_unregistered,
)
from controlplane.nodes.selectors import node_name_next
from domain.values import MOST_NODES, Capacity, Rack, Slots
from workers.providers.base import NodeDescription, NodeProvider, NodeWanted, ProviderError, RunningNode
from workers.quarantine import quarantine

log = structlog.get_logger()

LIST_AGAIN = 5.0
"""Seconds until a provider is asked again that could not list its nodes, or not start all of the last run."""
UNLISTED = timedelta(minutes=2)
"""After a node was started: a provider may take a while until it lists it."""
SIDE_BY_SIDE = 8
"""Calls of a provider that run at the same time."""


class FirstNodes(msgspec.Struct, frozen=True, kw_only=True):
    """`run/first-nodes.json`, written by `make up`: how many nodes a starting installation has, and how many
    `standbys` besides. `resize`: those of the last run get these slots and this capacity too."""

    nodes: Annotated[int, msgspec.Meta(ge=0, le=MOST_NODES)]
    standbys: Annotated[int, msgspec.Meta(ge=0, le=MOST_NODES)] = 0
    slots: Slots = 2
    capacity: Capacity = 100
    resize: bool = False
    racks: Annotated[tuple[Rack, ...], msgspec.Meta(min_length=1)] = ("rack-a", "rack-b")


_first_nodes = msgspec.json.Decoder(FirstNodes)


class Nodes:
    """One step after the other, on a thread of the launcher. Nothing is acquired before the provider has said
    once what it has: a launcher before this one may have been killed between a call of the provider and the
    note of it."""

    def __init__(self, provider: NodeProvider, *, order: Path) -> None:
        self._provider = provider
        self._order = order
        self._list_at = 0.0
        self._listed = False
        self._came: set[str] = set()

    def step(self) -> None:
        if time.monotonic() >= self._list_at:
            self._compare()
        if self._listed and not requests_serve(provider=self._provider):
            self._list_at = 0.0  # what has failed may have started all the same

    def _compare(self) -> None:
        try:
            known = self._provider.nodes()
        except ProviderError as error:
            log.error("nodes not listed", error=str(error))
            requests_unanswered(error=str(error))
            self._list_at = time.monotonic() + LIST_AGAIN
            return
        self._list_at = time.monotonic() + self._provider.list_interval
        if self._order.exists():
            self._came |= {node.description.name for node in known if node.alive}
            if first_nodes_launch(provider=self._provider, known=known, order=self._order, came=self._came):
                self._list_at = 0.0  # what was dead in this listing may run by now
                self._came.clear()
            else:
                self._list_at = time.monotonic() + max(LIST_AGAIN, self._provider.list_interval)
        else:
            nodes_compare(provider=self._provider, known=known)
        self._listed = True


def first_nodes_launch(
    *, provider: NodeProvider, known: Iterable[RunningNode], order: Path, came: Collection[str]
) -> bool:
    """Start the nodes of the last run again (same names, same disks) and ask for new ones up to the number
    ordered. The order is removed when it is carried out, so that a restarted launcher, which finds dead
    nodes, does not mistake them for ones to be started. False where a node comes back later, or could not be
    started: then the order stays and is looked at again, and no dead node is released before. Those that
    `came`, and have died since, are not started again."""
    wanted = _order_read(order)
    if wanted is None:
        return False
    names = {node.description.name for node in known}
    keys = dict(NodeRequest.objects.filter(node_name__in=names).values_list("node_name", "key"))
    stopped = [
        NodeWanted(
            request=keys.get(node.description.name, f"{FIRST_KEY}{node.description.name}"),
            requested_at=time.time(),
            replacement=False,
            node=_resized(node.description, wanted) if wanted.resize else node.description,
        )
        for node in known
        if not node.alive and node.description.name not in came
    ]
    answers = _acquire(provider, stopped)
    requested = dict(
        NodeRequest.objects.filter(state__in=NODE_REQUEST_OPEN).values_list("node_name", "standby")
    )
    # One that was started as a standby may have taken over since.
    registered = dict(Node.objects.filter(name__in=names).values_list("name", "standby"))
    standby = {node.description.name: node.description.standby for node in known} | requested | registered
    for waits, count in ((False, wanted.nodes), (True, wanted.standbys)):
        new: list[tuple[str, str]] = []
        while list(standby.values()).count(waits) < count:
            name = node_name_next(standby)
            standby[name] = waits
            new.append((name, wanted.racks[(int(name.rpartition("-")[2]) - 1) % len(wanted.racks)]))
        first_nodes_request(
            names_and_racks=new,
            slots=wanted.slots,
            capacity=wanted.capacity,
            standby=waits,
            at=timezone.now(),
        )
    for one, answer in zip(stopped, answers, strict=True):
        if isinstance(answer, ProviderError):
            log.error("node of the last run not started", node=one.node.name, error=str(answer))
    if any(answer is not None for answer in answers):
        return False
    order.unlink(missing_ok=True)
    return True


def _order_read(order: Path) -> FirstNodes | None:
    """What is ordered; an order that cannot be read is set aside, so that nodes are brought up all the
    same."""
    try:
        return _first_nodes.decode(order.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        aside = order.with_suffix(".refused")
        order.replace(aside)
        quarantine.refuse(f"file {order.name}", f"{error}; it is {aside.name} now")
        log.error("order of nodes set aside", path=str(aside), error=str(error))
        return None


def requests_serve(*, provider: NodeProvider) -> bool:
    """Ask the provider for every node that is wanted and due; False if it could not bring up one of them."""
    requests_date_anew(at=timezone.now())
    due: list[NodeRequest] = []
    for request in requests_due(at=timezone.now()):
        until = request_back_off(request) if request.due_at is None else None
        if until is not None and until > timezone.now():
            request_expect(request=request, due_at=until)
        else:
            due.append(request)
    answers = _acquire(provider, [_wanted(request) for request in due])
    for request, answer in zip(due, answers, strict=True):
        if answer is None:
            request_started(request=request, at=timezone.now())
        elif isinstance(answer, float):
            request_expect(request=request, due_at=datetime.fromtimestamp(answer, tz=UTC))
        elif request.key.startswith(FIRST_KEY):  # of which recovery knows nothing
            log.error("node not started", node=request.node_name, error=str(answer))
            request_postpone(request=request, at=timezone.now(), error=str(answer))
        else:
            request_give_up(request=request, error=str(answer))
    return not any(isinstance(answer, ProviderError) for answer in answers)


def nodes_compare(*, provider: NodeProvider, known: Iterable[RunningNode]) -> None:
    """Bring the requests up to date with what the provider has, and release what nothing needs: a node that
    died, of which nothing may go on working since it never comes back under its name, and one that was
    started for a request that is over, unless it has registered and serves as a spare. A node that was
    started and is not listed is given up. One of the last run that ended before it registered is lost once
    the others are back: detection, which knows that it left, does not miss it."""
    by_name = {node.description.name: node for node in known}
    requests = {row.node_name: row for row in NodeRequest.objects.filter(node_name__in=by_name)}
    present = set(
        Node.objects.filter(name__in=by_name, state__in=NODE_PRESENT).values_list("name", flat=True)
    )
    failed = {name for name, row in requests.items() if row.state == NodeRequestState.FAILED}
    left = Node.objects.filter(name__in=by_name.keys() - failed, state=NodeState.LEFT)
    back = set(left.values_list("name", flat=True))
    coming = any(by_name[name].alive for name in back)
    ended: dict[str, str] = {}
    for name, node in by_name.items():
        request = requests.get(name)
        state = request.state if request is not None else ""
        if not node.alive:
            if coming and name in back:
                continue  # what ran on the others would be restored elsewhere, too
            log.warning("node is dead", node=name, pid=node.pid)
            _release(provider, name)
            ended[name] = "it was started again, and ended before it registered; see its log"
            if request is not None and state == NodeRequestState.STARTED:
                request_give_up(request=request, error=f"{name} ended before it registered; see its log")
        elif request is not None and state == NodeRequestState.PENDING and node.started:
            request_started(request=request, at=timezone.now())
        elif state == NodeRequestState.FAILED and name not in present:
            log.warning("node released: its request is over", node=name)
            _release(provider, name)
    if not back.isdisjoint(ended):
        nodes_lost(evidence=ended, at=timezone.now(), left=True)
    for request in requests_unregistered(before=timezone.now() - UNLISTED):
        if request.node_name not in by_name:
            error = (
                f"{request.node_name} was started and has not registered, and the provider does not list it"
            )
            request_give_up(request=request, error=error)


@writing
def request_give_up(*, request: NodeRequest, error: str) -> None:
    """Note that a request has failed, also in the story of its incident, and have recovery look at it: it
    asks for another node."""
    log.error("node not started", node=request.node_name, error=error)
    if request_failed(request=request, at=timezone.now(), error=error) and request.incident is not None:
        number = request.incident.number
        text = f"Request {request.key} for {request.node_name} failed: {error}"
        story_add(number=number, kind="step", text=text, key=f"{request.key}/failed")
        task_send_on_commit(INCIDENT_STEP, number)


def _resized(node: NodeDescription, order: FirstNodes) -> NodeDescription:
    return dataclasses.replace(node, slots=order.slots, capacity=order.capacity)


def _wanted(request: NodeRequest) -> NodeWanted:
    return NodeWanted(
        request=request.key,
        requested_at=request.requested_at.timestamp(),
        replacement=request.incident_id is not None,
        node=NodeDescription(
            name=request.node_name,
            rack=request.rack or FirstNodes(nodes=0).racks[0],
            slots=request.slots,
            capacity=round(request.capacity),
            standby=request.standby,
        ),
    )


def _acquire(provider: NodeProvider, wanted: list[NodeWanted]) -> list[float | ProviderError | None]:
    """The provider's answers, in order: None for a node that was started, else when to ask again, or the
    error."""

    def ask(one: NodeWanted) -> float | ProviderError | None:
        try:
            return provider.acquire(one)
        except ProviderError as error:
            return error

    if not wanted:
        return []
    with ThreadPoolExecutor(max_workers=SIDE_BY_SIDE) as pool:
        return list(pool.map(ask, wanted))


def _release(provider: NodeProvider, name: str) -> None:
    try:
        provider.release(name)
    except ProviderError as error:
        log.error("node not released", node=name, error=str(error))
