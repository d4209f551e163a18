"""A deployed topology on four nodes."""

from __future__ import annotations

import pytest

from controlplane.events.choices import Channel
from controlplane.incidents.plans import plan_mark_applied
from controlplane.lifecycle.nodes import node_register
from controlplane.lifecycle.topologies import topology_deploy
from controlplane.topologies.models import Topology
from controlplane.topologies.services import topology_create
from tests.unit.controlplane.incidents.places import now, registration
from tests.unit.controlplane.specs import spec_of


@pytest.fixture
def deployed(db: None) -> Topology:
    """`counts` on node-1 to node-4, running under plan 1."""
    for number in range(1, 5):
        node_register(registration=registration(f"node-{number}"), at=now())
    topology_create(spec=spec_of(), actor="ada", reason="test", channel=Channel.CLI)
    topology_deploy(name="counts", actor="ada", reason="test", channel=Channel.CLI)
    topology = Topology.objects.get(name="counts")
    topology.status = "running"
    topology.save()
    plan_mark_applied(topology="counts", generation=topology.generation)
    return topology
