"""Lists are filtered, ordered and paginated exactly as requested; unknown parameters are refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.events.choices import Channel
from controlplane.incidents.models import Incident
from controlplane.lifecycle.recovery_terms import query_priorities_set
from controlplane.nodes.choices import NodeState
from controlplane.nodes.models import Node
from controlplane.topologies.models import Topology

API = "/api/v1"


def names(client: APIClient, path: str, field: str = "name") -> list[Any]:
    answer = client.get(f"{API}/{path}")
    assert answer.status_code == 200, answer.json()
    return [row[field] for row in answer.json()["results"]]


def test_states_may_be_named_several_times(viewer: APIClient, nodes: list[Node]) -> None:
    Node.objects.filter(name="node-2").update(state=NodeState.LOST)
    Node.objects.filter(name="node-3").update(state=NodeState.DRAINING)
    assert names(viewer, "nodes/?state=lost") == ["node-2"]
    assert names(viewer, "nodes/?state=lost&state=draining&rack=rack-a") == ["node-3"]
    assert names(viewer, "nodes/?standby=true") == []
    assert names(viewer, "nodes/?search=node-4") == ["node-4"]
    assert names(viewer, "nodes/?ordering=-name&limit=2&offset=1") == ["node-3", "node-2"]
    assert viewer.get(f"{API}/nodes/node-1/?state=lost").status_code == 400, "a detail is not filtered"


def test_incidents_by_what_they_took_down_and_when(
    viewer: APIClient, topology: Topology, nodes: list[Node]
) -> None:
    now = timezone.now()
    for number, state in ((1, "closed"), (2, "aborted"), (3, "replaying")):
        at = now - timedelta(hours=10 - number)
        incident = Incident.objects.create(number=number, state=state, detected_at=at, opened_at=at)
        incident.failed_nodes.add(nodes[number])
        if number == 3:
            incident.topologies.add(topology)
    assert names(viewer, "incidents/?open=true", "number") == [3]
    assert names(viewer, "incidents/?open=false", "number") == [2, 1]
    assert names(viewer, "incidents/?topology=counts", "number") == [3]
    assert names(viewer, "incidents/?node=node-2", "number") == [1]
    border = quote((now - timedelta(hours=8)).isoformat())
    assert names(viewer, f"incidents/?since={border}", "number") == [3, 2]
    assert names(viewer, f"incidents/?until={border}", "number") == [1]


def test_the_audit_trail_by_who_what_and_when(viewer: APIClient, topology: Topology) -> None:
    by: dict[str, Any] = {"reason": "test", "channel": Channel.REST}
    query_priorities_set(topology="counts", priorities={"O0[0]": 9}, actor="bob", **by)
    assert names(viewer, "audit/?actor=bob", "action") == ["query.priority"]
    assert names(viewer, "audit/?channel=cli&channel=admin", "action") == ["topology.create"]
    assert names(viewer, "audit/?search=priority", "actor") == ["bob"]
    later = quote((timezone.now() + timedelta(minutes=1)).isoformat())
    assert names(viewer, f"audit/?since={later}", "action") == []
    assert names(viewer, "topologies/counts/queries/?priority=9", "partition") == ["O0[0]"]


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("nodes/?state=asleep", "state"),
        ("nodes/?rack=", "rack"),
        ("incidents/?since=", "since"),
        ("nodes/?sate=lost", "sate"),
        ("nodes/?standby=perhaps", "standby"),
        ("nodes/?ordering=age", "ordering"),
        ("nodes/?ordering=name,-secret", "ordering"),
        ("nodes/?limit=0", "limit"),
        ("nodes/?limit=1001", "limit"),
        ("nodes/?limit=ten", "limit"),
        ("nodes/?limit=%C2%B2", "limit"),
        ("nodes/?offset=-1", "offset"),
        ("nodes/?offset=9999999999999999999999", "offset"),
        ("node-requests/?incident=1.5", "incident"),
        ("incidents/?since=yesterday", "since"),
        ("incidents/?since=2026-01-01T00:00:00", "since"),
        ("incidents/?until=2026-13-01T00:00:00Z", "until"),
        ("incidents/?open=1", "open"),
        ("incidents/?topologies__name=counts", "topologies__name"),
        ("checkpoints/?search=x", "search"),
        ("audit/?channel=window", "channel"),
        ("topologies/?method=a%00b", "method"),
        ("topologies/?search=a%00b", ""),
        ("topologies/counts/queries/?priority=11", "priority"),
        ("topologies/counts/partitions/?operator=a%00b", "operator"),
        ("topologies/counts/checkpoints/?epoch=99999999999999999999", "epoch"),
        ("events/?since=2026-01-01T00:00:00Z", "since"),
        ("events/?incident=0", "incident"),
    ],
)
def test_what_means_nothing_is_refused_with_its_name(
    viewer: APIClient, topology: Topology, path: str, field: str
) -> None:
    answer = viewer.get(f"{API}/{path}")
    assert answer.status_code == 400, answer.json()
    assert [error["path"] for error in answer.json()["errors"]] == [field]


def test_a_body_must_be_plain_json_of_a_bearable_size(operator: APIClient, topology: Topology) -> None:
    def sent(body: bytes, kind: str = "application/json") -> tuple[int, str]:
        answer = operator.post(f"{API}/topologies/", body, content_type=kind)
        return answer.status_code, answer.json()["errors"][0]["message"]

    assert "nested too deeply" in sent(b"[" * 100_000)[1]
    assert "NaN is not JSON" in sent(b'{"spec": NaN}')[1]
    assert "spec.name: inf is no number" in sent(b'{"spec": {"name": 1e999}}')[1]
    assert "beyond 64 bits" in sent(b'{"spec": {"name": 1' + b"0" * 4000 + b"}}")[1]
    assert "NUL" in sent(b'{"spec": {"name": "\\u0000"}}')[1]
    assert "nested more than 100 levels" in sent(b'{"spec": ' + b"[" * 500 + b"]" * 500 + b"}")[1]
    assert "half of a surrogate" in sent(b'{"spec": {"\\ud800": 1}}')[1]
    assert "not UTF-8" in sent(b'{"reason": "\xff"}')[1]
    status, message = sent(b'{"reason": "' + b"x" * 2_500_000 + b'"}')
    assert (status, "longer than" in message) == (413, True)
    assert sent(b"reason=because", "application/x-www-form-urlencoded")[0] == 415
