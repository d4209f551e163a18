"""The `refusals` of topologies, nodes, checkpoints and incidents have the words of the later refusal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.accounts.users import user_create
from controlplane.checkpoints.models import Checkpoint
from controlplane.errors import Conflict
from controlplane.events.choices import Channel, OperationKind, OperationState
from controlplane.events.models import Operation
from controlplane.incidents.actions import incident_action
from controlplane.incidents.choices import IncidentState
from controlplane.incidents.models import Incident
from controlplane.lifecycle.forgetting import node_forget
from controlplane.lifecycle.savepoints import savepoint_request
from controlplane.lifecycle.topologies import (
    topology_action,
    topology_deploy,
    topology_restore,
    topology_undeploy,
)
from controlplane.nodes.actions import node_action
from controlplane.nodes.choices import NodeState
from controlplane.nodes.models import Node
from controlplane.topologies.choices import Desired, Guarantee, TopologyStatus
from controlplane.topologies.models import Topology
from controlplane.topologies.permitted import RULES
from controlplane.topologies.services import topology_delete, topology_update
from tests.unit.controlplane.following import snapshot_read
from tests.unit.controlplane.specs import spec_of

pytestmark = pytest.mark.django_db

BY: dict[str, Any] = {"actor": "ada", "reason": "a test", "channel": Channel.REST}


def told(kind: str, key: str) -> dict[str, str]:
    refusals: dict[str, str] = snapshot_read()["entities"][kind][key]["refusals"]
    return refusals


def refused(act: Callable[[], object]) -> str:
    """The words with which a service refuses; "" if it does not."""
    try:
        act()
    except Conflict as error:
        return str(error)
    return ""


@pytest.mark.parametrize("action", sorted(RULES))
@pytest.mark.parametrize("desired", Desired)
@pytest.mark.parametrize("guarantee", Guarantee)
def test_a_topology_tells_what_its_services_refuse(
    topology: Topology, nodes: list[Node], action: str, desired: Desired, guarantee: Guarantee
) -> None:
    Checkpoint.objects.create(
        topology=topology, epoch=4, state="completed", stored=True, started_at=timezone.now()
    )
    names, widths = map("savepoint-{}".format, count()), count(3)
    services: dict[str, Callable[[], object]] = {
        "deploy": lambda: topology_deploy(name="counts", **BY),
        "undeploy": lambda: topology_undeploy(name="counts", **BY),
        "restore": lambda: topology_restore(name="counts", checkpoint=4, **BY),
        "update": lambda: topology_update(name="counts", spec=spec_of(parallelism=next(widths)), **BY),
        "delete": lambda: topology_delete(name="counts", **BY),
        "savepoint": lambda: savepoint_request(topology="counts", name=next(names), **BY),
    }
    kind = f"topology.{action}"
    service = services.get(action) or (lambda: topology_action(kind=OperationKind(kind), name="counts", **BY))
    for status in TopologyStatus:
        stored = Topology.objects.filter(name="counts")
        if not stored.update(status=status, desired=desired, guarantee=guarantee):
            break  # deleted, as permitted
        assert told("topology", "counts").get(action, "") == refused(service), f"{action} when {status}"
        Operation.objects.update(state=OperationState.SUCCEEDED)  # one that is open may refuse the next


@pytest.mark.parametrize("state", NodeState)
def test_a_node_tells_what_it_refuses(nodes: list[Node], state: NodeState) -> None:
    Node.objects.filter(name="node-1").update(state=state)
    refusals = told("node", "node-1")
    assert "fault injection is off" in refusals.pop("fail")
    for action in ("drain", "activate"):
        kind = OperationKind(f"node.{action}")
        assert refusals.get(action, "") == refused(partial(node_action, kind=kind, name="node-1", **BY))
    assert refusals.get("forget", "") == refused(partial(node_forget, name="node-1", **BY))


@pytest.mark.parametrize("state", IncidentState)
@pytest.mark.parametrize("paused", [True, False])
@pytest.mark.parametrize("proposals", [{}, {"counts": {"proposal": "counts-1-1"}}])
def test_an_incident_tells_what_it_refuses(
    topology: Topology, state: IncidentState, paused: bool, proposals: dict[str, Any]
) -> None:
    now = timezone.now()
    Incident.objects.create(
        number=1, detected_at=now, opened_at=now, state=state, paused=paused, proposals=proposals
    )
    refusals = told("incident", "1")
    for action in ("approve", "pause", "resume", "abort", "replan"):
        kind = OperationKind(f"incident.{action}")
        assert refusals.get(action, "") == refused(partial(incident_action, kind=kind, number=1, **BY)), (
            action
        )


def test_a_checkpoint_that_is_not_in_storage_says_so(topology: Topology) -> None:
    Topology.objects.update(status=TopologyStatus.RUNNING, desired=Desired.RUNNING)
    Checkpoint.objects.create(topology=topology, epoch=4, state="completed", started_at=timezone.now())
    why = told("checkpoint", "counts/4")["restore"]
    assert refused(lambda: topology_restore(name="counts", checkpoint=4, **BY)).startswith(why)


def test_rest_tells_of_single_rows_what_the_snapshot_tells(
    topology: Topology, nodes: list[Node], client: Client
) -> None:
    now = timezone.now()
    Incident.objects.create(number=1, detected_at=now, opened_at=now)
    Checkpoint.objects.create(topology=topology, epoch=4, state="completed", started_at=now)
    client.force_login(user_create(username="eve", password="correct horse battery", role="viewer", **BY))
    for kind, key, path in (
        ("topology", "counts", "topologies/counts/"),
        ("node", "node-1", "nodes/node-1/"),
        ("incident", "1", "incidents/1/"),
        ("checkpoint", "counts/4", "topologies/counts/checkpoints/4/"),
    ):
        answer = client.get(f"/api/v1/{path}")
        assert answer.json()["refusals"] == told(kind, key) != {}, path
