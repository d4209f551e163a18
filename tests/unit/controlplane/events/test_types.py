"""The front end's types have the fields that the snapshot sends, no more and no fewer."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.utils import timezone

from controlplane.checkpoints.models import Checkpoint
from controlplane.events.choices import Channel, OperationKind
from controlplane.events.operations import operation_request
from controlplane.incidents.models import Incident, IncidentEntry
from controlplane.lifecycle.topologies import topology_deploy
from controlplane.nodes.models import Node
from controlplane.topologies.models import AvailabilitySample, Problem, Topology
from host.environment import ROOT
from tests.unit.controlplane.following import snapshot_read

TYPES = (ROOT / "dashboard" / "frontend" / "src" / "lib" / "types.ts").read_text()
BY: dict[str, Any] = {"actor": "ada", "reason": "a test", "channel": Channel.REST}


def fields(interface: str) -> set[str]:
    """The names of its direct members."""
    found = re.search(rf"^export interface {interface} {{\n(.*?)^}}", TYPES, re.MULTILINE | re.DOTALL)
    assert found, f"types.ts has no interface {interface}"
    return set(re.findall(r"^  (\w+)\??:", found[1], re.MULTILINE))


@pytest.mark.django_db
def test_types_have_the_fields_of_the_snapshot(topology: Topology, nodes: list[Node]) -> None:
    now = timezone.now()
    topology_deploy(name="counts", **BY)
    operation_request(kind=OperationKind.TOPOLOGY_RECOVER, target="counts", **BY)
    incident = Incident.objects.create(number=1, detected_at=now, opened_at=now)
    IncidentEntry.objects.create(incident=incident, at=now, kind="step", text="Asked for a node.")
    Checkpoint.objects.create(topology=topology, epoch=4, started_at=now)
    Problem.objects.create(topology=topology, at=now, where="O0", what="it broke")
    AvailabilitySample.objects.create(topology=topology, at=now, available=1, total=1, weighted=1.0)
    kinds = re.search(r"export interface EntityTypes {\n(.*?)}", TYPES, re.DOTALL)
    assert kinds
    interfaces = dict(re.findall(r"(\w+): (\w+);", kinds[1]))
    entities = snapshot_read()["entities"]
    assert interfaces.keys() == entities.keys()
    for kind, rows in entities.items():
        assert rows, f"no row of {kind} to compare with"
        for row in rows.values():
            assert fields(interfaces[kind]) == row.keys(), kind
