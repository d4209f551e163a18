"""Deciding which replicas a topology has, and where (write side).

`replicas_look` is called again and again; what it decides is in `domain.replication.looking`. What is to be
computed is computed before the transaction, which stores it only if nothing has come between.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import structlog
from django.conf import settings

from controlplane.events.choices import EventKind
from controlplane.events.services import event_publish, writing
from controlplane.incidents.loading import (
    deploy_generations,
    deployed_topologies,
    deployments_load,
    nodes_load,
    plans_newest,
)
from controlplane.incidents.selectors import incidents_open
from controlplane.nodes.choices import NODE_PRESENT, NODE_USABLE
from controlplane.nodes.models import Node
from controlplane.replication.answering import USUAL_PLANNER, budget_of
from controlplane.replication.models import ReplicaPlacement
from controlplane.replication.selectors import measured_load
from controlplane.topologies.choices import ReplicationMode, TentativeOutput, TopologyStatus
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import Topology
from controlplane.topologies.policies import NO_REPLICAS, tentative_above
from controlplane.topologies.representation import topology_change
from controlplane.wording import some_of
from domain.planning import natural_key
from domain.recovery.costs import Costs, costs_fix
from domain.recovery.incident import Deployment, NodeView
from domain.replication import ReplicationProblem, TooLargeError
from domain.replication.adapting import Target
from domain.replication.looking import Kept, as_room_permits, none_at_all, placed_anew, replica_nodes
from domain.replication.placing import ReplicaNode, Replicas

log = structlog.get_logger(__name__)

TOLD = ("assignment", "deployed", "tentative")
"""What the driver is told: a change of it is a new revision."""
OFF = "the policy wants none"
UNDEPLOYED = "the topology is not deployed"
NOT_DETERMINISTIC = "operators may give other rows for the same input, so a replica would be in another state"
INCIDENT = "an incident is open; replicas are placed anew when it has ended"
UNSETTLED = "the topology does not run yet, or is catching up; replicas are placed when it does"


def _kept(row: ReplicaPlacement) -> Kept:
    """What the last look has left."""
    return Kept(
        replicas=Replicas(
            assignment=row.assignment, unplaced=tuple(row.unplaced), waiting=tuple(row.waiting)
        ),
        target=Target(tuple(row.target), row.better),
        asked=(int(row.asked[0]), str(row.asked[1])) if row.asked else (0, ""),
        deployed=row.deployed,
        note=row.note,
    )


def _fields(kept: Kept) -> dict[str, Any]:
    """What a look leaves, as it is stored."""
    return {
        "assignment": dict(sorted(kept.replicas.assignment.items())),
        "deployed": kept.deployed,
        "target": list(kept.target.partitions),
        "better": kept.target.better,
        "asked": list(kept.asked),
        "unplaced": list(kept.replicas.unplaced),
        "waiting": list(kept.replicas.waiting),
        "note": kept.note,
    }


def replicas_look(name: str) -> None:
    """Have the replicas of a topology that its policy asks for, as far as a look goes. Nothing is changed for
    a topology that has none and wants none."""
    topology = Topology.objects.filter(name=name).first()
    if topology is None:
        return
    row = ReplicaPlacement.objects.filter(topology=topology).first()
    wanted = (
        topology.replication_mode == ReplicationMode.ON or topology.tentative_output == TentativeOutput.ON
    )
    if row is None and not wanted:
        return
    row = row or ReplicaPlacement(topology=topology)
    incidents = _incidents()
    found, tentative = _found(topology, row), tentative_above(topology, graph_of(topology.spec))
    fields = {**_fields(found), "tentative": tentative}
    if any(getattr(row, field) != value for field, value in fields.items()):
        _store(topology=topology, fields=fields, revision=row.revision, incidents=incidents)


@writing
def _store(
    *, topology: Topology, fields: Mapping[str, Any], revision: int, incidents: Collection[int]
) -> None:
    """Keep what a look has found; one event where replicas come or go. Nothing where another look came first,
    or an incident has begun or ended since it began: a replica that is about to take over must not go."""
    topology = Topology.objects.select_for_update().get(pk=topology.pk)
    row, _ = ReplicaPlacement.objects.select_for_update().get_or_create(topology=topology)
    if row.revision != revision or _incidents() != incidents:
        return
    before, wanted = row.assignment, fields["assignment"]
    row.revision += any(getattr(row, field) != fields[field] for field in TOLD)
    for field, value in fields.items():
        setattr(row, field, value)
    row.save()
    if before == wanted:
        return
    reason = _told(before, wanted)
    log.info("replicas placed", topology=topology.name, replicas=len(wanted), what=reason)
    event_publish(
        kind=EventKind.TOPOLOGY_REPLICAS,
        topology=topology.name,
        changes=[topology_change(topology, only=("policy",))],
        reason=reason,
    )


def _incidents() -> frozenset[int]:
    return frozenset(incidents_open().values_list("pk", flat=True))


def _told(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    new = [f"{p} on {node}" for p, node in after.items() if before.get(p) != node]
    gone = [p for p in before if p not in after]
    words = [f"replicas of {some_of(sorted(new, key=natural_key))}"] if new else []
    words += [f"none of {some_of(sorted(gone, key=natural_key))} any more"] if gone else []
    return "; ".join(words)


# ---- what a look finds ---------------------------------------------------------------------------


def _found(topology: Topology, row: ReplicaPlacement) -> Kept:
    """What there is to have now, and why it is not what the policy asks for."""
    before, deployed = _kept(row), deploy_generations().get(topology.pk, 0)
    if topology.replication_mode != ReplicationMode.ON:
        return none_at_all(before, deployed=deployed, why=OFF)
    if not deployed_topologies().filter(pk=topology.pk).exists():
        return none_at_all(before, deployed=deployed, why=UNDEPLOYED)
    deployments = deployments_load(plans_newest())
    deployment = deployments.get(topology.name)
    if deployment is None:
        return none_at_all(before, deployed=deployed, why=UNDEPLOYED)
    if deployment.topology.spec.bounded:
        return none_at_all(before, deployed=deployed, why=NO_REPLICAS)
    if not deployment.topology.deterministic:
        return none_at_all(before, deployed=deployed, why=NOT_DETERMINISTIC)
    views = nodes_load(deployments)
    unsettled = _unsettled(topology)
    # What was measured while something replays says nothing about room; an incident has kept what did.
    kept = {name: one for incident in incidents_open() for name, one in incident.costs.items()}
    costs = {**kept, **costs_fix(deployments, views, kept, settings.RESURGE.max_utilisation)}
    if unsettled:
        return as_room_permits(
            before,
            deployed=deployed,
            homes=deployment.assignment,
            nodes=_nodes(topology, deployments, views, costs, states=NODE_PRESENT),
            costs=costs[topology.name],
            why=unsettled,
        )
    measured = measured_load(topology.name)
    budget = budget_of(measured)
    anew = partial(
        placed_anew,
        before,
        deployed=deployed,
        problem=ReplicationProblem(
            measured.graph, measured.rates, budget, "weighted", measured.priorities, measured.flows
        ),
        homes=deployment.assignment,
        nodes=_nodes(topology, deployments, views, costs),
        costs=costs[topology.name],
        caught_up=[p for p, one in topology.shadows.items() if one["caught_up"]],
    )
    try:
        return anew(planner=measured.planner)
    except TooLargeError as error:
        return replace(anew(planner=USUAL_PLANNER), note=f"planned by {USUAL_PLANNER}: {error}")


def _unsettled(topology: Topology) -> str:
    """Why no replica is placed now; empty where all is well."""
    if incidents_open().exists():  # also one whose queries are still catching up: a new replica replays
        return INCIDENT
    return "" if topology.status == TopologyStatus.RUNNING else UNSETTLED


def _nodes(
    topology: Topology,
    deployments: Mapping[str, Deployment],
    views: Mapping[str, NodeView],
    costs: Costs,
    *,
    states: Collection[str] = NODE_USABLE,
) -> list[ReplicaNode]:
    usable = dict(Node.objects.filter(state__in=states).values_list("name", "standby"))
    others = ReplicaPlacement.objects.exclude(topology=topology).exclude(assignment={})
    return replica_nodes(
        [views[name] for name in usable],
        standby=[name for name, standby in usable.items() if standby],
        deployments=deployments,
        costs=costs,
        others=dict(others.values_list("topology__name", "assignment")),
        max_utilisation=settings.RESURGE.max_utilisation,
    )
