"""A deployed topology on four nodes, and a ZooKeeper that is a dictionary."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.events import tasks
from controlplane.events.choices import Door
from controlplane.incidents.plans import plan_mark_applied
from controlplane.nodes.services import node_register
from controlplane.topologies.lifecycle import topology_deploy
from controlplane.topologies.models import Topology
from controlplane.topologies.services import topology_create
from tests.unit.controlplane.specs import spec_of
from tests.unit.workers.places import now, registration


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What would have gone to Celery."""
    messages: list[tuple[Any, ...]] = []
    monkeypatch.setattr(tasks, "task_send", lambda name, *arguments: messages.append((name, *arguments)))
    return messages


@pytest.fixture
def deployed(db: None) -> Topology:
    """`counts` on node-1 to node-4, running under plan 1."""
    for number in range(1, 5):
        node_register(registration=registration(f"node-{number}"), at=now())
    topology_create(spec=spec_of(), actor="ada", reason="test", door=Door.CLI)
    topology_deploy(name="counts", actor="ada", reason="test", door=Door.CLI)
    topology = Topology.objects.get(name="counts")
    topology.status = "running"
    topology.save()
    plan_mark_applied(topology="counts", generation=topology.generation)
    return topology
