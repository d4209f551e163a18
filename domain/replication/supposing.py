"""Where the replicas of a plan would be if all of them were in place. Pure; nothing is started."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from domain.planning.deployment import chains
from domain.replication.placing import ReplicaNode, Replicas, place_replicas
from domain.replication.planner import ReplicationPlanner, ReplicationProblem


def replicas_supposed(
    planner: ReplicationPlanner,
    problem: ReplicationProblem,
    *,
    homes: Mapping[str, str],
    nodes: Collection[ReplicaNode],
    costs: Mapping[str, float],
) -> Replicas:
    """The plan's partitions on nodes with room, as looks would place them one after the other. homes: where
    partitions run. costs: CPU percent of each. Raises `TooLargeError` where the planner cannot do it."""
    wanted = [chosen.partition for chosen in planner.plan(problem).chosen]
    return place_replicas(
        wanted,
        current={},
        homes=homes,
        nodes=nodes,
        costs=costs,
        together=chains(problem.topology),
        most=max(1, len(wanted)),
    )
