"""What happens to plans besides the steps of an incident: deployments, and plans found in ZooKeeper."""

from __future__ import annotations

import structlog
from django.utils import timezone

from controlplane.events.choices import EventKind
from controlplane.events.services import event_publish, writing
from controlplane.incidents.choices import PlanState
from controlplane.incidents.models import RecoveryPlan
from controlplane.incidents.plan_states import plan_move
from controlplane.incidents.representation import plan_change
from controlplane.topologies.models import Topology
from controlplane.topologies.representation import topology_change
from domain.messages import Plan

log = structlog.get_logger(__name__)


@writing
def plan_mark_published(*, topology: str, generation: int) -> bool:
    """A plan is in ZooKeeper. True if it was recorded now; plans of incidents are moved by their machine."""
    plan = (
        RecoveryPlan.objects.filter(topology__name=topology, generation=generation)
        .select_related("topology", "incident")
        .first()
    )
    if plan is None or not plan_move(plan, PlanState.PUBLISHED, at=timezone.now()):
        return False
    number = plan.incident.number if plan.incident is not None else None
    event_publish(
        kind=EventKind.PLAN_PUBLISHED,
        topology=topology,
        incident=number,
        changes=[plan_change(plan, topology=topology, incident=number)],
    )
    return True


@writing
def plan_adopt(*, topology: str, plan: Plan) -> None:
    """Record a plan found in ZooKeeper that is ahead of the database (one restored from a backup)."""
    row = Topology.objects.select_for_update().get(name=topology)
    if row.generation >= plan.generation:
        return
    log.warning("plan adopted from zookeeper", topology=topology, generation=plan.generation)
    row.generation = plan.generation
    row.save(update_fields=["generation", "updated_at"])
    adopted = RecoveryPlan.objects.create(
        topology=row,
        generation=plan.generation,
        kind=plan.kind,
        method=plan.method,
        rollback=plan.rollback,
        checkpoint=plan.checkpoint,
        assignment=plan.assignment,
        restore=plan.restore,
        buffering=plan.buffering,
        reason="found in ZooKeeper, ahead of the database",
    )
    plan_move(adopted, PlanState.PUBLISHED, at=timezone.now())
    event_publish(
        kind=EventKind.PLAN_PUBLISHED,
        topology=topology,
        changes=[
            topology_change(row, only=("generation",)),
            plan_change(adopted, topology=topology, incident=None),
        ],
        reason=adopted.reason,
    )


@writing
def plan_mark_applied(*, topology: str, generation: int) -> bool:
    """The driver runs a deployment plan: it is applied and needs no verification."""
    plan = RecoveryPlan.objects.filter(topology__name=topology, generation=generation, incident=None).first()
    if plan is None or not plan_move(plan, PlanState.APPLIED, at=timezone.now()):
        return False
    event_publish(
        kind=EventKind.PLAN_APPLIED,
        topology=topology,
        changes=[plan_change(plan, topology=topology, incident=None)],
    )
    return True
