"""Whether what runs under a plan keeps pace with its input.

An epoch is one job, and each of its stages lasts as long as its busiest node works. What a job takes besides
does not depend on where partitions are, so the load that was usual changes by what the stages change:

    load = usual load + stages under the plan - stages at home

each stage in seconds of work for each second of input. CPU alone does not tell: nodes wait for each other in
every stage, and are late long before all of them have nothing left.

What returns replays first. While queries give output, that takes time of nodes that make epochs long, which
these do not have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from domain.planning.deployment import partition_levels
from domain.recovery.incident import Deployment, NodeView

KEEPS_PACE = 0.9
"""Load up to which a wave counts as keeping pace. A little less is measured then than is predicted: stages
do not have to wait for all that others take on their nodes."""
LEAVES_TIME = 0.85
"""The same for a later wave that replays on nodes which make epochs long, beside what came back before."""
NOTICEABLE = 0.05
"""What a wave may add where there is no time left: it is no more than measurements vary."""
BUSY = 0.7
"""Share of the busiest node's utilisation from which a node is one of those that make epochs long."""
ONE_CORE, LEAST = 100.0, 1.0
"""CPU percent of a node that a task gets at most; and what counts as left on a node that is full."""


def stage_seconds(
    deployment: Deployment,
    assignment: Mapping[str, str],
    costs: Mapping[str, float],
    nodes: Mapping[str, NodeView],
) -> float | None:
    """Seconds that the stages take for each second of input; None where a node is not known any more.

    A node's partitions of one stage are one task, so they have one core at most, and no more than what
    others leave there. costs: in CPU percent.
    """
    levels = partition_levels(deployment.topology)
    work: defaultdict[int, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for partition, node in assignment.items():
        if node not in nodes:
            return None
        left = max(LEAST, nodes[node].capacity - nodes[node].load)
        work[levels[partition]][node] += costs[partition] / min(left, ONE_CORE)
    return sum(max(stage.values()) for stage in work.values())


def predicted_load(
    deployment: Deployment,
    assignment: Mapping[str, str],
    costs: Mapping[str, float],
    nodes: Mapping[str, NodeView],
) -> float | None:
    """The load of a topology under an assignment; None where its load in peace is not known, or a node."""
    if deployment.usual_load is None:
        return None
    at_home = stage_seconds(deployment, deployment.homes, costs, nodes)
    after = stage_seconds(deployment, assignment, costs, nodes)
    return None if at_home is None or after is None else deployment.usual_load + after - at_home


def keeps_pace(
    deployment: Deployment,
    assignment: Mapping[str, str],
    running: Mapping[str, str],
    costs: Mapping[str, float],
    nodes: Mapping[str, NodeView],
    *,
    beside: bool = False,
) -> bool:
    """Whether a topology keeps pace under this assignment, or is hardly later than with what is `running`;
    yes where its load in peace is not known. beside: what a wave brought back gives output."""
    load = predicted_load(deployment, assignment, costs, nodes)
    now = predicted_load(deployment, running, costs, nodes)
    if load is None or now is None:
        return True
    if beside and _replays_where_busy(assignment, running, costs, nodes):
        return load <= LEAVES_TIME
    return load <= KEEPS_PACE or load <= now + NOTICEABLE


def _replays_where_busy(
    assignment: Mapping[str, str],
    running: Mapping[str, str],
    costs: Mapping[str, float],
    nodes: Mapping[str, NodeView],
) -> bool:
    """Whether something begins on a node that makes epochs long by what is running there."""
    used: defaultdict[str, float] = defaultdict(float)
    for partition, node in running.items():
        used[node] += costs[partition]
    there = [nodes[node] for node in {*running.values(), *assignment.values()}]
    busy = busiest_of(there, used)
    return any(node in busy for partition, node in assignment.items() if partition not in running)


def busiest_of(nodes: Collection[NodeView], used: Mapping[str, float]) -> set[str]:
    """The nodes that make epochs long. used: CPU percent that partitions take on each, as measured."""
    share = {node.name: (used.get(node.name, 0.0) + node.load) / node.capacity for node in nodes}
    most = max(share.values(), default=0.0)
    return {node for node in share if share[node] >= BUSY * most}
