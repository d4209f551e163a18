"""Which replicas a topology has from now on: what one look decides. Pure.

Looks follow one another, and each changes little (`domain.replication.placing`). `Kept` is what one leaves
to the next.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from domain.planning.deployment import chains
from domain.recovery.costs import Costs
from domain.recovery.incident import Deployment, NodeView
from domain.replication.adapting import Target, adapt
from domain.replication.placing import ReplicaNode, Replicas, place_replicas, with_room
from domain.replication.planner import ReplicationProblem
from domain.replication.registry import replication_planner_named

FEW, ROUNDS = 3, 4
"""Replicas that a look may place, and in how many looks all of a topology can be placed: each one replays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a look leaves to the next one. replicas: those there are to be, of the deployment that began with
    the plan of generation `deployed`. asked: budget and planner for which the target was made."""

    replicas: Replicas = field(default_factory=lambda: Replicas(assignment={}))
    target: Target = field(default_factory=Target)
    asked: tuple[int, str] = (0, "")
    deployed: int = 0
    # Why there are none, or none are changed; empty where they are as they should be.
    note: str = ""


def none_at_all(before: Kept, *, deployed: int, why: str) -> Kept:
    """No replicas, for this reason."""
    return Kept(asked=before.asked, deployed=deployed, note=why)


def as_room_permits(
    before: Kept,
    *,
    deployed: int,
    homes: Mapping[str, str],
    nodes: Collection[ReplicaNode],
    costs: Mapping[str, float],
    why: str,
) -> Kept:
    """None comes, for this reason. What a lost node has of them is of no use, and what is about to take over
    stays: its partition has no home among the nodes. Partitions come first: where a plan of a recovery has
    put so many on a node that its replicas have no room any more, the least important of these go."""
    free = {node.name: node.free for node in nodes}
    current = {p: node for p, node in _current(before, deployed).items() if node in free}
    kept = with_room(
        current,
        wanted=before.target.partitions,
        free=free,
        costs=costs,
        always={partition for partition in current if homes.get(partition) not in free},
    )
    return replace(before, replicas=Replicas(assignment=kept), deployed=deployed, note=why)


def placed_anew(
    before: Kept,
    *,
    deployed: int,
    problem: ReplicationProblem,
    planner: str,
    homes: Mapping[str, str],
    nodes: Collection[ReplicaNode],
    costs: Mapping[str, float],
    caught_up: Collection[str],
) -> Kept:
    """The replicas that are worth most by the present rates, as far as this look goes. homes: where
    partitions run; costs: CPU percent of each; caught_up: those whose replica is as far as they are. Raises
    `TooLargeError` where the planner cannot do it."""
    target = _target(before, problem, planner)
    replicas = place_replicas(
        target.partitions,
        current=_current(before, deployed),
        homes=homes,
        nodes=nodes,
        costs=costs,
        caught_up=caught_up,
        together=chains(problem.topology),
        most=max(FEW, math.ceil(problem.budget / ROUNDS)),
    )
    return Kept(replicas=replicas, target=target, asked=(problem.budget, planner), deployed=deployed)


def _current(before: Kept, deployed: int) -> Mapping[str, str]:
    """Replicas of an earlier deployment have the state of another run."""
    return before.replicas.assignment if before.deployed == deployed else {}


def _target(before: Kept, problem: ReplicationProblem, planner: str) -> Target:
    """What is to have a replica from now on; at once the fresh plan where the policy has changed."""
    plan = replication_planner_named(planner).plan(problem)
    fresh = [chosen.partition for chosen in plan.chosen]
    if before.asked != (problem.budget, planner):
        return Target(tuple(fresh))
    model = problem.model

    def fidelity(partitions: Sequence[str]) -> float:
        flags = model.flags([[model.index[one] for one in partitions if one in model.index]])
        return float(model.fidelity(flags)[0])

    known = tuple(partition for partition in before.target.partitions if partition in model.index)
    return adapt(Target(known, before.target.better), fresh, budget=problem.budget, fidelity=fidelity)


def replica_nodes(
    nodes: Collection[NodeView],
    *,
    standby: Collection[str],
    deployments: Mapping[str, Deployment],
    costs: Costs,
    others: Mapping[str, Mapping[str, str]],
    max_utilisation: float,
) -> list[ReplicaNode]:
    """Nodes that may run replicas, with what may be planned on each besides all partitions and the replicas
    of other topologies. others: their replicas, by topology."""
    load: defaultdict[str, float] = defaultdict(float)
    for name, deployment in deployments.items():
        for partition, node in (*deployment.assignment.items(), *others.get(name, {}).items()):
            load[node] += costs[name].get(partition, 0.0)
    return [
        ReplicaNode(
            name=node.name,
            rack=node.rack,
            free=node.limit(max_utilisation) - load[node.name],
            standby=node.name in standby,
        )
        for node in nodes
    ]
