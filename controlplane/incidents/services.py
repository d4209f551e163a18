"""Opening incidents and moving them on (write side).

Every service is one transaction: it locks the incident, rebuilds the state machine from the database,
feeds it events and carries out its instructions; plans are made before it. What has to happen in ZooKeeper
is returned and done by the caller after the commit; a crash in between is made good by the next step, which
finds the plan still `planned`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from itertools import groupby

import structlog
from django.db.models import Max, TextField
from django.db.models.functions import Cast
from django.utils import timezone

from controlplane.errors import Conflict, Missing
from controlplane.events.choices import EventKind
from controlplane.events.services import event_publish, writing
from controlplane.events.tasks import INCIDENT_STEP, task_send_on_commit
from controlplane.incidents.acting import placed
from controlplane.incidents.applying import Application, Applied, StalePlan
from controlplane.incidents.area import availability_area
from controlplane.incidents.choices import (
    INCIDENT_ENDED,
    IncidentState,
    IncidentTrigger,
)
from controlplane.incidents.forecasting import forecast_follow
from controlplane.incidents.grounds import Grounds, plan_grounds
from controlplane.incidents.loading import deployed_topologies, machine_load, plans_newest, queries_awaited
from controlplane.incidents.models import Incident, IncidentEntry
from controlplane.incidents.proposals import proposals_follow
from controlplane.incidents.representation import entry_change
from controlplane.incidents.restoring import deployment_named, restorable
from controlplane.incidents.selectors import incidents_open, placed_since_deploy
from controlplane.nodes.models import Node
from controlplane.topologies.choices import Desired, RecoveryMethod
from controlplane.topologies.graphs import graph_of_text
from controlplane.topologies.models import Query, Topology
from domain.availability import Milestones, milestones
from domain.recovery.events import (
    AbortAsked,
    AcceptAsked,
    DrainAsked,
    Event,
    Looked,
    NodesLost,
    PartitionsLost,
    QueriesAwaited,
    RebalanceAsked,
    RecoveryAsked,
)
from domain.recovery.facts import Lost
from domain.recovery.instructions import Instruction, Tell
from domain.recovery.machine import IncidentMachine
from domain.recovery.wording import duration
from domain.topology import partition_id

log = structlog.get_logger(__name__)

Thought = tuple[IncidentMachine, list[Instruction]]


@writing
def incident_open_or_grow(
    *, events: Iterable[Event], at: datetime, trigger: IncidentTrigger = IncidentTrigger.DETECTED
) -> Incident:
    """Record a failure (or a request): in the incident that is open, else in a new one.

    The first plan is left to the recovery worker, which is told after the commit and knows the newest
    checkpoints; this keeps the time from detection to record short.
    """
    happened = list(events)
    moves = all(isinstance(event, DrainAsked | RebalanceAsked) for event in happened)
    incident = incidents_open().select_for_update().first()
    opened = incident is None
    if incident is None:
        last = Incident.objects.aggregate(last=Max("number"))["last"] or 0
        incident = Incident.objects.create(
            number=last + 1,
            trigger=trigger,
            method=RecoveryMethod.MOVE if moves else RecoveryMethod.BLOCKING,
            detected_at=at,
            opened_at=timezone.now(),
        )
    elif incident.method == RecoveryMethod.MOVE and not moves:
        incident.method = RecoveryMethod.BLOCKING
    _step(incident, happened, may_plan=False, opened=opened)
    task_send_on_commit(INCIDENT_STEP, incident.number)
    log.warning("incident opened" if opened else "incident grown", incident=incident.number)
    return incident


@writing
def partitions_lost(*, event: PartitionsLost, at: datetime) -> Incident | None:
    """Record partitions that are absent on living nodes; None if a newer plan has overtaken the report."""
    topology = deployed_topologies().filter(name=event.topology, generation=event.generation).first()
    if topology is None:
        return None
    return incident_open_or_grow(events=[event], at=at)


def incident_advance(
    *, number: int, events: Iterable[Event], may_plan: bool = True, ahead: bool = True
) -> Applied:
    """Take one step: feed what was observed and do what follows from it in the database.

    Returns what is left to do outside of it. An incident that has ended, or does not exist, needs nothing.
    ahead: plans are made before the transaction, because with hundreds of topologies other writers would
    wait for them longer than they do. Raises `StalePlan` when what they were made for has changed meanwhile,
    or a deployment got in between; nothing is changed then.
    """
    happened = list(events)
    if not (may_plan and ahead):
        return _advance(number, happened, may_plan=may_plan)
    incident = Incident.objects.filter(number=number).first()
    if incident is None or incident.state in INCIDENT_ENDED:
        return Applied()
    grounds = plan_grounds(incident)
    try:
        thought = _think(incident, happened, may_plan=True)
    except Exception as error:
        # What is read one after another may not fit together, where something was written in between.
        if not grounds.hold(plan_grounds(incident)):
            raise StalePlan(f"incident {number}: {error!r}") from error
        raise
    return _advance(number, happened, may_plan=True, thought=thought, grounds=grounds)


@writing
def _advance(
    number: int,
    events: list[Event],
    *,
    may_plan: bool,
    thought: Thought | None = None,
    grounds: Grounds | None = None,
) -> Applied:
    """thought: what follows, worked out before for these grounds."""
    incident = Incident.objects.select_for_update().filter(number=number).first()
    if incident is None or incident.state in INCIDENT_ENDED:
        return Applied()
    if grounds is not None and not grounds.hold(plan_grounds(incident)):
        raise StalePlan(f"incident {number}: what was planned for has changed meanwhile; plan again")
    return _step(incident, events, may_plan=may_plan, opened=False, thought=thought)


def _think(incident: Incident, events: list[Event], *, may_plan: bool) -> Thought:
    """What follows from these events; nothing is written."""
    # An abort does not depend on what the incident remembers, and is the way out where that is damaged.
    aborting = bool(events) and all(isinstance(event, AbortAsked) for event in events)
    machine = machine_load(incident, may_plan=False, damaged=aborting)
    instructions = machine.handle_stimulus(*events)
    if may_plan:
        # Only now is everything known that was observed, whatever the order of the events.
        machine.may_plan = True
        instructions += machine.handle_stimulus(Looked(at=timezone.now().timestamp()))
    return machine, instructions


def _step(
    incident: Incident,
    events: list[Event],
    *,
    may_plan: bool,
    opened: bool,
    thought: Thought | None = None,
) -> Applied:
    machine, instructions = thought or _think(incident, events, may_plan=may_plan)
    application = Application(incident, timezone.now())
    if opened:
        application.kinds.add(EventKind.INCIDENT_OPENED)
    if any(isinstance(event, AcceptAsked) for event in events):
        _accept_latencies(incident)
    _involve_nodes(incident, events)
    _note_failed_queries(incident, events, instructions)
    application.carry_out(instructions)
    acting = {node for deployment in machine.deployments.values() for node in deployment.taken.values()}
    if acting:
        application.standbys_follow(acting)
    # After the instructions: what has just failed is not available, whatever its row said before.
    application.applied.changed |= _note_returned_queries(incident, application) or opened
    if incident.state not in INCIDENT_ENDED:
        awaited = QueriesAwaited(at=timezone.now().timestamp(), queries=frozenset(queries_awaited(incident)))
        application.carry_out(machine.handle_stimulus(awaited))
    proposals_follow(incident, machine)
    if may_plan or incident.state in INCIDENT_ENDED:
        # Before everything observed is known, plans are not made either.
        application.applied.changed |= forecast_follow(incident, machine, at=application.at)
    return application.finish()


def _accept_latencies(incident: Incident) -> None:
    """What gives results again has its present latency as its usual one: detection, which measures it, is
    told by the row."""
    if incident.state != IncidentState.CATCHING_UP:
        return
    incident.summary = {**incident.summary, "accepted": True}
    for topology, keys in groupby(sorted(queries_awaited(incident)), key=lambda key: key.partition("/")[0]):
        labels = {key.partition("/")[2] for key in keys}
        rows = Query.objects.filter(topology__name=topology).select_related("partition")
        found = [row.pk for row in rows if row.partition.label in labels]
        Query.objects.filter(pk__in=found).update(accept_latency=True)


# ---- what the operator sees of queries -----------------------------------------------------------


def _involve_nodes(incident: Incident, events: Iterable[Event]) -> None:
    names = {name for event in events if isinstance(event, NodesLost) for name in event.nodes}
    if names:
        incident.failed_nodes.add(*Node.objects.filter(name__in=names))


def _note_failed_queries(
    incident: Incident, events: Iterable[Event], instructions: Iterable[Instruction]
) -> None:
    """Remember which queries the failure took down, for the times to first, half and all of them. Losses that
    no event tells are found by the machine: replicas that acted on a lost node."""
    lost_nodes = {name for event in events if isinstance(event, NodesLost) for name in event.nodes}
    lost_partitions: defaultdict[str, set[str]] = defaultdict(set)
    for event in events:
        if isinstance(event, PartitionsLost):
            lost_partitions[event.topology] |= event.partitions
    for told in instructions:
        if isinstance(told, Tell) and isinstance(told.fact, Lost):
            for name, failed_there in told.fact.failed.items():
                lost_partitions[name].update(failed_there.partitions)
    if not lost_nodes and not lost_partitions:
        return
    failed = {name: set(labels) for name, labels in incident.summary.get("failed_queries", {}).items()}
    returned = dict(incident.summary.get("returned", {}))
    newest = plans_newest()
    deployed = deployed_topologies().defer("spec", "deployed_spec")
    for topology in deployed.annotate(spec_text=Cast("spec", TextField())):
        plan = newest.get(topology.name)
        if plan is None:
            continue
        partitions = {label for label, node in placed(plan, topology).items() if node in lost_nodes}
        partitions |= lost_partitions[topology.name]
        down = graph_of_text(topology.spec_text).failed_queries(partitions) if partitions else []
        if down:
            failed.setdefault(topology.name, set()).update(down)
            for label in down:
                returned.pop(f"{topology.name}/{label}", None)
    incident.summary = {
        **incident.summary,
        "failed_queries": {name: sorted(labels) for name, labels in failed.items()},
        "returned": returned,
    }
    # What was back and is lost again, in an incident that grows, is not back.
    _milestones_set(incident, _milestones(incident))
    incident.availability_area = availability_area(incident, failed)


def _milestones(incident: Incident) -> Milestones:
    """When the first, half and all of the queries that failed were back."""
    failed: Mapping[str, Collection[str]] = incident.summary.get("failed_queries", {})
    wanted = {f"{name}/{label}" for name, labels in failed.items() for label in labels}
    returned: Mapping[str, str] = incident.summary.get("returned", {})
    moments = [datetime.fromisoformat(at).timestamp() for key, at in returned.items() if key in wanted]
    return milestones(len(wanted), moments)


def _milestones_set(incident: Incident, reached: Milestones) -> None:
    incident.first_query_at = _moment(reached.first)
    incident.half_queries_at = _moment(reached.half)
    incident.all_queries_at = _moment(reached.all)


@writing
def incident_queries_note(*, number: int) -> None:
    """Note which failed queries are available again. Goes on after the incident has closed, because a
    query counts as available only when its latency has been normal for a while."""
    incident = Incident.objects.select_for_update().filter(number=number).first()
    if incident is None or incident.all_queries_at is not None:
        return
    application = Application(incident, timezone.now())
    application.applied.changed = _note_returned_queries(incident, application)
    application.finish()


def _note_returned_queries(incident: Incident, application: Application) -> bool:
    """Take note of failed queries that are available again; returns whether there were new ones."""
    failed: Mapping[str, Collection[str]] = incident.summary.get("failed_queries", {})
    wanted = {f"{name}/{label}" for name, labels in failed.items() for label in labels}
    returned: dict[str, str] = dict(incident.summary.get("returned", {}))
    waiting = wanted - returned.keys()
    if not waiting:
        return False
    queries = Query.objects.filter(topology__name__in=failed, available=True)
    if incident.closed_at is not None:  # what was deployed since has nothing to do with it
        queries = queries.filter(topology__deployed_at__lte=incident.closed_at)
    available = {
        f"{name}/{partition_id(operator, index)}"
        for name, operator, index in queries.values_list(
            "topology__name", "partition__operator", "partition__index"
        )
    }
    back = waiting & available
    if not back:
        return False
    for key in back:
        returned[key] = application.at.isoformat()
    incident.summary = {**incident.summary, "returned": returned}
    reached = _milestones(incident)
    since = incident.detected_at.timestamp()
    for what, at, before in (
        ("The first failed query is", reached.first, incident.first_query_at),
        ("Half of the failed queries are", reached.half, incident.half_queries_at),
        ("All failed queries are", reached.all, incident.all_queries_at),
    ):
        if at is not None and before is None:
            application.tell("outcome", f"{what} available again, {duration(at - since)} after detection.")
    _milestones_set(incident, reached)
    incident.availability_area = availability_area(incident, failed)
    return True


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC)


# ---- asked for by an operator --------------------------------------------------------------------


@writing
def recover_now(
    *, topology: str, actor: str, reason: str, checkpoint: int | None = None, deployed_at: str | None = None
) -> Incident:
    """Recover a topology with the nodes there are; if nothing is down, put it back to its newest checkpoint.

    checkpoint: put it back to this one of the deployment `deployed_at`, or raise `Conflict`. Raises `Missing`
    or `Conflict`.
    """
    row = Topology.objects.filter(name=topology).first()
    if row is None:
        raise Missing(f"there is no topology {topology!r}")
    if row.desired == Desired.RUNNING and not placed_since_deploy(row):
        raise Conflict(f"topology {topology!r} has not been placed yet: it waits for nodes, so add some")
    if not deployed_topologies().filter(pk=row.pk).exists():
        raise Conflict(f"topology {topology!r} is {row.status}: only a deployed one can be recovered")
    if checkpoint is not None:
        if deployed_at not in (None, deployment_named(row)):
            raise Conflict(
                f"topology {topology!r} was deployed again, and has other checkpoints: choose one of these"
            )
        restorable(topology)
    now = timezone.now()
    return incident_open_or_grow(
        events=[
            RecoveryAsked(
                at=now.timestamp(), topology=topology, actor=actor, reason=reason, checkpoint=checkpoint
            )
        ],
        at=now,
        trigger=IncidentTrigger.MANUAL,
    )


def drain_record(
    *, nodes: Iterable[str], actor: str, reason: str, trigger: IncidentTrigger = IncidentTrigger.MANUAL
) -> Incident:
    """Have everything moved off living nodes."""
    now = timezone.now()
    return incident_open_or_grow(
        events=[DrainAsked(at=now.timestamp(), node=node, actor=actor, reason=reason) for node in nodes],
        at=now,
        trigger=trigger,
    )


@writing
def story_add(*, number: int, kind: str, text: str, key: str) -> bool:
    """Add a sentence once (per `key`) to an incident that is open; False if it is there already."""
    incident = Incident.objects.select_for_update().filter(number=number).first()
    if incident is None or incident.state in INCIDENT_ENDED:
        return False
    entry, created = IncidentEntry.objects.get_or_create(
        incident=incident, key=key, defaults={"at": timezone.now(), "kind": kind, "text": text}
    )
    if created:
        event_publish(
            kind=EventKind.INCIDENT_UPDATED,
            incident=number,
            changes=[entry_change(entry, incident=number)],
            reason=text[:500],
        )
    return created
