"""The replicas of a what-if: those that run, none, or those of a replication plan (read side)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from django.conf import settings

from controlplane.errors import Invalid
from controlplane.nodes.choices import NODE_USABLE
from controlplane.nodes.models import Node
from controlplane.replication.answering import MOST_PARTITIONS, USUAL_PLANNER
from controlplane.topologies.models import Topology
from controlplane.whatif.request import NONE, RUNNING, WhatIf
from domain.recovery.costs import costs_fix
from domain.recovery.incident import Deployment, NodeView
from domain.replication import ReplicationProblem, TooLargeError, replication_planner_named
from domain.replication.looking import replica_nodes
from domain.replication.supposing import replicas_supposed


@dataclass(frozen=True, slots=True, kw_only=True)
class Supposed:
    """placed: node of each replica that could take over, by topology and partition. unplaced: partitions of
    the plan for which no node has room, by topology."""

    placed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    unplaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def replicas_load(
    asked: WhatIf,
    deployments: Mapping[str, Deployment],
    nodes: Mapping[str, NodeView],
    problems: Mapping[str, ReplicationProblem],
    *,
    deadline: float,
) -> Supposed:
    """The replicas that the question asks for; two queries at most. problems: what is known of each topology
    for planning. deadline: by `time.monotonic`, when planning has to end. Raises `Invalid` for a plan that
    cannot be computed."""
    if asked.replicas == NONE:
        return Supposed()
    if asked.replicas == RUNNING:
        return _running(deployments, nodes)
    return _planned(int(asked.replicas), deployments, nodes, problems, deadline=deadline)


def _running(deployments: Mapping[str, Deployment], nodes: Mapping[str, NodeView]) -> Supposed:
    """Those that have caught up, on living nodes other than those of their partitions."""
    placed = {}
    rows = Topology.objects.filter(name__in=deployments).exclude(shadows={})
    for name, shadows in rows.values_list("name", "shadows"):
        homes = deployments[name].assignment
        ready = {p: str(one["node"]) for p, one in shadows.items() if one["caught_up"] and p in homes}
        placed[name] = {
            p: node for p, node in ready.items() if node != homes[p] and node in nodes and nodes[node].alive
        }
    return Supposed(placed=placed)


def _planned(
    budget: int,
    deployments: Mapping[str, Deployment],
    nodes: Mapping[str, NodeView],
    problems: Mapping[str, ReplicationProblem],
    *,
    deadline: float,
) -> Supposed:
    """Those of a plan for each topology, by its policy's planner; one topology after the other takes its
    room."""
    standby = dict(Node.objects.filter(state__in=NODE_USABLE).values_list("name", "standby"))
    planners = dict(Topology.objects.filter(name__in=deployments).values_list("name", "replication_planner"))
    costs = costs_fix(deployments, nodes, {}, settings.RESURGE.max_utilisation)
    placed: dict[str, Mapping[str, str]] = {}
    unplaced: dict[str, tuple[str, ...]] = {}
    for name, deployment in sorted(deployments.items()):
        count = len(deployment.topology.partitions)
        if not deployment.topology.deterministic or deployment.topology.spec.bounded:
            continue  # a replica of it would be in another state, so none ever runs
        if count > MOST_PARTITIONS:
            raise Invalid(
                "replicas", f"{name} has {count} partitions; plans are computed for up to {MOST_PARTITIONS}"
            )
        if time.monotonic() > deadline:
            raise Invalid("replicas", "planning the replicas took too long; ask about those that run")
        suppose = partial(
            replicas_supposed,
            problem=replace(problems[name], budget=min(budget, count)),
            homes=deployment.assignment,
            nodes=replica_nodes(
                [nodes[node] for node in standby if node in nodes],
                standby=[node for node, waits in standby.items() if waits],
                deployments=deployments,
                costs=costs,
                others=placed,
                max_utilisation=settings.RESURGE.max_utilisation,
            ),
            costs=costs[name],
        )
        try:
            found = suppose(replication_planner_named(planners[name]))
        except TooLargeError:  # as for the replicas that run
            found = suppose(replication_planner_named(USUAL_PLANNER))
        placed[name], unplaced[name] = found.assignment, found.unplaced
    return Supposed(placed=placed, unplaced=unplaced)
