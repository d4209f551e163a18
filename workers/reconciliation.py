"""Making ZooKeeper what the database says it must be, and telling incidents what ZooKeeper says."""

from __future__ import annotations

import msgspec
import structlog
from django.utils import timezone

from controlplane.checkpoints.choices import CheckpointState
from controlplane.checkpoints.models import Checkpoint
from controlplane.checkpoints.services import checkpoint_catch_up
from controlplane.incidents.applying import StalePlan
from controlplane.incidents.choices import PlanState
from controlplane.incidents.loading import deploy_generations, deployed_topologies, deployment_at
from controlplane.incidents.models import Incident, RecoveryPlan
from controlplane.incidents.plans import plan_adopt, plan_mark_applied, plan_mark_published, plan_own
from controlplane.incidents.selectors import placed_since_deploy, plan_standing
from controlplane.incidents.services import incident_advance
from controlplane.lifecycle.placing import topology_place_if_unplaced
from controlplane.replication.models import ReplicaPlacement
from controlplane.topologies.choices import Desired, TopologyStatus
from controlplane.topologies.former import former_uncleared, names_uncleared
from controlplane.topologies.installation import installation_id
from controlplane.topologies.models import Topology
from controlplane.topologies.reports import UnknownPlanError
from controlplane.topologies.telemetry import driver_gone, driver_status_apply, topology_stopped
from coordination.paths import Paths
from domain.messages import Control, DeployedSpec, Plan, Replicas
from domain.recovery.events import (
    CheckpointCompleted,
    DriverReported,
    Event,
    PlanPublished,
    PlanRefused,
    TopologyWithdrawn,
)
from domain.recovery.incident import APPLIED_STATES
from workers.foreign import foreign_refuse
from workers.quarantine import quarantine
from workers.settled import spec_wanted
from workers.zookeeper import TopologyFacts, WorkerSession

log = structlog.get_logger(__name__)

REPORTED_WITHIN = 10.0
"""Seconds within which the report of a complete checkpoint should have come."""
STEPS = 5  # a step may make the next one possible at once; more than these wait for the sweep
OVERTAKEN = 2
"""Plans that something else has made stale, one after another; after these, one is made while nothing else
can be written."""


# ---- incidents -----------------------------------------------------------------------------------


def incident_step(coordination: WorkerSession, number: int) -> None:
    """Move one incident on as far as it goes now. Idempotent; a crash anywhere is made good by a repeat."""
    incident = Incident.objects.filter(number=number).first()
    if incident is None:
        return
    overtaken = 0
    for _ in range(STEPS):
        names = sorted(incident.topologies.values_list("name", flat=True))
        published = [event for name in names for event in plan_put(coordination, name)]
        facts = coordination.topology_facts(set(names) - names_uncleared())
        acting = dict(Topology.objects.filter(name__in=names).values_list("name", "acting"))
        for name, fact in facts.items():
            # Plans are made of where partitions are. One that was given back acts nowhere any more.
            if fact.driver is not None and fact.driver.acting != acting.get(name, {}):
                driver_reconcile(fact)
        observed = observations(facts)
        events = [*published, *observed, *withdrawals(names)]
        try:
            applied = incident_advance(number=number, events=events, ahead=overtaken < OVERTAKEN)
        except StalePlan as error:
            overtaken += 1
            log.info("planned on old information, looking again", incident=number, error=str(error))
            continue
        for topology in applied.checkpoint:
            checkpoint_ask(coordination, topology)
        if not applied.publish:
            return


