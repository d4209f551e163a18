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

KEEPS_PACE = 0.95
"""Load up to which a wave counts as keeping pace, with a little time to work off what it has missed."""
NOTICEABLE = 0.05
"""What a wave may add where there is no time left: it is no more than measurements vary."""
ONE_CORE = 100.0


def stage_seconds(
    deployment: Deployment,
    assignment: Mapping[str, str],
    costs: Mapping[str, float],
    nodes: Mapping[str, NodeView],
) -> float | None:
    """Seconds that the stages take for each second of input; None where a node is not known any more. A
    node's partitions of one stage are one task, so they have one core at most. costs: in CPU percent."""
    levels = partition_levels(deployment.topology)
    work: defaultdict[int, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for partition, node in assignment.items():
        if node not in nodes:
            return None
        work[levels[partition]][node] += costs[partition] / min(nodes[node].capacity, ONE_CORE)
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
