"""Going back to a checkpoint: what cannot be carried out is refused, when it is asked for or in the end."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from controlplane.checkpoints.models import Checkpoint
from controlplane.errors import Conflict
from controlplane.events.choices import OperationKind, OperationState
from controlplane.events.models import Operation
from controlplane.incidents.models import Incident
from controlplane.incidents.services import incident_advance, recover_now
from controlplane.lifecycle.nodes import nodes_lost
from controlplane.lifecycle.topologies import (
    topology_action,
    topology_deploy,
    topology_restore,
    topology_undeploy,
)
from controlplane.topologies.models import Topology
from domain.recovery.events import Looked
from tests.browser.coordinating import Alone
from tests.unit.controlplane.incidents.places import driver, newest, now
from tests.unit.controlplane.specs import BY
from workers.operations import operation_run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def stored(deployed: Topology) -> None:
    """`counts` has the checkpoints 10 and 20."""
    for epoch in (10, 20):
        Checkpoint.objects.create(
            topology=deployed,
            epoch=epoch,
            generation=1,
            state="completed",
            stored=True,
            started_at=timezone.now(),
            ended_at=timezone.now(),
        )


def restore(checkpoint: int) -> Operation:
    return topology_restore(name="counts", checkpoint=checkpoint, **BY)


def recover() -> Operation:
    return topology_action(kind=OperationKind.TOPOLOGY_RECOVER, name="counts", **BY)


def run(operation: Operation) -> Operation:
    coordination: Any = Alone()
    operation_run(coordination, str(operation.pk))
    operation.refresh_from_db()
    return operation


def look(*events: Any) -> None:
    incident_advance(number=1, events=[*events, Looked(at=now().timestamp())])


def test_a_restore_is_carried_out(deployed: Topology) -> None:
    assert run(restore(10)).state == OperationState.SUCCEEDED
    assert (newest().kind, newest().checkpoint) == ("restore", 10)


def test_checkpoints_after_it_are_undone_when_the_driver_goes_back(deployed: Topology) -> None:
    run(restore(10))
    look(*driver(2, "running"))
    assert newest().state in ("applied", "verified")
    found = Checkpoint.objects.order_by("epoch").values_list("epoch", "state", "stored")
    assert list(found) == [(10, "completed", True), (20, "undone", False)]


def test_a_second_restore_of_two_fails(deployed: Topology) -> None:
    first, second = restore(10), restore(20)
    assert run(first).state == OperationState.SUCCEEDED
    assert run(second).state == OperationState.FAILED
    assert second.error.startswith("plan 2 of topology 'counts' is under way in incident 1")
    assert (newest().generation, newest().checkpoint) == (2, 10)


def test_a_restore_after_a_recovery_fails(deployed: Topology) -> None:
    first, second = recover(), restore(10)
    assert run(first).state == OperationState.SUCCEEDED
    assert run(second).state == OperationState.FAILED
    assert (newest().generation, newest().checkpoint) == (2, 20)


def test_a_recovery_that_is_asked_for_twice_succeeds(deployed: Topology) -> None:
    first, second = recover(), recover()
    assert [run(first).state, run(second).state] == [OperationState.SUCCEEDED] * 2
    assert newest().generation == 2


def test_a_restore_fails_where_a_node_is_lost_meanwhile(deployed: Topology) -> None:
    operation = restore(10)
    nodes_lost(evidence={"node-1": "its registration is gone"}, at=now())
    assert run(operation).state == OperationState.FAILED
    assert operation.error == "partitions of topology 'counts' are down: recover it first"


def test_a_restore_fails_where_partitions_stayed_down(deployed: Topology) -> None:
    operation = restore(10)
    nodes_lost(evidence={"node-1": "its registration is gone"}, at=now())
    Incident.objects.update(state="aborted")
    assert run(operation).error == "partitions of topology 'counts' are down: recover it first"
    assert Incident.objects.count() == 1, "nothing is opened for it"


def test_a_restore_is_refused_until_the_plan_before_is_verified(deployed: Topology) -> None:
    run(recover())
    look(*driver(2, "running"))
    assert Incident.objects.get().state == "verifying"
    Topology.objects.update(status="running")
    with pytest.raises(Conflict, match="plan 2 of topology 'counts' is under way in incident 1"):
        restore(10)
    assert not Operation.objects.filter(kind=OperationKind.TOPOLOGY_RESTORE).exists()
    look(*driver(2, "running", 60))
    Topology.objects.update(status="running")
    assert run(restore(10)).state == OperationState.SUCCEEDED
    assert newest().checkpoint == 10


def test_a_restore_and_its_note_are_one_transaction(
    deployed: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = restore(10)

    def stop(**given: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("workers.operations.operation_start", stop)
        with pytest.raises(KeyboardInterrupt):
            run(operation)
    assert not Incident.objects.exists()
    assert run(operation).state == OperationState.SUCCEEDED


def test_an_incident_that_cannot_be_read_does_not_fail_the_request(deployed: Topology) -> None:
    recover_now(topology="counts", actor="kim", reason="wrong output")
    Incident.objects.get().entries.update(data={"fact": "unheard of"})
    assert restore(10).state == OperationState.PENDING


def deploy_again() -> None:
    topology_undeploy(name="counts", **BY)
    Topology.objects.update(status="stopped")
    topology_deploy(name="counts", **BY)
    Topology.objects.update(status="running")
    for epoch in (10, 20):
        Checkpoint.objects.create(
            topology=Topology.objects.get(), epoch=epoch, generation=2, state="completed", stored=True,
            started_at=timezone.now(), ended_at=timezone.now(),
        )  # fmt: skip


def test_a_restore_that_was_asked_for_before_another_deployment_fails(deployed: Topology) -> None:
    operation = restore(10)
    deploy_again()
    assert run(operation).state == OperationState.FAILED
    assert "was deployed again" in operation.error
    assert newest().kind == "deploy"


def test_a_restore_that_waited_while_it_was_deployed_again_is_forgotten(deployed: Topology) -> None:
    recover_now(topology="counts", actor="kim", reason="wrong output", checkpoint=10)
    deploy_again()
    nodes_lost(evidence={"node-1": "its registration is gone"}, at=now())
    look()
    assert (newest().kind, newest().checkpoint) == ("recover", 20), "its checkpoint 10 is another one"
