"""A plan that was given up before it got into ZooKeeper, because its incident was aborted, says nothing of
where partitions are."""

from __future__ import annotations

import pytest

from controlplane.events.choices import OperationKind
from controlplane.incidents.actions import incident_order
from controlplane.incidents.loading import deployments_load, plans_newest
from controlplane.incidents.models import RecoveryPlan
from controlplane.incidents.services import recover_now
from controlplane.topologies.models import Topology
from domain.recovery.events import PlanPublished
from tests.unit.controlplane.incidents.places import driver, newest, now
from tests.unit.controlplane.incidents.test_services import look, lose

pytestmark = pytest.mark.django_db


def homes() -> dict[str, str]:
    return deployments_load(plans_newest())["counts"].assignment


@pytest.fixture
def planned(deployed: Topology) -> RecoveryPlan:
    Topology.objects.update(method="incremental")
    look(lose("node-1"), *driver(1, "degraded", 10))
    plan = newest()
    assert (plan.generation, plan.state) == (2, "planned")
    return plan


def abort() -> None:
    order = {"number": 1, "actor": "kim", "reason": "maintenance"}
    incident_order(kind=OperationKind.INCIDENT_ABORT, **order)  # type: ignore[arg-type]
    assert newest().state == "superseded"


def test_what_it_was_to_restore_is_down_and_is_restored_later(planned: RecoveryPlan) -> None:
    before = RecoveryPlan.objects.get(topology=planned.topology, generation=1)
    abort()
    assert homes() == before.assignment
    incident = recover_now(topology="counts", actor="kim", reason="maintenance is over")
    look(incident, *driver(1, "degraded", 10))
    again = newest()
    assert (again.generation, again.kind) == (3, "recover")
    assert set(again.restore) == set(planned.restore)
    assert "node-1" not in again.assignment.values()


def test_it_counts_where_a_driver_has_it(planned: RecoveryPlan) -> None:
    abort()
    Topology.objects.update(applied_generation=2)
    assert homes() == planned.assignment, "it was in ZooKeeper, and the coordinator could not say so"


def test_a_published_one_counts(planned: RecoveryPlan) -> None:
    incident = planned.incident
    assert incident is not None
    look(incident, PlanPublished(at=now().timestamp(), topology="counts", generation=2))
    abort()
    assert homes() == planned.assignment
