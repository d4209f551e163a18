"""Fixtures of the control plane's tests: users by role, nodes, and a small topology."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from rest_framework.test import APIClient

import workers.tasks
from controlplane.events import tasks
from controlplane.events.choices import Channel
from controlplane.nodes.choices import NodeState
from controlplane.nodes.models import Node
from controlplane.results import asking
from controlplane.topologies.models import Topology
from controlplane.topologies.services import topology_create
from coordination.session import CoordinationUnavailableError
from tests.unit.controlplane.specs import spec_of
from workers.zookeeper import WorkerSession


@pytest.fixture(autouse=True)
def sent_tasks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Collects the tasks that would be sent to Celery, so that tests need no broker."""
    sent: list[tuple[Any, ...]] = []
    monkeypatch.setattr(tasks, "task_send", lambda name, *arguments: sent.append((name, *arguments)))
    return sent


@pytest.fixture(autouse=True)
def patient_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside other tests, even a small reading process may take long."""
    monkeypatch.setattr(asking, "SECONDS", 300.0)


@pytest.fixture
def no_zookeeper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of workers find none, at once."""

    def coordination() -> WorkerSession:
        raise CoordinationUnavailableError("there is none")

    monkeypatch.setattr(workers.tasks, "coordination", coordination)


@pytest.fixture
def nodes(db: None) -> list[Node]:
    return [
        Node.objects.create(
            name=f"node-{number}",
            address=f"127.0.1.{number}",
            rack="rack-a" if number % 2 else "rack-b",
            slots=2,
            state=NodeState.ALIVE,
        )
        for number in (1, 2, 3, 4)
    ]


@pytest.fixture
def topology(nodes: list[Node]) -> Topology:
    return topology_create(spec=spec_of(), actor="ada", reason="test", channel=Channel.CLI)


def user_of(role: str | None) -> Any:
    user = get_user_model().objects.create_user(role or "roleless", password="secret-for-tests")
    if role:
        user.groups.add(Group.objects.get(name=role))
    return user


def client_of(role: str | None) -> APIClient:
    client = APIClient()
    client.force_authenticate(user_of(role))
    return client


@pytest.fixture
def viewer(db: None) -> APIClient:
    return client_of("viewer")


@pytest.fixture
def operator(db: None) -> APIClient:
    return client_of("operator")


@pytest.fixture
def roleless(db: None) -> APIClient:
    return client_of(None)
