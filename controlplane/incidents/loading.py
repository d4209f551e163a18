"""Building the incident state machine from the database; nothing else is remembered between steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings
from django.db.models import Case, Exists, F, Max, OuterRef, Q, QuerySet, Subquery, TextField, When
from django.db.models.functions import Cast

from controlplane.checkpoints.choices import CheckpointState
from controlplane.checkpoints.models import Checkpoint
from controlplane.incidents.acting import placed, taken_over
from controlplane.incidents.choices import INCIDENT_ENDED, PlanState
from controlplane.incidents.models import PLAN_BEGINS, Incident, IncidentEntry, RecoveryPlan
from controlplane.nodes.choices import NODE_PRESENT, NODE_USABLE
from controlplane.nodes.models import Node, NodeRequest
from controlplane.topologies.capacity import PERCENT, cpu_model_read
from controlplane.topologies.choices import Desired, QueryStatus, TopologyStatus
from controlplane.topologies.graphs import graph_of_text
from controlplane.topologies.models import PLANNED_CPU, FlowRates, Partition, Query, Topology
from controlplane.topologies.policies import policy_of, tentative_above
from controlplane.topologies.rates import flows_of, rates_of
from controlplane.topologies.selectors import SPEC_OF_TOPOLOGY
from controlplane.tuple_rows import tuple_rows
from domain.planning import UniformDelay
from domain.recovery.facts import facts_read
from domain.recovery.incident import Deployment, NodeView, Request, State, TopologyCase
from domain.recovery.machine import IncidentMachine
from domain.recovery.memory import Memory, PlanRecord, case_rebuild
from domain.recovery.tentative import TentativeOutput
from domain.topology import partition_id


def deployed_topologies() -> QuerySet[Topology]:
    """Topologies a lost node can hurt: those that are to run, have been placed, and have not run to their
    end. Of one that waits for nodes there are at most plans of earlier runs."""
    placed = RecoveryPlan.objects.filter(topology=OuterRef("pk"), generation__gte=OuterRef("generation"))
    return Topology.objects.filter(Exists(placed), desired=Desired.RUNNING).exclude(
        status__in=(TopologyStatus.COMPLETED, TopologyStatus.DRAFT)
    )


def queries_awaited(incident: Incident) -> set[str]:
    """The queries that failed and are not available, as `topology/query`; without those that are not to give
    results, because they are parked or their topology was undeployed or has completed."""
    failed: Mapping[str, Any] = incident.summary.get("failed_queries", {})
    if not failed:
        return set()
    returned = incident.summary.get("returned", {})
    rows = Query.objects.filter(topology__in=deployed_topologies(), topology__name__in=failed)
    rows = rows.filter(available=False, parked=False).exclude(status=QueryStatus.PARKED)
    columns = rows.values_list("topology__name", "partition__operator", "partition__index")
    down = {f"{name}/{partition_id(operator, index)}" for name, operator, index in columns}
    return down & {f"{name}/{one}" for name, labels in failed.items() for one in labels} - returned.keys()


def machine_load(incident: Incident, *, may_plan: bool, damaged: bool = False) -> IncidentMachine:
    """The machine as the last step left it. `may_plan` is for callers that looked at ZooKeeper first.

    damaged: leave out facts that cannot be read, which is enough to end the incident and for nothing else.
    Otherwise raises `UnreadableFactError`.
    """
    newest = plans_newest()
    entries = [*entries_load(incident)]
    stored = ((entry.pk, entry.fact) for entry in entries if entry.fact)
    recorded = facts_read(incident.number, stored, damaged=damaged)
    memory = Memory.recall(recorded, incident.costs)
    deployments = deployments_load(newest, incident)
    cases: dict[str, TopologyCase] = {}
    for topology in incident.topologies.all():
        plan = newest.get(topology.name)
        record = PlanRecord(
            generation=plan.generation if plan else 0,
            state=plan.state if plan else "superseded",
            ours=plan is not None and plan.incident_id == incident.pk,
            wave=plan.wave if plan else 0,
            checkpoint=plan.checkpoint if plan else 0,
            rollback=plan is not None and plan.rollback,
            method=plan.method if plan else "",
            restore=frozenset(plan.restore if plan else ()),
            applied_at=plan.applied_at.timestamp() if plan and plan.applied_at else None,
            caught_up_at=plan.caught_up_at.timestamp() if plan and plan.caught_up_at else None,
        )
        deployment = deployments.get(topology.name)
        cases[topology.name] = case_rebuild(
            topology.name,
            record,
            topology.generation,
            memory,
            unassigned=deployment.unassigned if deployment else (),
            before=deployment.before if deployment else 0,
            deployed=deployment.deployed if deployment else 0,
        )
    delay = settings.RESURGE.replacement_delay
    return IncidentMachine(
        number=incident.number,
        deployments=deployments,
        nodes=nodes_load(deployments),
        state=State(incident.state),
        cases=cases,
        requests=requests_load(incident),
        memory=memory,
        max_utilisation=settings.RESURGE.max_utilisation,
        replay_reserve=settings.RESURGE.replay_reserve,
        opened_at=incident.opened_at.timestamp(),
        may_plan=may_plan,
        delay=UniformDelay(delay.low, delay.high),
        queries_awaited=queries_awaited(incident),
        story=((entry.at.timestamp(), entry.kind, entry.text) for entry in entries),
    )


def entries_load(incident: Incident) -> Iterator[Any]:
    """The story in the order it was told; `fact` is the JSON text of the fact an entry records, if any."""
    recorded = Case(When(data__has_key="fact", then=Cast("data", TextField())), output_field=TextField())
    rows = IncidentEntry.objects.filter(incident=incident).order_by("id")
    return tuple_rows(rows, "pk", "at", "kind", "text", fact=recorded)


def _homes(plan: RecoveryPlan | None, partitions: int) -> dict[str, str]:
    """Where each partition ran under this plan; an aborted incident can have left some out of it, and then
    older plans of the same run tell."""
    homes: dict[str, str] = {}
    while plan is not None:
        homes = {**plan.assignment, **homes}
        if plan.begins_deployment or len(homes) == partitions:
            break
        older = plans_made().filter(topology=plan.topology_id, generation__lt=plan.generation)
        plan = older.defer("explanation").order_by("-generation").first()
    return homes


def plans_made() -> QuerySet[RecoveryPlan]:
    """Without the plans of aborted incidents that were given up before they got into ZooKeeper: no driver
    goes over to these, unless its word on that came too late."""
    return RecoveryPlan.objects.exclude(
        state=PlanState.SUPERSEDED,
        published_at=None,
        incident__state__in=INCIDENT_ENDED,
        generation__gt=F("topology__applied_generation"),
    )


LONG = ("explanation", SPEC_OF_TOPOLOGY, "topology__deployed_spec")
"""Of a plan: hundreds of them are read at each step."""


def plans_newest(*, other_than: Incident | None = None) -> dict[str, RecoveryPlan]:
    """Topology name -> its plan of the highest generation. other_than: leave out those of this incident."""
    newest = plans_last(other_than=other_than).select_related("topology").defer(*LONG)
    return {plan.topology.name: plan for plan in newest}


def _plans_before(newest: dict[str, RecoveryPlan], incident: Incident) -> dict[str, RecoveryPlan]:
    """Topology name -> its newest plan that is none of the incident's."""
    if all(plan.incident_id != incident.pk for plan in newest.values()):
        return newest
    return plans_newest(other_than=incident)


