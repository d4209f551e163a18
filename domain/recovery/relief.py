"""Relief for a wave that was applied and does not catch up: queries are parked, or moves to nodes with room.

What partitions cost is measured, and can be wrong; a wave that only seemed to fit leaves every query late.
How much it is too much is known from the load that the driver reports. The queries worth least for the time
that they take are parked then, and the nodes take no more than what is left on them (their *limit*), whatever
costs say. Nodes without a limit take some of them at once, if they have room, also those that join later. The
limits end when the load that is measured leaves time (`domain.recovery.overload`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from domain.execution.catching_up import SOON
from domain.planning import chains, natural_key, queries_to_park
from domain.planning.parking import PARK_TO
from domain.recovery.blocking import load_elsewhere, spare_nodes
from domain.recovery.costs import Costs
from domain.recovery.incident import Deployment, NodeView, Phase, TopologyCase
from domain.recovery.method import Situation
from domain.recovery.moving import even_out
from domain.recovery.pace import busiest_of, predicted_load

CATCH_UP_LIMIT, IDLE_LIMIT = 20.0, 5.0
"""Seconds after which a plan that was applied, and has not caught up, is looked at again; the second, where
nodes have nothing of the topology to run."""
TIME_LEFT, FULL, PATIENCE = 1.0, 1.5, 30.0
"""Below the first load, queries that give output keep pace and leave time to those that replay. Moves would
only disturb them: no epoch runs while state changes its node, new nodes are slow at first, and what a
partition has buffered for those behind stays on its old node. Below the second, moves wait this many seconds,
since nodes that are new to the work are slow for a while."""
LITTLE_TIME, LONG = 0.9, 60.0
"""Load from which a replay does not end soon: for a wave that has not caught up after so many seconds."""
MUCH_STATE, AT_LAST = 60.0, 300.0
"""Seconds of input since the checkpoint from which state takes so long to move that queries are better late;
and seconds after the plan from which it moves all the same."""
LIGHT = 64 * 1024
"""Bytes of state up to which a partition moves while others replay: it moves within a job, and what it
buffered for those behind is sent from where it was."""
LONG_REPLAY = 60.0
"""Seconds that a replay still takes from which shorter epochs are worth a pause of some seconds: where most
nodes were lost, the survivors have all sources, and every epoch waits for these two or three."""
LIGHT_AFTER, PARK_AFTER = 10.0, 45.0
"""Seconds for which a replay comes nearer too slowly before partitions with little state move, and before
queries are parked. What is parked goes back to its checkpoint, and no epoch runs while state moves, so both
cost more than to wait for a replay that arrives soon. Executors that have just started are slow for half a
minute."""
SILENT = 1.25
"""What counts as load where no query gives output, so that none is known, and a replay comes nearer too
slowly."""
LATE_AFTER = 10.0
"""Seconds after all has caught up in which queries become available where nodes keep pace with ease: what
waited is worked off, and five seconds of usual latency make a query available."""
EASE = 0.8
"""Load below which nodes keep pace with ease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relief:
    """waited: seconds since the plan was applied. moves: partition -> node to which it is to go; parks:
    queries that are to stop. One of the two is empty. of: why moves help. What moves has little state
    (`light`), or whatever it has: because partitions are `behind`; because queries are `late` although
    nothing is behind, and waited is then since it caught up; or because nodes are too `busy` for what runs
    live."""

    waited: float
    moves: Mapping[str, str]
    parks: frozenset[str] = frozenset()
    of: Literal["light", "behind", "late", "busy"] = "behind"


def relief_for(
    case: TopologyCase,
    *,
    deployments: Mapping[str, Deployment],
    situation: Callable[[], Situation],
    now: float,
    parked: Collection[str],
    parked_before: bool,
    awaited: bool,
) -> Relief | None:
    """What eases the wave of a topology, if that is needed and its policy permits it.

    Partitions with little state move first, also where a replay arrives in some minutes: where most nodes
    were lost, what all queries need, as sources, was restored on the few that were left, and later nodes got
    the rest. Nothing else is done while the replay arrives soon. Then queries are parked, since that takes
    effect at once: no epoch runs while state changes its node, and what has stopped returns by itself to
    nodes that have room. parked: queries that are parked by policy now, so the room where they were is
    theirs. parked_before: it was done in this incident, and was not enough, so moves come first. awaited:
    queries that failed are not available."""
    if case.phase in (Phase.VERIFYING, Phase.VERIFIED):
        return _late(case, deployments, situation, now) if awaited else None
    deployment = deployments.get(case.name)
    if case.phase is not Phase.REPLAYING or deployment is None or case.applied_at is None:
        return None
    if case.absent & case.restore:
        return None  # an executor is still being started: neither would help
    waited = now - case.applied_at
    if not case.behind:
        return _busy(case, deployments, situation, waited)
    if waited < IDLE_LIMIT:
        return None
    seen = situation()
    moves = _light_moves(case, deployments, seen) if _worth_light_moves(case, waited) and not parked else {}
    if moves:
        return Relief(waited=waited, moves=moves, of="light")
    if case.not_gaining <= 0.0:
        return None
    load = case.load or (SILENT if case.not_gaining >= PARK_AFTER else 0.0)
    full = load >= _time_left(waited) and deployment.policy.overload == "automatic"
    parks = _parks(case, seen, load) if full else frozenset[str]()
    moves = _late_moves(case, waited, deployments, seen) if not parks or parked_before else {}
    if moves:
        return Relief(waited=waited, moves=moves) if waited >= _moves_after(case, seen) else None
    return Relief(waited=waited, moves={}, parks=parks) if parks and case.not_gaining >= PARK_AFTER else None


