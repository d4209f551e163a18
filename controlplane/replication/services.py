"""Deciding which replicas a topology has, and where (write side).

`replicas_look` is called again and again; each look changes little (`domain.replication.placing`). What
is to be computed is computed before the transaction, which stores it only if nothing has come between.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from controlplane.nodes.choices import NODE_USABLE
from controlplane.nodes.models import Node
from controlplane.replication.answering import budget_of
from controlplane.replication.models import ReplicaPlacement
from controlplane.replication.selectors import Measured, measured_load
from controlplane.topologies.choices import ReplicationMode, TopologyStatus
from controlplane.topologies.models import Topology
from controlplane.topologies.representation import topology_change
from domain.planning import natural_key
from domain.recovery.costs import Costs, costs_fix
from domain.recovery.incident import Deployment, NodeView
from domain.replication import ReplicationProblem, TooLargeError, replication_planner_named
from domain.replication.adapting import Target, adapt
from domain.replication.placing import ReplicaNode, Replicas, place_replicas

log = structlog.get_logger(__name__)

FEW, ROUNDS = 3, 4
"""Replicas that a look may place, and in how many looks all of a topology can be placed: each one replays."""

OFF = "the policy wants none"
UNDEPLOYED = "the topology is not deployed"
NOT_DETERMINISTIC = "operators may give other rows for the same input, so a replica would be in another state"
INCIDENT = "an incident is open; replicas are placed anew when it has ended"
UNSETTLED = "the topology does not run yet, or is catching up; replicas are placed when it does"


@dataclass(frozen=True, slots=True)
class Look:
    """What one look has found: the replicas from now on, and what the next one must know. asked: budget and
    planner; deployed: generation of the deployment."""

    replicas: Replicas
    target: Target
    asked: tuple[int, str]
    deployed: int
    note: str = ""

    @property
    def fields(self) -> dict[str, Any]:
        """As they are kept."""
        return {
            "assignment": dict(sorted(self.replicas.assignment.items())),
            "deployed": self.deployed,
            "target": list(self.target.partitions),
            "better": self.target.better,
            "asked": list(self.asked),
            "unplaced": list(self.replicas.unplaced),
            "waiting": list(self.replicas.waiting),
            "note": self.note,
        }


def replicas_look(name: str) -> None:
    """Have the replicas of a topology that its policy asks for, as far as a look goes. Nothing is changed for
    a topology that has none and wants none."""
    topology = Topology.objects.filter(name=name).first()
    if topology is None:
        return
    row = ReplicaPlacement.objects.filter(topology=topology).first()
    if row is None and topology.replication_mode != ReplicationMode.ON:
        return
    row = row or ReplicaPlacement(topology=topology)
    found = _found(topology, row)
    if any(getattr(row, field) != value for field, value in found.fields.items()):
        _store(topology=topology, look=found, revision=row.revision)


@writing
def _store(*, topology: Topology, look: Look, revision: int) -> None:
    """Keep what a look has found, unless another one came first; one event where replicas come or go."""
    topology = Topology.objects.select_for_update().get(pk=topology.pk)
    row, _ = ReplicaPlacement.objects.select_for_update().get_or_create(topology=topology)
    if row.revision != revision:
        return
    before, wanted = row.assignment, look.fields["assignment"]
    row.revision += before != wanted or row.deployed != look.deployed
    for field, value in look.fields.items():
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


def _told(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    new = [f"{p} on {node}" for p, node in after.items() if before.get(p) != node]
    gone = [p for p in before if p not in after]
    words = [f"replicas of {_some(new)}"] if new else []
    words += [f"none of {_some(gone)} any more"] if gone else []
    return "; ".join(words)


def _some(names: Sequence[str]) -> str:
    ordered = sorted(names, key=natural_key)
    return ", ".join(ordered[:5]) + (f" and {len(ordered) - 5} more" if len(ordered) > 5 else "")


# ---- what a look finds ---------------------------------------------------------------------------


def _found(topology: Topology, row: ReplicaPlacement) -> Look:
    """What there is to have now, and why it is not what the policy asks for."""
    asked: tuple[int, str] = (int(row.asked[0]), str(row.asked[1])) if row.asked else (0, "")
    target = Target(tuple(row.target), row.better)
    deployed = deploy_generations().get(topology.pk, 0)
    nothing = Look(Replicas(assignment={}), Target(), asked, deployed)
    if topology.replication_mode != ReplicationMode.ON:
        return _because(nothing, OFF)
    if not deployed_topologies().filter(pk=topology.pk).exists():
        return _because(nothing, UNDEPLOYED)
    deployments = deployments_load(plans_newest())
    deployment = deployments.get(topology.name)
    if deployment is None:
        return _because(nothing, UNDEPLOYED)
    if not deployment.topology.deterministic:
        return _because(nothing, NOT_DETERMINISTIC)
    current = row.assignment if row.deployed == deployed else {}
    unsettled = _unsettled(topology)
    views = nodes_load(deployments)
    if unsettled:
        # What a lost node has of them is of no use, and what is about to take over stays.
        kept = {p: node for p, node in current.items() if node in views and views[node].alive}
        return Look(Replicas(assignment=kept), target, asked, deployed, unsettled)
    measured = measured_load(topology.name)
    budget = budget_of(measured)
    try:
        target, asked = _target(measured, target, asked, budget)
    except TooLargeError as error:
        return _because(nothing, str(error))
    costs = costs_fix(deployments, views, {}, settings.RESURGE.max_utilisation)
    replicas = place_replicas(
        target.partitions,
        current=current,
        homes=deployment.assignment,
        nodes=_nodes(deployments, views, costs, _elsewhere(topology, deployments, costs)),
        costs=costs[topology.name],
        caught_up=[p for p, one in topology.shadows.items() if one["caught_up"]],
        most=max(FEW, math.ceil(budget / ROUNDS)),
    )
    return Look(replicas, target, asked, deployed)


def _because(look: Look, note: str) -> Look:
    return Look(look.replicas, look.target, look.asked, look.deployed, note)


def _unsettled(topology: Topology) -> str:
    """Why no replica is placed now; empty where all is well."""
    if incidents_open().exists():  # also one whose queries are still catching up: a new replica replays
        return INCIDENT
    return "" if topology.status == TopologyStatus.RUNNING else UNSETTLED


def _target(
    measured: Measured, target: Target, asked: tuple[int, str], budget: int
) -> tuple[Target, tuple[int, str]]:
    """What is to have a replica from now on; at once the fresh plan where the policy has changed."""
    now = (budget, measured.planner)
    problem = ReplicationProblem(measured.graph, measured.rates, budget, "weighted", measured.priorities)
    plan = replication_planner_named(measured.planner).plan(problem)
    fresh = [chosen.partition for chosen in plan.chosen]
    if now != asked:
        return Target(tuple(fresh)), now
    model = problem.model

    def fidelity(partitions: Sequence[str]) -> float:
        flags = model.flags([[model.index[one] for one in partitions if one in model.index]])
        return float(model.fidelity(flags)[0])

    known = tuple(partition for partition in target.partitions if partition in model.index)
    return adapt(Target(known, target.better), fresh, budget=budget, fidelity=fidelity), now


def _nodes(
    deployments: Mapping[str, Deployment],
    views: Mapping[str, NodeView],
    costs: Costs,
    others: Mapping[str, float],
) -> list[ReplicaNode]:
    """Nodes that may run replicas, with what may be planned on each besides all partitions and the replicas
    of other topologies."""
    load: defaultdict[str, float] = defaultdict(float, others)
    for name, deployment in deployments.items():
        for partition, node in deployment.assignment.items():
            load[node] += costs[name][partition]
    return [
        ReplicaNode(
            name=node.name,
            rack=node.rack,
            free=views[node.name].limit(settings.RESURGE.max_utilisation) - load[node.name],
            standby=node.standby,
        )
        for node in Node.objects.filter(state__in=NODE_USABLE)
    ]


def _elsewhere(topology: Topology, deployments: Mapping[str, Deployment], costs: Costs) -> dict[str, float]:
    """CPU percent that replicas of other topologies take on each node."""
    load: defaultdict[str, float] = defaultdict(float)
    others = ReplicaPlacement.objects.exclude(topology=topology).exclude(assignment={})
    for row in others.select_related("topology"):
        if row.topology.name in deployments:
            for partition, node in row.assignment.items():
                load[node] += costs[row.topology.name].get(partition, 0.0)
    return load
