"""Whether what runs under a plan keeps pace with its input.

An epoch is one job, and each of its stages lasts as long as its busiest node works. What a job takes besides
does not depend on where partitions are, so the load that was usual changes by what the stages change:

    load = usual load + stages under the plan - stages at home

each stage in seconds of work for each second of input. CPU alone does not tell: nodes wait for each other in
every stage, and are late long before all of them have nothing left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from domain.planning.deployment import partition_levels
from domain.recovery.incident import Deployment, NodeView

KEEPS_PACE = 1.0
"""Load up to which a wave counts as keeping pace. A little less is measured then than is predicted: stages
do not have to wait for all that others take on their nodes."""
NOTICEABLE = 0.05
"""What a wave may add where there is no time left: it is no more than measurements vary."""
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


def keeps_pace(
    deployment: Deployment,
    assignment: Mapping[str, str],
    running: Mapping[str, str],
    costs: Mapping[str, float],
    nodes: Mapping[str, NodeView],
) -> bool:
    """Whether a topology keeps pace under this assignment, or is hardly later than with what is `running`;
    yes where its load in peace is not known."""
    if deployment.usual_load is None:
        return True
    at_home, after, now = (
        stage_seconds(deployment, where, costs, nodes) for where in (deployment.homes, assignment, running)
    )
    if at_home is None or after is None or now is None:
        return True
    return deployment.usual_load + after - at_home <= KEEPS_PACE or after <= now + NOTICEABLE
