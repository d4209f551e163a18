"""What happens to plans besides the steps of an incident: deployments, and plans found in ZooKeeper."""

from __future__ import annotations

import structlog
from django.utils import timezone

from controlplane.checkpoints.services import checkpoint_restored
from controlplane.events.choices import EventKind
from controlplane.events.representation import Change
from controlplane.events.services import event_publish, writing
from controlplane.incidents.choices import PlanKind, PlanState
from controlplane.incidents.models import RecoveryPlan
from controlplane.incidents.plan_states import plan_move
from controlplane.incidents.representation import plan_change
from controlplane.topologies.installation import installation_id
from controlplane.topologies.models import Topology
from controlplane.topologies.representation import topology_change
from domain.messages import Plan

FOUND = "found in ZooKeeper, ahead of the database"
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


def plan_own(topology: str, plan: Plan) -> bool:
    """Whether a plan in ZooKeeper is of this database, or of the backup that it was restored from. One of a
    version that did not say so is, if the plan is known."""
    if plan.installation:
        return plan.installation == installation_id()
    known = RecoveryPlan.objects.filter(topology__name=topology, generation=plan.generation).first()
    return known is not None and known.assignment == plan.assignment


@writing
def plan_adopt(*, topology: str, plan: Plan) -> None:
    """Record a plan found in ZooKeeper that is ahead of the database (one restored from a backup), and when
    the topology was deployed last: that identifies the deployment whose state, checkpoints and outputs are
    in use. One that is known got there before it could be recorded, and may have been dropped meanwhile."""
    row = Topology.objects.select_for_update().get(name=topology)
    if row.generation >= plan.generation:
        _published_after_all(row, plan.generation)
        return
    log.warning("plan adopted from zookeeper", topology=topology, generation=plan.generation)
    row.generation = plan.generation
    row.save(update_fields=["generation", "updated_at"])
    changes: list[Change] = []
    if 0 < plan.deployed < plan.generation:
        deployment, created = RecoveryPlan.objects.get_or_create(
            topology=row,
            generation=plan.deployed,
            defaults={"kind": PlanKind.DEPLOY, "method": plan.method, "reason": FOUND},
        )
        if created and plan_move(deployment, PlanState.SUPERSEDED, at=timezone.now()):
            changes.append(plan_change(deployment, topology=topology, incident=None))
    adopted = RecoveryPlan.objects.create(
        topology=row,
        generation=plan.generation,
        kind=plan.kind,
        method=plan.method,
        rollback=plan.rollback,
        checkpoint=plan.checkpoint,
        assignment=plan.assignment,
        restore=plan.restore,
        acting=plan.acting,
        buffering=plan.buffering,
        from_savepoint=plan.kind == "restore" and plan.deployed == plan.generation,
        reason=FOUND,
    )
    plan_move(adopted, PlanState.PUBLISHED, at=timezone.now())
    event_publish(
        kind=EventKind.PLAN_PUBLISHED,
        topology=topology,
        changes=[
            topology_change(row, only=("generation",)),
            *changes,
            plan_change(adopted, topology=topology, incident=None),
        ],
        reason=adopted.reason,
    )


def _published_after_all(topology: Topology, generation: int) -> None:
    plans = RecoveryPlan.objects.select_related("incident")
    row = plans.filter(topology=topology, generation=generation, published_at=None).first()
    if row is None:
        return
    row.published_at = timezone.now()
    row.save(update_fields=["published_at"])
    event_publish(
        kind=EventKind.PLAN_PUBLISHED,
        topology=topology.name,
        incident=row.incident and row.incident.number,
        changes=[plan_change(row, topology=topology.name, incident=row.incident and row.incident.number)],
        reason="it was published before it was dropped",
    )


@writing
def plan_mark_applied(*, topology: str, generation: int) -> bool:
    """The driver runs a deployment plan: it is applied and needs no verification."""
    plans = RecoveryPlan.objects.filter(topology__name=topology, generation=generation, incident=None)
    plan = plans.select_related("topology").first()
    now = timezone.now()
    if plan is None or not plan_move(plan, PlanState.APPLIED, at=now):
        return False
    restored: list[Change] = []
    if plan.kind == PlanKind.RESTORE:
        restored = checkpoint_restored(topology=plan.topology, epoch=plan.checkpoint, at=now)
    event_publish(
        kind=EventKind.PLAN_APPLIED,
        topology=topology,
        changes=[plan_change(plan, topology=topology, incident=None), *restored],
    )
    return True
