"""The number of database queries of an address does not depend on the number of rows."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from knox.models import AuthToken
from rest_framework.test import APIClient

from controlplane.alerts.models import Alert, AlertRule, Silence
from controlplane.alerts.silencing import silence_create
from controlplane.checkpoints.models import Savepoint
from controlplane.checkpoints.services import checkpoint_apply
from controlplane.events.choices import EventKind
from controlplane.events.models import AuditEntry, Operation
from controlplane.incidents.models import Incident, IncidentEntry, RecoveryPlan
from controlplane.lifecycle.topologies import topology_deploy
from controlplane.nodes.choices import NodeState
from controlplane.nodes.models import Node, NodeRequest, NodeSample
from controlplane.retention import selectors
from controlplane.topologies.models import AvailabilitySample, Partition, Problem, Topology
from controlplane.topologies.services import topology_create
from controlplane.webhooks.models import Webhook
from controlplane.webhooks.services import webhook_create
from host.environment import ROOT
from tests.unit.controlplane.conftest import client_of
from tests.unit.controlplane.specs import BY, checkpoint_report, spec_of

READABLE = re.findall(
    r"^  (/api/v1/\S*):\n    get:", (ROOT / "docs" / "openapi.yaml").read_text(encoding="utf-8"), re.MULTILINE
)


@pytest.fixture
def administrator(db: None) -> APIClient:
    return client_of("administrator")


def populate(topology: Topology, first: int, count: int) -> None:
    """Add rows of every kind, about `topology`, the first node or the first incident."""
    now = timezone.now()
    for number in range(first, first + count):
        node = Node.objects.create(name=f"extra-{number}", state=NodeState.ALIVE)
        incident = Incident.objects.create(number=number, detected_at=now, opened_at=now)
        earliest = Incident.objects.get(number=1)
        for one in {incident, earliest}:
            one.failed_nodes.add(node)
            one.topologies.add(topology)
            IncidentEntry.objects.create(incident=one, at=now, kind="step", text="x")
        RecoveryPlan.objects.create(
            topology=topology, incident=earliest, generation=100 + number, kind="recover"
        )
        NodeRequest.objects.create(
            key=f"k{number}", node_name="n", requested_at=now, due_at=now, incident=incident
        )
        NodeSample.objects.create(node=Node.objects.get(name="node-1"), at=now, cpu_percent=1.0)
        Problem.objects.create(topology=topology, at=now, where="x", what=f"y{number}")
        AvailabilitySample.objects.create(topology=topology, at=now, available=1, total=1, weighted=1)
        other = topology_create(spec=spec_of(f"other-{number}"), **BY)
        topology_deploy(name=other.name, **BY)
        Partition.objects.filter(topology=other).update(node=Node.objects.get(name="node-1"))
        checkpoint_apply(report=checkpoint_report(topology, checkpoint=number))
        AuthToken.objects.create(user=get_user_model().objects.get(username="administrator"))
        webhook_create(
            name=f"hook-{number}", url="https://hooks.example.org/x", kinds=[EventKind.TOPOLOGY_CREATED], **BY
        )
        topology_create(spec=spec_of(f"told-{number}"), **BY)
        silence_create(topology="counts", until=now + timedelta(hours=1), **BY)
        Alert.objects.create(
            rule=f"rule-{number}", metric="lag", comparison="above", threshold=30.0, topology="counts",
            state="firing", since=now,
        )  # fmt: skip
        Savepoint.objects.create(name=f"save-{number}", topology="counts", requested_by="ada")
        AlertRule.objects.create(
            name=f"rule-{number}", metric="lag", comparison="above", threshold=1.0, held=0.0
        )


def address(path: str) -> str:
    """`path` with the names of existing rows; a new parameter needs a value here."""
    webhook = Webhook.objects.order_by("pk")[0]
    rows: dict[str, Any] = {
        "audit": AuditEntry.objects,
        "deliveries": webhook.deliveries,
        "operations": Operation.objects,
        "problems": Problem.objects,
        "webhooks": Webhook.objects,
        "alerts": Alert.objects,
        "silences": Silence.objects,
    }
    values: dict[str, Any] = {
        "topology": "counts",
        "query": "O0[0]",
        "operator": "O0",
        "rack": "rack-a",
        "number": 1,
        "webhook": webhook.pk,
        "epoch": 1,
    }
    named = {"nodes": "node-1", "alert-rules": "lag-high", "savepoints": "save-1"}
    values["name"] = named.get(path.removeprefix("/api/v1/").partition("/")[0], "counts")
    collection = path.split("/{id}/")[0].rpartition("/")[2]
    if collection in rows:
        values["id"] = rows[collection].order_by("pk")[0].pk
    return path.format(**values)


def queries_of(client: APIClient, path: str) -> list[str]:
    selectors._remembered = None
    with CaptureQueriesContext(connection) as queries:
        response = client.get(address(path))
    # The query that is asked for has no results; it is looked for like any other.
    assert response.status_code == (404 if path.endswith("/results/") else 200), path
    captured: list[dict[str, str]] = queries.captured_queries
    return [query["sql"] for query in captured if query["sql"] not in ("", "BEGIN", "COMMIT")]


def test_the_number_of_queries_does_not_grow(administrator: APIClient, topology: Topology) -> None:
    populate(topology, 1, 2)
    administrator.get("/api/v1/me/")  # reads and keeps the user
    few = {path: len(queries_of(administrator, path)) for path in READABLE}
    populate(topology, 3, 4)
    many = {path: len(queries_of(administrator, path)) for path in READABLE}
    assert many == few
    assert len(few) > 25
    assert max(few.values()) <= 37


def test_nothing_parses_specifications(administrator: APIClient, topology: Topology) -> None:
    """Parsing takes milliseconds, a thousand times in a list; as text, JSON is shown as it is stored, and one
    key of it is taken out by the database."""
    populate(topology, 1, 1)
    column = re.compile(r'(?<!JSON_TYPE\()(?<!JSON_EXTRACT\()"topologies_topology"\."spec"(?! AS text)')
    reading = {
        path: [sql for sql in queries_of(administrator, path) if column.search(sql)] for path in READABLE
    }
    # What writes one as YAML, or compares two, is asked for one topology, by who edits or deploys it.
    edited = {path for path in READABLE if path.endswith(("/specification/", "/continuation/"))}
    assert {path for path, found in reading.items() if found} == edited