def observations(facts: dict[str, TopologyFacts]) -> list[Event]:
    """What ZooKeeper says, as events for an incident; checkpoints of earlier runs are left out."""
    at = timezone.now().timestamp()
    since = deploy_generations()
    ids = dict(Topology.objects.filter(name__in=facts).values_list("name", "pk"))
    checkpoints: list[Event] = []
    drivers: list[Event] = []
    for name, fact in sorted(facts.items()):
        started_with = since.get(ids.get(name, 0), 0)
        if fact.latest is not None and fact.latest.generation >= started_with:
            checkpoints.append(
                CheckpointCompleted(
                    at=at,
                    topology=name,
                    checkpoint=fact.latest.checkpoint,
                    generation=fact.latest.generation,
                )
            )
        if fact.driver is not None:
            drivers.append(
                DriverReported(
                    at=at,
                    topology=name,
                    generation=fact.driver.generation,
                    state=fact.driver.state,
                    head=fact.driver.head,
                    committed=fact.driver.committed,
                    # The driver's own number may be of the plan it restored from; the pointer is the proof.
                    checkpoint=0,
                    absent=frozenset(fact.driver.absent),
                    behind=frozenset(fact.driver.behind),
                    refused=fact.driver.refused,
                    restorable=frozenset(fact.driver.restorable),
                    load=fact.driver.load,
                    catch_up=fact.driver.catch_up,
                    not_gaining=fact.driver.not_gaining,
                    acting=fact.driver.acting,
                    standing={p: one.node for p, one in fact.driver.shadows.items() if one.ready},
                    tentative={query: one.fidelity for query, one in fact.driver.tentative.items()},
                )
            )
    # Checkpoints come last: a driver that has just caught up may be verified by one that is complete.
    return [*drivers, *checkpoints]


def withdrawals(names: list[str]) -> list[Event]:
    """Topologies that are not to run any more, so that there is nothing to recover of them."""
    at = timezone.now().timestamp()
    deployed = set(deployed_topologies().filter(name__in=names).values_list("name", flat=True))
    reasons = {
        topology.name: "it has run to its end"
        if topology.status == TopologyStatus.COMPLETED
        else "it was undeployed"
        for topology in Topology.objects.filter(name__in=names)
    }
    return [
        TopologyWithdrawn(at=at, topology=name, reason=reasons.get(name, "it was deleted"))
        for name in names
        if name not in deployed
    ]


def checkpoint_ask(coordination: WorkerSession, topology: str, *, again: int = 0) -> int:
    """Ask the driver for a checkpoint; returns the number of the request. `again`: the number of one that is
    open, for a ZooKeeper that has lost it."""

    def raised(control: Control) -> Control:
        number = max(control.checkpoint_request, again) if again else control.checkpoint_request + 1
        return msgspec.structs.replace(control, checkpoint_request=number)

    return coordination.control_change(topology, raised).checkpoint_request


# ---- specifications and plans --------------------------------------------------------------------


def topology_reconcile(coordination: WorkerSession, name: str) -> None:
    """Put the specification and the standing plan of a topology into ZooKeeper, unless they are there."""
    topology = Topology.objects.filter(name=name).first()
    if topology is None or former_uncleared(name):
        return
    if topology.desired == Desired.RUNNING and not placed_since_deploy(topology):
        topology_place_if_unplaced(topology)
        topology.refresh_from_db()
        if topology.plans.exists() and not placed_since_deploy(topology):
            return  # with the new specification a driver would go on by the plan of an earlier run
    wanted = spec_wanted(topology)
    current = coordination.get(Paths.spec(name), DeployedSpec)
    if topology.desired == Desired.RUNNING:
        # The plan first: a driver that finds the specification must find the plan of the same run.
        for event in plan_put(coordination, name):
            if isinstance(event, PlanRefused):
                log.error("plan refused", topology=name, generation=event.generation, by=event.in_force)
        if former_uncleared(name):
            return
    if current is None and wanted.desired == "stopped":
        return
    if topology.status == TopologyStatus.PAUSED and coordination.get(Paths.control(name), Control) is None:
        coordination.put(Paths.control(name), Control(paused=True))  # before a driver finds that it is to run
    if current is None or current.value != wanted:
        coordination.put(Paths.spec(name), wanted)