def plans_last(*, other_than: Incident | None = None) -> QuerySet[RecoveryPlan]:
    """The plan of the highest generation of each topology."""
    plans = plans_made()
    if other_than is not None:
        plans = plans.exclude(incident=other_than)
    # The index has the newest of each topology; ranking all plans would read every one that ever was.
    last = plans.filter(topology=OuterRef("pk")).order_by("-generation").values("pk")[:1]
    wanted = Topology.objects.order_by().values_list(Subquery(last))
    return RecoveryPlan.objects.filter(pk__in=wanted)


def nodes_hosting() -> set[str]:
    """The nodes on which partitions run, as plans have them or since replicas took over there."""
    deployed = set(deployed_topologies().values_list("pk", flat=True))
    plans = [plan for plan in plans_newest().values() if plan.topology_id in deployed]
    return {node for plan in plans for node in placed(plan, plan.topology).values()}


def deployments_load(
    newest: dict[str, RecoveryPlan], incident: Incident | None = None
) -> dict[str, Deployment]:
    """What recovery must know of each deployed topology; six queries whatever their number, and two more
    where any gives tentative output.

    incident: the one to be recovered; what its own plans did is not where a partition is at home.
    """
    rows = deployed_topologies().defer("spec", "deployed_spec")
    rows = rows.annotate(spec_text=Cast("spec", TextField()))
    topologies = {topology.pk: topology for topology in rows if topology.name in newest}
    graphs = {pk: graph_of_text(topology.spec_text) for pk, topology in topologies.items()}
    before = _plans_before(newest, incident) if incident is not None else newest
    since = deploy_generations()
    deployments = {
        pk: Deployment(
            topology=graphs[pk],
            generation=topology.generation,
            assignment=placed(newest[topology.name], topology),
            taken=taken_over(newest[topology.name], topology),
            policy=policy_of(topology),
            homes=_homes(before.get(topology.name), len(graphs[pk].partitions)),
            before=before[topology.name].generation if topology.name in before else 0,
            deployed=since.get(pk, 0),
            latest=_begun_with(topology),
            acting=newest[topology.name].acting,
            node_cpu=cpu_model_read(topology.name, topology.cpu_model).node * PERCENT,
            usual_load=topology.usual_load,
        )
        for pk, topology in topologies.items()
    }
    measured_or_requested = Q(cpu__gt=0) | Q(cpu_request__gt=0)
    partitions = Partition.objects.filter(measured_or_requested, topology__in=topologies)
    columns = ("topology_id", "operator", "index", PLANNED_CPU, "state_bytes")
    for pk, operator, index, cpu, size in partitions.values_list(*columns):
        label = partition_id(operator, index)
        deployments[pk].costs[label] = cpu * PERCENT
        deployments[pk].state[label] = size
    queries = Query.objects.filter(topology__in=topologies)
    columns_of_queries = ("topology_id", "partition__operator", "partition__index", "priority")
    for pk, operator, index, priority in queries.values_list(*columns_of_queries):
        deployments[pk].priorities[partition_id(operator, index)] = priority
    complete = Checkpoint.objects.filter(topology__in=topologies, state=CheckpointState.COMPLETED)
    # A day has thousands of them: the database looks for the newest, and only what is stored is listed.
    newest_of = complete.values("topology_id", "generation").annotate(newest=Max("epoch"), at=Max("ended_at"))
    for row in newest_of.order_by():
        deployment = deployments[row["topology_id"]]
        if row["generation"] >= since.get(row["topology_id"], 0) and row["newest"] > deployment.latest:
            deployment.latest = row["newest"]
            deployment.checkpoint_at = row["at"].timestamp() if row["at"] else float("-inf")
    stored = complete.filter(stored=True).values_list("topology_id", "generation", "epoch")
    for pk, generation, epoch in stored:
        if generation >= since.get(pk, 0):
            deployments[pk].stored |= {epoch}
    _tentative_load(topologies, deployments)
    return {topologies[pk].name: deployment for pk, deployment in deployments.items()}