def _late(
    case: TopologyCase, deployments: Mapping[str, Deployment], situation: Callable[[], Situation], now: float
) -> Relief | None:
    """Moves where nothing is behind, but some nodes have so much to do that queries stay late: those that
    joined later took what was still down, and the rest is where it was put when there were few nodes."""
    deployment = deployments.get(case.name)
    if deployment is None or case.caught_up_at is None:
        return None
    seen = situation()
    if now - case.caught_up_at < LATE_AFTER and _load(case, deployment, seen) < EASE:
        return None
    moves = _moves(case, deployments, seen)
    return Relief(waited=now - case.caught_up_at, moves=moves, of="late") if moves else None


def _busy(
    case: TopologyCase,
    deployments: Mapping[str, Deployment],
    situation: Callable[[], Situation],
    waited: float,
) -> Relief | None:
    """Moves where all that is not parked works live and is too much for its nodes: what could be parked has
    been (`domain.recovery.overload`), so nothing else helps."""
    if waited < LONG or case.load < TIME_LEFT or not may_move_first(case, seen := situation()):
        return None
    moves = _moves(case, deployments, seen)
    return Relief(waited=waited, moves=moves, of="busy") if moves else None


def _worth_light_moves(case: TopologyCase, waited: float) -> bool:
    """Whether a replay is not about to arrive, at a pace that is known, or gains too little."""
    if case.not_gaining > 0.0:
        return case.not_gaining >= LIGHT_AFTER
    return waited >= PATIENCE and LONG_REPLAY < (case.catch_up or 0.0) <= SOON


def _load(case: TopologyCase, deployment: Deployment, situation: Situation) -> float:
    """The load of what runs, by what is measured or by where partitions are: what was measured while fewer
    ran is too low."""
    running = {p: node for p, node in deployment.assignment.items() if p not in case.failed}
    costs = deployment.measured(situation.costs[case.name])
    predicted = predicted_load(deployment, running, costs, situation.nodes)
    return max(case.load, predicted or 0.0)


def _light_moves(
    case: TopologyCase, deployments: Mapping[str, Deployment], situation: Situation
) -> dict[str, str]:
    """What moves at once because it has little state, also while something is down for which there is no
    room. The rest of a chain stays until all of it runs, since it would be torn from what is restored."""
    deployment = deployments[case.name]
    torn = {p for chain in chains(deployment.topology) if case.failed.intersection(chain) for p in chain}
    light = {p for p, size in deployment.state.items() if size <= LIGHT} - case.failed - torn
    if not light or not deployment.topology.deterministic or situation.moving(case.name):
        return {}
    return _moves(case, deployments, situation, light)


def _late_moves(
    case: TopologyCase, waited: float, deployments: Mapping[str, Deployment], situation: Situation
) -> dict[str, str]:
    """What moves with whatever state it has, where that may be worth the time."""
    if 0.0 < case.load < _time_left(waited) or not may_move_first(case, situation):
        return {}
    deployment = deployments[case.name]
    state = (case.head - deployment.latest) * deployment.topology.spec.epoch_interval
    if state > MUCH_STATE and waited < AT_LAST:
        return {}
    return _moves(case, deployments, situation)


def may_move_first(case: TopologyCase, situation: Situation) -> bool:
    """Whether partitions may move before what is down is back: nothing is, but what is parked, or it finds
    no room on nodes that have a limit, and none is expected."""
    if case.failed <= situation.held(case.name):
        return True
    return bool(situation.at_limit) and not situation.expected and not situation.moving(case.name)


