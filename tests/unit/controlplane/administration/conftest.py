"""Rows for all pages of the admin site, and a browser for each role."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone

from controlplane.accounts.services import token_create
from controlplane.alerts.models import Alert, Evaluation
from controlplane.alerts.silencing import silence_create
from controlplane.checkpoints.models import Savepoint
from controlplane.checkpoints.services import checkpoint_apply
from controlplane.events.choices import OperationKind
from controlplane.events.operations import operation_request
from controlplane.incidents.models import Incident, IncidentEntry, IncidentPrediction, RecoveryPlan
from controlplane.measurements.models import Measurement
from controlplane.nodes.models import Node, NodeRequest, NodeSample
from controlplane.replication.models import FidelityFigure, ReplicaPlacement
from controlplane.topologies.installation import installation_id
from controlplane.topologies.models import (
    AvailabilitySample,
    FlowRates,
    FormerTopology,
    Problem,
    TentativePeriod,
    Topology,
)
from controlplane.webhooks.deliveries import webhook_test
from controlplane.webhooks.models import DeliveryAttempt
from controlplane.webhooks.services import webhook_create
from tests.unit.controlplane.conftest import user_of
from tests.unit.controlplane.specs import BY, checkpoint_report

ROLES = ("viewer", "operator", "administrator")


@pytest.fixture
def browser(db: None) -> Callable[[str | None], Client]:
    """A browser in which a user with that role is signed in."""
    made: dict[str | None, Client] = {}

    def of(role: str | None) -> Client:
        if role not in made:
            made[role] = Client()
            made[role].force_login(user_of(role))
        return made[role]

    return of


@pytest.fixture
def everything(topology: Topology) -> Topology:
    """A row of every kind."""
    now = timezone.now()
    incident = Incident.objects.create(number=1, detected_at=now, opened_at=now)
    IncidentEntry.objects.create(incident=incident, at=now, kind="step", text="x")
    IncidentPrediction.objects.create(
        incident=incident, kind="incident", stage="nodes", raw=1.0,
        made_at=now, expected_at=now, low_at=now, high_at=now,
    )  # fmt: skip
    RecoveryPlan.objects.create(topology=topology, generation=1, kind="deploy")
    NodeRequest.objects.create(key="k", node_name="n", requested_at=now, due_at=now)
    Measurement.objects.create(
        kind="node",
        node=Node.objects.earliest("pk"),
        seconds=600,
        at=now,
        figures={"throttled": [1, 0, 0, 0]},
    )
    NodeSample.objects.create(node=Node.objects.earliest("pk"), at=now, cpu_percent=1.0)
    FormerTopology.objects.create(name="old", generation=4)
    installation_id()
    ReplicaPlacement.objects.create(topology=topology)
    FidelityFigure.objects.create(topology=topology, at=now, now=1.0)
    Alert.objects.create(
        rule="lag-high", metric="lag", comparison="above", threshold=30.0, severity="warning",
        topology="counts", state="firing", since=now,
    )  # fmt: skip
    Evaluation.objects.update(at=now)
    silence_create(topology="counts", until=now + timedelta(hours=1), **BY)
    Problem.objects.create(topology=topology, at=now, where="x", what="y")
    AvailabilitySample.objects.create(topology=topology, at=now, available=1, total=1, weighted=1)
    FlowRates.objects.create(topology=topology, at=now, given={}, pairs={"Source[0]": {"Parser": [3.0, 1.0]}})
    TentativePeriod.objects.create(
        topology=topology,
        query="O0[0]",
        generation=1,
        began_at=now,
        first_epoch=1,
        last_epoch=2,
        fidelity=0.5,
    )
    Savepoint.objects.create(name="before-v2", topology="counts", requested_by="ada", reason="test")
    checkpoint_apply(report=checkpoint_report(topology))
    operation_request(kind=OperationKind.TOPOLOGY_CHECKPOINT, target="counts", **BY)
    webhook, _ = webhook_create(
        name="pager", url="https://hooks.example.org/T0/s3cret", kinds=["node.lost"], **BY
    )
    delivery = webhook_test(webhook_id=webhook.pk, **BY)
    DeliveryAttempt.objects.create(delivery=delivery, number=1, started_at=now, status=500, error="no")
    owner = get_user_model().objects.create_user("owner", password="secret-for-tests")
    token_create(user=owner, lifetime=None, **BY)
    return topology


def errors_of(answer: Any) -> str:
    """The text of every error on a page."""
    page = answer.content.decode()
    found = re.findall(r'<ul class="errorlist[^>]*>(.*?)</ul>', page, re.S)
    found += re.findall(r'<li class="error">(.*?)</li>', page, re.S)
    return " ".join(re.sub(r"<[^>]+>", " ", text) for text in found)