def plan_put(coordination: WorkerSession, name: str) -> list[Event]:
    """Publish the standing plan if ZooKeeper has an older one; says how it went if that is news."""
    row = plan_standing(name)
    if row is None:
        return []
    plan = plan_of(row)
    in_force = coordination.plan_publish(name, plan, own=lambda other: plan_own(name, other))
    if in_force != plan and not plan_own(name, in_force):
        foreign_refuse(name, in_force)
        return []
    if row.deploys and row.state == PlanState.PLANNED:
        # A pause belongs to the run in which it was asked for.
        coordination.control_change(name, lambda control: msgspec.structs.replace(control, paused=False))
    at = timezone.now().timestamp()
    if in_force.generation > plan.generation:
        plan_adopt(topology=name, plan=in_force)
        if row.state != PlanState.PLANNED:
            return []
        return [PlanRefused(at=at, topology=name, generation=plan.generation, in_force=in_force.generation)]
    if row.state != PlanState.PLANNED:
        return []
    if row.incident is None:
        plan_mark_published(topology=name, generation=plan.generation)
    log.info("plan published", topology=name, generation=plan.generation, plan_kind=plan.kind)
    return [PlanPublished(at=at, topology=name, generation=plan.generation)]


def replicas_put(coordination: WorkerSession, name: str) -> None:
    """Have ZooKeeper say which replicas there are to be, unless another database's plan is in force there."""
    row = ReplicaPlacement.objects.filter(topology__name=name).first()
    if row is None or former_uncleared(name):
        return
    plan = coordination.get(Paths.plan(name), Plan)
    if plan is None or not plan_own(name, plan.value):
        return
    wanted = Replicas(
        deployed=row.deployed,
        assignment=row.assignment,
        tentative=row.tentative,
        revision=row.revision,
        installation=installation_id(),
    )

    def newest(current: Replicas | None) -> Replicas:
        if current is None or current.installation != wanted.installation:
            return wanted
        return max(current, wanted, key=lambda one: (one.deployed, one.revision))

    if newest(coordination.replicas(name)) == wanted:
        coordination.change(Paths.replicas(name), Replicas, newest)


def plan_of(row: RecoveryPlan) -> Plan:
    """The plan as the driver reads it."""
    return Plan(
        generation=row.generation,
        kind=row.kind,
        assignment=row.assignment,
        incident=row.incident.number if row.incident is not None else None,
        wave=row.wave,
        method=row.method,
        rollback=row.rollback,
        checkpoint=row.checkpoint,
        restore=row.restore,
        acting=row.acting,
        stateless=row.stateless,
        divided=row.divided,
        buffering=row.buffering,
        deployed=deployment_at(row.topology_id, row.generation),
        reason=row.reason,
        installation=installation_id(),
    )


def driver_reconcile(facts: TopologyFacts) -> None:
    """Bring what the database says of a driver up to date with ZooKeeper: telemetry may have been lost."""
    _checkpoint_catch_up(facts)
    if facts.driver is not None:
        try:
            driver_status_apply(status=facts.driver)
        except UnknownPlanError as error:
            quarantine.refuse_znode(Paths.driver(facts.name), str(error))
            return
        if facts.driver.state in APPLIED_STATES:
            plan_mark_applied(topology=facts.name, generation=facts.driver.generation)
    else:
        driver_gone(name=facts.name)
        topology_stopped(name=facts.name)


def _checkpoint_catch_up(facts: TopologyFacts) -> None:
    """Take the newest checkpoint from ZooKeeper where its report should have come by now. What a topology
    leaves as it stops is known before it has stopped: another version may go on from it at once."""
    newest = facts.latest
    if newest is None:
        return
    stops = facts.driver is None or facts.driver.state == "stopped"
    if not stops and timezone.now().timestamp() - newest.completed_at < REPORTED_WITHIN:
        return
    complete = Checkpoint.objects.filter(state=CheckpointState.COMPLETED, epoch=newest.checkpoint)
    if complete.filter(topology__name=facts.name).exists():  # asked before: a transaction stops other writers
        return
    topology = Topology.objects.filter(name=facts.name).first()
    if topology is not None and placed_since_deploy(topology):
        since = deployment_at(topology.pk, topology.generation)
        try:
            checkpoint_catch_up(topology=facts.name, newest=newest, since=since)
        except UnknownPlanError as error:
            quarantine.refuse_znode(Paths.latest_checkpoint(facts.name), str(error))
