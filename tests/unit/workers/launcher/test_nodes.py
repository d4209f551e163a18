from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from controlplane.events import tasks
from controlplane.events.models import Event
from controlplane.incidents.models import Incident
from controlplane.incidents.selectors import entry_list
from controlplane.lifecycle.nodes import node_register, nodes_leave
from controlplane.nodes.choices import NodeRequestState, NodeState
from controlplane.nodes.models import Node, NodeRequest
from controlplane.nodes.requests import BACK_OFF_LAST, request_back_off
from controlplane.nodes.states import request_move
from tests.unit.controlplane.incidents.places import now, registration
from workers.launcher.nodes import LIST_AGAIN, UNLISTED, Nodes, nodes_compare, request_give_up, requests_serve
from workers.providers.base import (
    NodeDescription,
    NodeWanted,
    ProviderError,
    RunningNode,
)

pytestmark = pytest.mark.django_db


class MemoryProvider:
    """A provider whose nodes are entries of a dictionary; names in `broken` cannot be started, names in
    `late` come at that moment, and `asked` holds what was acquired."""

    list_interval = 0.0

    def __init__(self) -> None:
        self.alive: dict[str, bool] = {}
        self.descriptions: dict[str, NodeDescription] = {}
        self.broken: set[str] = set()
        self.late: dict[str, float] = {}
        self.asked: list[NodeWanted] = []
        self.away = False

    def describe(self) -> str:
        return "memory"

    def acquire(self, wanted: NodeWanted) -> float | None:
        self.asked.append(wanted)
        node = wanted.node
        if node.name in self.broken:
            raise ProviderError(f"{node.name}: no room")
        if self.late.get(node.name, 0.0) > time.time():
            return self.late[node.name]
        self.start(node)
        return None

    def start(self, node: NodeDescription) -> None:
        self.alive[node.name] = True
        self.descriptions[node.name] = node

    def release(self, name: str, *, keep_disk: bool = False) -> None:
        if keep_disk:
            self.alive[name] = False
        else:
            del self.alive[name]

    def nodes(self) -> list[RunningNode]:
        if self.away:
            raise ProviderError("list exited with 1: no credentials")
        return [
            RunningNode(description=self.descriptions[name], address="127.0.1.1", pid=1, alive=alive)
            for name, alive in sorted(self.alive.items())
        ]

    def fail(self, name: str) -> bool:
        was, self.alive[name] = self.alive[name], False
        return was


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Collects the tasks that would be sent to Celery."""
    messages: list[tuple[Any, ...]] = []
    monkeypatch.setattr(tasks, "task_send", lambda name, *arguments: messages.append((name, *arguments)))
    return messages


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> MemoryProvider:
    # The transaction of the test belongs to its thread, and a provider in memory needs no other thread.
    monkeypatch.setattr("workers.launcher.nodes.ThreadPoolExecutor", InThisThread)
    return MemoryProvider()


class InThisThread:
    map = staticmethod(map)

    def __init__(self, max_workers: int) -> None: ...
    def __enter__(self) -> InThisThread:
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def order(tmp_path: Path) -> Path:
    path = tmp_path / "first-nodes.json"
    path.write_text(json.dumps({"nodes": 4, "slots": 3, "capacity": 150}))
    return path


@pytest.fixture
def nodes(provider: MemoryProvider, tmp_path: Path) -> Nodes:
    return Nodes(provider, order=tmp_path / "first-nodes.json")


@pytest.fixture
def incident() -> Incident:
    return Incident.objects.create(number=1, detected_at=timezone.now(), opened_at=timezone.now())


def request(name: str, *, incident: Incident | None = None, attempt: int = 1, **more: Any) -> NodeRequest:
    Node.objects.get_or_create(name=name)
    return NodeRequest.objects.create(
        key=f"incident-1/node-1/{attempt}",
        incident=incident,
        node_name=name,
        rack="rack-b",
        slots=2,
        capacity=100,
        attempt=attempt,
        **{"requested_at": timezone.now(), **more},
    )


def state(name: str) -> str:
    return Node.objects.get(name=name).state


# ---- the nodes an installation starts with -------------------------------------------------------


def test_first_nodes_alternate_between_racks(provider: MemoryProvider, nodes: Nodes, order: Path) -> None:
    nodes.step()
    racks = {name: node.rack for name, node in provider.descriptions.items()}
    assert racks == {"node-1": "rack-a", "node-2": "rack-b", "node-3": "rack-a", "node-4": "rack-b"}
    assert {(node.slots, node.capacity) for node in provider.descriptions.values()} == {(3, 150)}
    assert not any(wanted.replacement for wanted in provider.asked), "none of them is delayed"
    assert not order.exists()
    provider.fail("node-2")
    nodes.step()
    assert "node-2" not in provider.alive, "without a request a dead node stays dead"


def test_standbys_come_besides(provider: MemoryProvider, nodes: Nodes, order: Path) -> None:
    order.write_text(json.dumps({"nodes": 2, "standbys": 1}))
    nodes.step()
    standby = {name: node.standby for name, node in provider.descriptions.items()}
    assert standby == {"node-1": False, "node-2": False, "node-3": True}
    provider.release("node-3", keep_disk=True)
    provider.release("node-1", keep_disk=True)
    order.write_text(json.dumps({"nodes": 3, "standbys": 1}))
    nodes.step()
    assert {name: node.standby for name, node in provider.descriptions.items()} == {
        **standby,
        "node-4": False,
    }
    assert all(provider.alive.values())
    Node.objects.update_or_create(name="node-3", defaults={"standby": False})
    order.write_text(json.dumps({"nodes": 4, "standbys": 1}))
    nodes.step()
    assert provider.descriptions["node-5"].standby, "node-3 has taken over since"
    assert len(provider.descriptions) == 5


def test_the_nodes_of_the_last_run_come_back(provider: MemoryProvider, nodes: Nodes, order: Path) -> None:
    for name in ("node-1", "node-3", "node-5"):
        provider.start(NodeDescription(name=name, rack="rack-z"))
        provider.release(name, keep_disk=True)
    Node.objects.create(name="node-7", state=NodeState.LOST)
    nodes.step()
    nodes.step()
    assert [name for name, alive in sorted(provider.alive.items()) if alive] == [
        "node-1",
        "node-3",
        "node-5",
        "node-8",
    ]
    assert provider.descriptions["node-5"].rack == "rack-z"


def test_the_nodes_of_the_last_run_get_another_size(
    provider: MemoryProvider, nodes: Nodes, order: Path
) -> None:
    provider.start(NodeDescription(name="node-1", rack="rack-z", slots=1, capacity=30))
    provider.release("node-1", keep_disk=True)
    order.write_text(json.dumps({"nodes": 1, "slots": 2, "capacity": 100}))
    nodes.step()
    assert provider.descriptions["node-1"].capacity == 30, "not unless that is ordered"
    provider.release("node-1", keep_disk=True)
    order.write_text(json.dumps({"nodes": 1, "slots": 2, "capacity": 100, "resize": True}))
    nodes.step()
    assert provider.descriptions["node-1"] == NodeDescription(
        name="node-1", rack="rack-z", slots=2, capacity=100
    )


def test_a_replacement_on_its_way_counts(provider: MemoryProvider, nodes: Nodes, order: Path) -> None:
    request("node-9", due_at=timezone.now() + timedelta(seconds=60))
    nodes.step()
    assert len(provider.alive) == 3


def test_a_first_node_that_comes_later_is_asked_for_again(
    provider: MemoryProvider, nodes: Nodes, order: Path
) -> None:
    provider.late["node-2"] = time.time() + 3600
    nodes.step()
    assert sorted(provider.alive) == ["node-1", "node-3", "node-4"]
    provider.late.clear()
    NodeRequest.objects.filter(node_name="node-2").update(due_at=timezone.now())
    nodes.step()
    assert sorted(provider.alive) == ["node-1", "node-2", "node-3", "node-4"]


def test_a_node_of_the_last_run_that_cannot_start_keeps_its_disk(
    provider: MemoryProvider, nodes: Nodes, order: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = 1000.0
    monkeypatch.setattr("workers.launcher.nodes.time.monotonic", lambda: clock)
    for name in ("node-1", "node-2", "node-3", "node-4"):
        provider.start(NodeDescription(name=name, rack="rack-z"))
        provider.release(name, keep_disk=True)
    provider.broken.add("node-2")
    nodes.step()
    assert provider.alive == {"node-1": True, "node-2": False, "node-3": True, "node-4": True}
    assert order.exists()
    asked = len(provider.asked)
    nodes.step()
    assert len(provider.asked) == asked, "not at once"
    clock += LIST_AGAIN
    nodes.step()
    assert [wanted.node.name for wanted in provider.asked[asked:]] == ["node-2"]
    provider.broken.clear()
    provider.fail("node-3")
    clock += LIST_AGAIN
    nodes.step()
    assert provider.alive == {"node-1": True, "node-2": True, "node-3": False, "node-4": True}, "3 had come"
    assert provider.descriptions["node-2"].rack == "rack-z"
    assert sorted(provider.alive) == ["node-1", "node-2", "node-3", "node-4"], "none was asked for instead"
    assert not order.exists()


def test_a_first_node_that_cannot_start_is_asked_for_again(
    provider: MemoryProvider, nodes: Nodes, order: Path
) -> None:
    provider.broken.add("node-2")
    waits = []
    for _ in range(9):
        nodes.step()
        row = NodeRequest.objects.get(node_name="node-2")
        assert (row.state, row.error) == (NodeRequestState.PENDING, "node-2: no room")
        assert row.due_at is not None
        waits.append(round((row.due_at - timezone.now()).total_seconds()))
        asked = len(provider.asked)
        nodes.step()
        assert len(provider.asked) == asked, "not before it is due"
        NodeRequest.objects.filter(pk=row.pk).update(due_at=timezone.now())
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    provider.broken.clear()
    nodes.step()
    row.refresh_from_db()
    assert (row.state, row.error) == (NodeRequestState.STARTED, "")
    assert sorted(provider.alive) == ["node-1", "node-2", "node-3", "node-4"]


# ---- what recovery asks for ----------------------------------------------------------------------


def test_requested_nodes_start_when_they_are_due(provider: MemoryProvider, incident: Incident) -> None:
    due, later = request("node-5", incident=incident), request("node-6", incident=incident, attempt=2)
    provider.late["node-6"] = time.time() + 60
    assert requests_serve(provider=provider)
    due.refresh_from_db()
    later.refresh_from_db()
    assert (due.state, later.state) == (NodeRequestState.STARTED, NodeRequestState.PENDING)
    assert due.started_at is not None
    assert later.due_at == datetime.fromtimestamp(provider.late["node-6"], tz=UTC)
    assert provider.descriptions["node-5"].rack == "rack-b"
    assert (state("node-5"), state("node-6")) == (NodeState.JOINING, NodeState.REQUESTED)
    assert all(wanted.replacement for wanted in provider.asked)
    requests_serve(provider=provider)
    assert len(provider.asked) == 2, "neither is asked for before it is due"


def test_a_node_comes_in_its_time_where_the_clock_was_put_back(
    provider: MemoryProvider, incident: Incident
) -> None:
    asked = now() + timedelta(hours=1)
    row = request("node-5", incident=incident, due_at=asked + timedelta(minutes=2), requested_at=asked)
    assert requests_serve(provider=provider)
    [wanted] = provider.asked
    assert wanted.requested_at <= time.time()
    row.refresh_from_db()
    assert row.state == NodeRequestState.STARTED


def test_a_node_that_was_started_before_the_clock_was_put_back_counts_as_started_now(
    provider: MemoryProvider, incident: Incident
) -> None:
    row = request("node-5", incident=incident, due_at=now())
    requests_serve(provider=provider)
    NodeRequest.objects.update(started_at=now() + timedelta(hours=1))
    requests_serve(provider=provider)
    row.refresh_from_db()
    assert row.started_at is not None
    assert row.started_at <= now()


def test_a_node_that_registers_first_stays_alive(provider: MemoryProvider, incident: Incident) -> None:
    row = request("node-5", incident=incident)
    acquire = provider.acquire

    def acquire_and_register(wanted: NodeWanted) -> float | None:
        node_register(registration=registration("node-5"), at=now())
        return acquire(wanted)

    provider.acquire = acquire_and_register  # type: ignore[method-assign]
    requests_serve(provider=provider)
    row.refresh_from_db()
    assert (row.state, state("node-5")) == (NodeRequestState.JOINED, NodeState.ALIVE)


def test_a_node_that_cannot_start_fails_its_request(
    provider: MemoryProvider, incident: Incident, sent: list[Any], django_capture_on_commit_callbacks: Any
) -> None:
    provider.broken.add("node-5")
    row = request("node-5", incident=incident)
    with django_capture_on_commit_callbacks(execute=True):
        assert not requests_serve(provider=provider)
    row.refresh_from_db()
    assert row.state == NodeRequestState.FAILED
    assert "no room" in row.error
    assert row.started_at is None
    assert state("node-5") == NodeState.LEFT
    (told,) = entry_list(1)
    assert told.text == "Request incident-1/node-1/1 for node-5 failed: node-5: no room"
    assert ("recovery.incident_step", 1) in sent


def test_after_failures_the_provider_is_asked_less_and_less(
    provider: MemoryProvider, incident: Incident
) -> None:
    waits = []
    for attempt in range(1, 12):
        row = request(f"node-{attempt + 4}", incident=incident, attempt=attempt)
        until = request_back_off(row)
        waits.append((until - row.requested_at).total_seconds() if until is not None else 0)
        request_give_up(request=row, error="no room")
    assert waits == [0, 5, 10, 20, 40, 80, 160, 300, 300, 300, 300]
    assert BACK_OFF_LAST.total_seconds() == 300
    waiting = request("node-16", incident=incident, attempt=12)
    requests_serve(provider=provider)
    waiting.refresh_from_db()
    assert not provider.asked
    assert waiting.due_at == request_back_off(waiting)
    request_move(waiting, NodeRequestState.JOINED, at=timezone.now())
    assert request_back_off(request("node-17", incident=incident, attempt=13)) is None


# ---- what the provider has -----------------------------------------------------------------------


def compare(provider: MemoryProvider) -> None:
    nodes_compare(provider=provider, known=provider.nodes())


def test_dead_nodes_are_cleared_away(provider: MemoryProvider) -> None:
    for name in ("node-1", "node-2"):
        provider.start(NodeDescription(name=name, rack="rack-a"))
    provider.fail("node-1")
    compare(provider)
    assert list(provider.alive) == ["node-2"]


def test_a_node_that_dies_before_it_registers_fails_its_request(
    provider: MemoryProvider, incident: Incident
) -> None:
    row = request("node-5", incident=incident)
    requests_serve(provider=provider)
    provider.fail("node-5")
    compare(provider)
    row.refresh_from_db()
    assert (row.state, state("node-5")) == (NodeRequestState.FAILED, NodeState.LEFT)
    assert "ended before it registered" in row.error


@pytest.mark.parametrize("registers", [False, True])
def test_a_node_that_was_started_and_is_not_listed_is_given_up(
    provider: MemoryProvider, incident: Incident, registers: bool
) -> None:
    row = request("node-5", incident=incident)
    requests_serve(provider=provider)
    del provider.alive["node-5"]
    compare(provider)
    row.refresh_from_db()
    assert row.state == NodeRequestState.STARTED, "a provider may be slow to list it"
    if registers:
        node_register(registration=registration("node-5"), at=now())
    NodeRequest.objects.filter(pk=row.pk).update(started_at=timezone.now() - UNLISTED - timedelta(seconds=1))
    compare(provider)
    row.refresh_from_db()
    if registers:
        assert row.state == NodeRequestState.JOINED
        return
    assert (row.state, state("node-5")) == (NodeRequestState.FAILED, NodeState.LEFT)
    assert "the provider does not list it" in row.error
    (told,) = entry_list(1)
    assert row.error in told.text


def test_a_restarted_launcher_acquires_no_node_twice(
    provider: MemoryProvider, nodes: Nodes, incident: Incident
) -> None:
    """The earlier launcher was killed after the provider had started the node and before that was
    recorded."""
    row = request("node-5", incident=incident)
    provider.start(NodeDescription(name="node-5", rack="rack-b"))
    provider.away = True
    nodes.step()
    row.refresh_from_db()
    assert (row.state, row.error) == (NodeRequestState.PENDING, "list exited with 1: no credentials")
    provider.away = False
    Nodes(provider, order=Path("none")).step()
    row.refresh_from_db()
    assert (row.state, state("node-5")) == (NodeRequestState.STARTED, NodeState.JOINING)
    assert not provider.asked


def test_a_node_whose_request_is_over_is_released_unless_it_serves(
    provider: MemoryProvider, incident: Incident
) -> None:
    rows = [request(f"node-{number}", incident=incident, attempt=number) for number in (5, 6)]
    requests_serve(provider=provider)
    for row in rows:
        request_give_up(request=row, error="it is not needed any more")
    node_register(registration=registration("node-6"), at=now())
    compare(provider)
    assert list(provider.alive) == ["node-6"]


def test_leaving_in_good_order_is_one_event_for_each_node() -> None:
    for name, state in (
        ("node-1", NodeState.ALIVE),
        ("node-2", NodeState.LOST),
        ("node-3", NodeState.SUSPECT),
    ):
        Node.objects.create(name=name, state=state)
    nodes_leave(reason="the installation is stopped")
    assert dict(Node.objects.values_list("name", "state")) == {
        "node-1": NodeState.LEFT,
        "node-2": NodeState.LOST,
        "node-3": NodeState.LEFT,
    }
    assert list(Event.objects.values_list("kind", "node").order_by("sequence")) == [
        ("node.left", "node-1"),
        ("node.left", "node-3"),
    ]