def _moves(
    case: TopologyCase,
    deployments: Mapping[str, Deployment],
    situation: Situation,
    movable: Collection[str] | None = None,
) -> dict[str, str]:
    """With the costs of the incident each set of moves makes epochs shorter, so there is an end of them."""
    by_itself = deployments[case.name].policy.rebalancing == "automatic"
    if not by_itself or case.moves or case.forced:
        return {}
    return even_out(
        case.name,
        deployments=deployments,
        usable=situation.usable,
        costs=situation.costs,
        max_utilisation=situation.max_utilisation,
        failed={name: situation.failed(name) for name in deployments},
        movable=movable,
    )


def _moves_after(case: TopologyCase, situation: Situation) -> float:
    """Seconds after the plan was applied."""
    if TIME_LEFT <= case.load < FULL:
        return PATIENCE
    return IDLE_LIMIT if spare_nodes(case, situation) else CATCH_UP_LIMIT


def _time_left(waited: float) -> float:
    return TIME_LEFT if waited < LONG else LITTLE_TIME


def _parks(case: TopologyCase, situation: Situation, load: float) -> frozenset[str]:
    """The queries worth least for their time, as many as bring the load to where the rest can catch up, and
    those that are down and would keep their partitions running."""
    deployment = situation.deployments[case.name]
    graph = deployment.topology
    parked = situation.parked.get(case.name, frozenset())
    down = set(graph.failed_queries(case.failed)) - parked
    parks = queries_to_park(
        graph,
        assignment={p: node for p, node in deployment.assignment.items() if p not in case.failed},
        nodes=[node.space() for node in situation.usable],
        costs=deployment.measured(situation.costs[case.name]),
        priorities=deployment.priorities,
        load=load,
        parked={*parked, *down},
    )
    stop = graph.exclusive_partitions({*parked, *down, *parks})
    needless = {query for query in down if graph.query_partitions[query] & stop - case.failed}
    return frozenset(parks) | needless if parks else frozenset()


def queries_with_room(name: str, situation: Situation, queries: Collection[str]) -> frozenset[str]:
    """Those of the parked `queries` that have room on nodes without a limit, the most valuable first."""
    deployment, costs = situation.deployments[name], situation.costs[name]
    graph = deployment.topology
    failed = {other: situation.failed(other) for other in situation.deployments}
    load = load_elsewhere("", situation.deployments, situation.costs, failed)
    room = {
        node.name: node.limit(situation.max_utilisation) - load.get(node.name, 0.0)
        for node in situation.usable
    }
    runs = deployment.assignment.keys() - failed[name]
    back: set[str] = set()
    for query in sorted(
        queries, key=lambda q: (-deployment.priorities.get(q, graph.priority(q)), natural_key(q))
    ):
        left = dict(room)
        needed = graph.query_partitions[query] - runs
        if needed & (failed[name] - situation.held(name)):
            continue  # it would wait for more than its own partitions
        for partition in sorted(needed, key=lambda p: (-costs[p], natural_key(p))):
            node = max(left, key=lambda one: (left[one], one), default=None)
            if node is None or left[node] < costs[partition]:
                break
            left[node] -= costs[partition]
        else:
            back.add(query)
            room, runs = left, runs | needed
    return frozenset(back)


def limits_of(
    name: str,
    deployments: Mapping[str, Deployment],
    costs: Costs,
    *,
    failed: Mapping[str, Collection[str]],
    stop: Collection[str],
    load: float,
    nodes: Collection[NodeView] | None = None,
) -> dict[str, float]:
    """CPU percent that may be planned on each node where a topology runs, with all topologies: what remains
    there without the partitions that are to `stop`, and where nothing does, as much less than now as the load
    is too high. failed: by topology, what takes nothing although it is assigned. nodes: only of those among
    these that make epochs long by what is measured."""
    now: defaultdict[str, float] = defaultdict(float)
    left: defaultdict[str, float] = defaultdict(float)
    used: defaultdict[str, float] = defaultdict(float)
    for other, deployment in deployments.items():
        gone = failed.get(other, ())
        measured = deployment.measured(costs[other])
        for partition, node in deployment.assignment.items():
            if partition not in gone:
                now[node] += costs[other][partition]
                used[node] += measured[partition]
                left[node] += costs[other][partition] if other != name or partition not in stop else 0.0
    mine = {node for p, node in deployments[name].assignment.items() if p not in failed.get(name, ())}
    if nodes is not None:
        mine &= busiest_of(nodes, used)
    share = min(1.0, PARK_TO / load) if load > 0.0 else 1.0
    return {node: round(left[node] or share * now[node], 4) for node in sorted(mine)}