def _begun_with(topology: Topology) -> int:
    """The checkpoint that a savepoint became, which the database has no row of; 0 without one."""
    continues: Mapping[str, Any] = topology.continues or {}
    return int(continues["checkpoint"]) if continues.get("savepoint") else 0


def _tentative_load(topologies: Mapping[int, Topology], deployments: Mapping[int, Deployment]) -> None:
    """What queries give that go on without lost inputs, where policies say that any do."""
    above = {pk: tentative_above(topology, deployments[pk].topology) for pk, topology in topologies.items()}
    above = {pk: queries for pk, queries in above.items() if queries}
    if not above:
        return
    columns = Partition.objects.filter(topology__in=above)
    measured: dict[int, dict[str, tuple[float, float]]] = {pk: {} for pk in above}
    rows = columns.values_list("topology_id", "operator", "index", "rows_in_rate", "rows_out_rate")
    for pk, operator, index, read, given in rows:
        measured[pk][partition_id(operator, index)] = (read, given)
    told = {row.topology_id: row for row in FlowRates.objects.filter(topology__in=above)}
    for pk, queries in above.items():
        graph, row = deployments[pk].topology, told.get(pk) or FlowRates()
        deployments[pk].tentative = TentativeOutput(
            graph,
            queries,
            topologies[pk].tentative_worth,
            rates=rates_of(graph, measured[pk], row.given)[0],
            flows=flows_of(graph, row.pairs)[0],
        )


def deploy_generations() -> dict[int, int]:
    """Topology id -> generation its present run started with; checkpoints of earlier runs are void."""
    rows = RecoveryPlan.objects.filter(PLAN_BEGINS).values("topology_id")
    return {row["topology_id"]: row["since"] for row in rows.annotate(since=Max("generation")).order_by()}


def deployment_at(topology: int, generation: int) -> int:
    """Generation of the plan that deployed what ran under the plan of `generation`; 0 if none did. topology:
    its id."""
    plans = RecoveryPlan.objects.filter(PLAN_BEGINS, topology=topology, generation__lte=generation)
    return plans.aggregate(newest=Max("generation"))["newest"] or 0


def nodes_load(deployments: Mapping[str, Deployment]) -> dict[str, NodeView]:
    """Every known node, and forgotten ones where partitions are at home. Each deployed topology has processes
    on all of them."""
    load = sum(deployment.node_cpu for deployment in deployments.values())
    homes = {node for deployment in deployments.values() for node in deployment.homes.values()}
    return {
        node.name: NodeView(
            name=node.name,
            alive=node.state in NODE_PRESENT,
            usable=node.state in NODE_USABLE and not node.standby,
            standby=node.state in NODE_USABLE and node.standby,
            capacity=node.capacity,
            load=node.agent_percent + load,
            rack=node.rack,
        )
        for node in Node.objects.filter(Q(forgotten_at=None) | Q(name__in=homes))
    }


def requests_load(incident: Incident) -> list[Request]:
    return [
        Request(
            key=row.key,
            lost_node=row.key.split("/")[1],
            attempt=row.attempt,
            state=row.state,
            node=row.node_name,
            started_at=row.started_at.timestamp() if row.started_at else None,
            requested_at=row.requested_at.timestamp(),
            capacity=row.capacity,
        )
        for row in NodeRequest.objects.filter(incident=incident).order_by("id")
        if row.key.count("/") == 2
    ]
