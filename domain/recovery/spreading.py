"""What has not begun goes to all nodes that have joined since, and what several waves have put on new nodes
is placed together.

Replacements come one by one, and each is filled as it comes. With little CPU a node needs half a minute until
its executor can work, in which others join that would then have nothing to do, or get waves of their own:
then one of them has all partitions of a stage, for which the others wait in every epoch. What has not begun
has no state where it is planned, so it may be planned again at no cost. That is also true of what the same
plan has put back elsewhere if it waits for such partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping

from domain.planning import partition_levels
from domain.recovery.blocking import spare_nodes
from domain.recovery.incident import Deployment, Phase, TopologyCase
from domain.recovery.memory import Memory
from domain.recovery.method import Situation
from domain.recovery.policy import INCREMENTAL

STARTING = 8.0
"""Seconds after a plan was applied in which executors may still be started. Where CPU is not scarce they are
ready by then, and what would go to a node that joined later would return later."""
STARTED = 20.0
"""Seconds after a plan was applied from which its executors are nearly ready: with a fifth of a core they
take 30 to 40 s, and those of a node that joins now would take as long from then on."""
SHORTER = 0.85
"""Most that the stages of what is placed again may take, of what they take as planned: the driver fetches all
of it anew, and a plan made with other costs may leave out queries."""


def not_begun(
    case: TopologyCase,
    deployments: Mapping[str, Deployment],
    situation: Callable[[], Situation],
    memory: Memory,
    now: float,
) -> tuple[frozenset[str], frozenset[str]]:
    """The partitions of a topology that are to be restored on nodes which joined in this incident and run
    nothing of it yet, those that wait for them, and the nodes for whose sake they are planned again: those
    that joined since, or those that several waves have filled. Two empty sets where nothing is to be planned
    again. Each node that joins is a reason once."""
    nothing = frozenset[str](), frozenset[str]()
    deployment = deployments.get(case.name)
    if deployment is None or case.phase is not Phase.REPLAYING or case.method != INCREMENTAL:
        return nothing
    if not deployment.topology.deterministic:
        return nothing  # each plan puts all of it back
    if case.applied_at is None or not STARTING <= now - case.applied_at < STARTED:
        return nothing
    if deployment.policy.approval != "automatic" or case.moves or case.forced or not case.absent:
        return nothing
    planned: defaultdict[str, set[str]] = defaultdict(set)
    for partition, node in deployment.assignment.items():
        if node in memory.arrived and partition not in case.failed:
            planned[node].add(partition)
    waiting = {p for mine in planned.values() if mine <= case.absent for p in mine}
    if waiting:
        waiting |= _kept_waiting(case, deployment, waiting)
    if len(waiting) < 2:
        return nothing
    filled = {deployment.assignment[p] for p in waiting} & memory.arrived
    several = filled if len(filled) > 1 and waiting - case.restore else set[str]()
    joined = memory.arrived.intersection(spare_nodes(case, situation()))
    new = (joined | several) - memory.spread.get(case.name, set())
    if not new or not _gets_shorter(deployment, waiting, joined, memory.costs.get(case.name, {})):
        return nothing
    return frozenset(waiting), frozenset(new)


def _gets_shorter(
    deployment: Deployment, waiting: Collection[str], joined: Collection[str], costs: Mapping[str, float]
) -> bool:
    """Whether the stages of an epoch, which run one after the other, would end much sooner with what waits
    evenly on its nodes and those that joined. The time of a stage is the cost of what is on its fullest node.
    """
    levels = partition_levels(deployment.topology)
    nodes = {deployment.assignment[partition] for partition in waiting}.union(joined)
    planned: defaultdict[int, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    largest: defaultdict[int, float] = defaultdict(float)
    for partition in waiting:
        cost, level = costs.get(partition, 0.0), levels[partition]
        planned[level][deployment.assignment[partition]] += cost
        largest[level] = max(largest[level], cost)
    now = sum(max(mine.values()) for mine in planned.values())
    even = sum(max(largest[level], sum(mine.values()) / len(nodes)) for level, mine in planned.items())
    return even <= SHORTER * now


def _kept_waiting(case: TopologyCase, deployment: Deployment, absent: Collection[str]) -> set[str]:
    """What the last plan has put back and cannot go on, since something upstream is absent."""
    graph = deployment.topology
    blocked: set[str] = set()
    for group in graph.groups:
        waited_for = graph.above(group).union(group if len(group) > 1 else ())
        if not waited_for.isdisjoint(absent) or not waited_for.isdisjoint(blocked):
            blocked.update(group)
    runs = deployment.assignment.keys() - case.failed
    return blocked & case.restore & case.behind & runs
