from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.events import pace
from controlplane.events.models import Event
from controlplane.lifecycle.nodes import nodes_heartbeat
from controlplane.nodes.choices import NodeState
from controlplane.nodes.models import Node
from domain.messages import NodeStats
from tests.unit.controlplane.following import Follower

AT = datetime(2026, 3, 4, 5, 6, 7, 125_000, tzinfo=UTC)


def statistics(nodes: list[Node], at: datetime, cpu: float = 40.0) -> list[NodeStats]:
    return [
        NodeStats(
            id=node.name,
            at=at.timestamp(),
            session="a",
            cpu_percent=cpu,
            memory_bytes=3_000_000_000,
            disk_free_bytes=80_000_000_000,
            throttled=0.5,
        )
        for node in nodes
    ]


def test_heartbeats_are_stored_and_told(nodes: list[Node]) -> None:
    Node.objects.filter(name="node-4").update(state=NodeState.LOST)
    follower = Follower()
    nodes_heartbeat(stats=statistics(nodes, AT), at=AT + timedelta(seconds=1))
    stored = Node.objects.get(name="node-1")
    assert (stored.last_heartbeat, stored.cpu_percent, stored.throttled) == (AT, 40.0, 0.5)
    assert (stored.memory_bytes, stored.disk_free_bytes) == (3_000_000_000, 80_000_000_000)
    assert Node.objects.get(name="node-4").last_heartbeat is None, "what is lost has no heartbeat"
    follower.check()
    nodes_heartbeat(stats=statistics(nodes, AT, 50.0), at=AT.replace(microsecond=0))
    assert Node.objects.get(name="node-1").last_heartbeat == AT.replace(microsecond=0), "never in the future"
    follower.check()


def test_no_statistics_publish_no_event(nodes: list[Node]) -> None:
    nodes_heartbeat(stats=[], at=AT)
    assert not Event.objects.exists()


def test_of_many_nodes_the_pulse_is_told_and_the_rest_in_rounds(
    nodes: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "ROWS_A_SECOND", 1)  # four nodes: a round takes four seconds
    fields = []
    for second in range(9):
        at = AT + timedelta(seconds=second)
        with CaptureQueriesContext(connection) as queries:
            nodes_heartbeat(stats=statistics(nodes, at), at=at)
        assert len(queries) < 15, "however many nodes there are"
        changes = Event.objects.order_by("-sequence")[0].changes
        assert len(changes) == 4
        fields.append(len(changes[0]["fields"]))
    assert fields[0] == 5
    assert sorted(fields[1:]) == [2, 2, 2, 2, 2, 2, 5, 5]
