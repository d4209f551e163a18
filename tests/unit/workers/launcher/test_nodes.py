from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from controlplane.events.models import Event
from controlplane.nodes.choices import NodeRequestState, NodeState
from controlplane.nodes.models import Node, NodeRequest
from workers.launcher.nodes import (
    FirstNodes,
    dead_nodes_forget,
    due_nodes_launch,
    first_nodes_launch,
    nodes_leave,
)
from workers.providers.base import NodeDescription, ProviderDescription, ProviderError, RunningNode

pytestmark = pytest.mark.django_db

DEFAULT = FirstNodes(nodes=0)


class MemoryProvider:
    """A provider whose nodes are entries of a dictionary; names in `broken` cannot be started."""

    def __init__(self) -> None:
        self.alive: dict[str, bool] = {}
        self.descriptions: dict[str, NodeDescription] = {}
        self.broken: set[str] = set()

    def describe(self) -> ProviderDescription:
        return ProviderDescription(name="memory", text="", can_fail=True)

    def request(self, *, key: str, requested_at: float) -> float:
        return requested_at

    def launch(self, node: NodeDescription) -> RunningNode:
        if node.name in self.broken:
            raise ProviderError(f"{node.name}: no room")
        self.alive[node.name] = True
        self.descriptions[node.name] = node
        return self._running(node.name)

    def nodes(self) -> list[RunningNode]:
        return [self._running(name) for name in sorted(self.alive)]

    def fail(self, name: str) -> bool:
        was, self.alive[name] = self.alive[name], False
        return was

    def end(self, name: str, *, grace: float = 5.0) -> None:
        self.forget(name)

    def halt(self, name: str, *, grace: float = 5.0) -> None:
        self.alive[name] = False

    def forget(self, name: str) -> None:
        del self.alive[name]

    def _running(self, name: str) -> RunningNode:
        return RunningNode(
            description=self.descriptions[name], address="127.0.1.1", pid=1, alive=self.alive[name]
        )


@pytest.fixture
def provider() -> MemoryProvider:
    return MemoryProvider()


@pytest.fixture
def order(tmp_path: Path) -> Path:
    path = tmp_path / "first-nodes.json"
    path.write_text(json.dumps({"nodes": 4, "slots": 2, "capacity": 100}))
    return path


def request(name: str, *, due_in: float) -> NodeRequest:
    now = timezone.now()
    return NodeRequest.objects.create(
        key=f"incident-1/{name}",
        node_name=name,
        rack="rack-b",
        slots=2,
        capacity=100,
        requested_at=now,
        due_at=now + timedelta(seconds=due_in),
    )


def test_first_nodes_alternate_between_racks(provider: MemoryProvider, order: Path) -> None:
    first_nodes_launch(provider=provider, order=order)
    racks = {name: node.rack for name, node in provider.descriptions.items()}
    assert racks == {"node-1": "rack-a", "node-2": "rack-b", "node-3": "rack-a", "node-4": "rack-b"}
    assert not order.exists()
    provider.fail("node-2")
    first_nodes_launch(provider=provider, order=order)
    assert not provider.alive["node-2"], "without an order a dead node stays dead"


def test_the_nodes_of_the_last_run_come_back(provider: MemoryProvider, order: Path) -> None:
    for name in ("node-1", "node-3", "node-5"):
        provider.launch(NodeDescription(name=name, rack="rack-z"))
        provider.halt(name)
    Node.objects.create(name="node-7", state=NodeState.LOST)
    first_nodes_launch(provider=provider, order=order)
    assert [name for name, alive in sorted(provider.alive.items()) if alive] == [
        "node-1",
        "node-3",
        "node-5",
        "node-8",
    ]
    assert provider.descriptions["node-5"].rack == "rack-z"


def test_a_replacement_on_its_way_counts(provider: MemoryProvider, order: Path) -> None:
    request("node-9", due_in=60)
    first_nodes_launch(provider=provider, order=order)
    assert len(provider.alive) == 3


def test_requested_nodes_start_when_they_are_due(provider: MemoryProvider) -> None:
    due, later = request("node-5", due_in=-1), request("node-6", due_in=60)
    due_nodes_launch(provider=provider, default=DEFAULT)
    due.refresh_from_db()
    later.refresh_from_db()
    assert (due.state, later.state) == (NodeRequestState.STARTED, NodeRequestState.PENDING)
    assert due.started_at is not None
    assert provider.descriptions["node-5"].rack == "rack-b"


def test_a_node_that_cannot_start_fails_its_request(provider: MemoryProvider) -> None:
    provider.broken.add("node-5")
    row = request("node-5", due_in=-1)
    due_nodes_launch(provider=provider, default=DEFAULT)
    row.refresh_from_db()
    assert row.state == NodeRequestState.FAILED
    assert "no room" in row.error


def test_dead_nodes_are_cleared_away(provider: MemoryProvider) -> None:
    for name in ("node-1", "node-2"):
        provider.launch(NodeDescription(name=name, rack="rack-a"))
    provider.fail("node-1")
    dead_nodes_forget(provider=provider)
    assert list(provider.alive) == ["node-2"]


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
