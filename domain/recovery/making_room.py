"""Moves of what runs, where a query that is out has no room because what is free is in pieces.

Nothing more comes back, nodes that are expected do not come, and enough CPU is free, but no single node has
room for a partition that is needed. What runs can change its node with its state, for which its topology
stands still for a moment. The wave is planned once more with what may move (`domain.planning.moving`). Its
moves are made first if they are worth it and if the wave that then follows, planned as any other, brings more
back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from domain.planning import RecoveryPlanProposal, chains
from domain.recovery.costs import full_name
from domain.recovery.incident import Deployment, TopologyCase
from domain.recovery.method import Situation, Waiting, Wave
from domain.recovery.moving import possible_moves

PATIENCE = 10.0
"""Seconds after the last loss and the last plan for which nodes that are expected are awaited."""
PAUSE = 5.0
"""Seconds for which the queries of a topology are late when a partition with little state moves."""
BYTES_PER_SECOND = 20e6
"""How fast state moves."""
HORIZON = 120.0
"""Seconds of a query that are worth the same as its priority: about so long would it wait for a new node."""

Moves = Mapping[str, Mapping[str, str]]
"""By topology: partition -> node to which it is to go."""


@dataclass(frozen=True, slots=True)
class Room:
    """moves: to be made first. queries: that come back then, by topology."""

    moves: Moves
    queries: Mapping[str, tuple[str, ...]]


def room_by_moves(
    situation: Situation,
    *,
    propose: Callable[[Mapping[str, float]], RecoveryPlanProposal],
    waves: Callable[[Situation], Mapping[str, Wave | Waiting]],
) -> Room | None:
    """What is to move for queries that are out, None if nothing helps. propose: the plan of a wave in which
    partitions may move, full name -> points of priority. waves: what is planned in a situation."""
    prices = {
        full_name(name, partition): price
        for name, deployment in sorted(situation.deployments.items())
        for partition, price in _prices(deployment, situation).items()
    }
    proposal = propose(prices) if prices else None
    if proposal is None or not proposal.moves:
        return None
    moves: dict[str, dict[str, str]] = {}
    for full, node in proposal.moves.items():
        name, _, partition = full.rpartition("/")
        moves.setdefault(name, {})[partition] = node
    after = _after(moves, situation)
    if after is None:
        return None
    decided = waves(after)
    queries = {name: one.queries for name, one in decided.items() if isinstance(one, Wave) and one.queries}
    worth = sum(
        _priority(situation.deployments[name], query) for name, whole in queries.items() for query in whole
    )
    return Room(moves, queries) if worth > sum(prices[full] for full in proposal.moves) else None


def is_awaited(
    cases: Collection[TopologyCase], situation: Situation, losses: Collection[float], now: float
) -> bool:
    """Whether nodes that are expected may come soon. losses: when nodes were lost."""
    applied = [case.applied_at for case in cases if case.applied_at is not None]
    return situation.expected > 0 and now - max([*losses, *applied], default=now) < PATIENCE


def _prices(deployment: Deployment, situation: Situation) -> dict[str, float]:
    """Points of priority for each partition of a topology that may move: what the queries that give output
    are worth for as long as that takes, since all of them stand still meanwhile. Nothing moves where an
    operator decides, a plan is under way or replays, or each plan puts everything back to a checkpoint; nor
    what leaves a drained node, or belongs to a topology of which an operator has given something up."""
    name, policy, graph = deployment.topology.name, deployment.policy, deployment.topology
    case = situation.cases.get(name)
    by_itself = policy.rebalancing == "automatic" and policy.approval == "automatic"
    if not by_itself or not graph.deterministic or policy.rollback == "global":
        return {}
    if case is not None and (case.unapplied or case.moves or case.put_back or _catches_up(case)):
        return {}
    failed = situation.failed(name)
    if situation.moving(name) or _not_running(deployment, situation) - failed:
        return {}
    busy = failed | situation.replaying.get(name, frozenset())
    torn = {p for chain in chains(graph) if busy.intersection(chain) for p in chain}
    stays = busy | torn | situation.held(name)
    nodes = {node.name for node in situation.usable}
    out = graph.failed_queries(situation.down(name) | deployment.unassigned)
    worth = sum(_priority(deployment, query) for query in set(graph.queries).difference(out))
    return {
        partition: worth * (PAUSE + deployment.state.get(partition, 0) / BYTES_PER_SECOND) / HORIZON
        for partition, node in deployment.assignment.items()
        if partition not in stays and node in nodes
    }


def _not_running(deployment: Deployment, situation: Situation) -> frozenset[str]:
    """Partitions that do not run."""
    alive = {node.name for node in situation.nodes.values() if node.alive}
    dead = {p for p, node in deployment.assignment.items() if node not in alive}
    return deployment.unassigned | dead


def _catches_up(case: TopologyCase) -> bool:
    """Whether a plan is carried out whose partitions are not there yet, or replay."""
    return bool((case.absent | case.behind) - case.failed)


def _after(moves: Moves, situation: Situation) -> Situation | None:
    """The situation in which all of these have been made, None if one has no room where it is to go."""
    for name, mine in sorted(moves.items()):
        deployment = situation.deployments[name]
        case = replace(situation.cases.get(name) or TopologyCase(name=name), moves=dict(mine))
        if possible_moves(case, situation) != mine:
            return None
        moved = replace(deployment, assignment={**deployment.assignment, **mine})
        situation = replace(situation, deployments={**situation.deployments, name: moved}, _carried={})
    return situation


def _priority(deployment: Deployment, query: str) -> int:
    return deployment.priorities.get(query, deployment.topology.priority(query))
