"""The best course a recovery could have taken, with hindsight: what real and simulated ones are measured by.

A schedule is computed that knows all arrivals, and carried out in the same fluid and with the same delays as
any other, except that no wave waits for the one before it. Up to `MOST_COLUMNS` the schedule is the
optimum with every partition placed on a node (`placed_program`). Beyond that it is that of
`LookAhead.clairvoyant`, which counts capacity in sum, so no node needs to have room for anything: better
than what any coordinator can do, or, where the search was cut short, at least good.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from domain.availability import Milestones, area, milestones
from domain.planning import Arrival, LookAhead, NodeSpace, RecoveryProblem, recovery_problem
from domain.planning.problem import capacity_grains
from domain.recovery.costs import Costs, costs_fix
from domain.recovery.incident import Deployment, NodeView
from domain.simulation.coordinator import deployments_of, nodes_of
from domain.simulation.fluid import Fluid
from domain.simulation.outcome import CurvePoint, QueryOutcome, availability_curve
from domain.simulation.placed_program import Room, placed_schedule, program_size
from domain.simulation.provider import Coming
from domain.simulation.scenario import Scenario, SimulatedTopology
from domain.simulation.watch import QueryWatch

MOST_COLUMNS = 1_500
"""Of the program with placement; it proves 300 in about two seconds."""
MOST_WAVES = 24
"""Without placement, arrivals are put into so many moments at most, each no later than it really was."""
NODE_LIMIT = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Availability if the best schedule had been followed; times as in `Outcome`.

    placed: every partition has a node, otherwise capacity counts in sum. proven: no schedule is better.
    """

    started_at: float
    curve: tuple[CurvePoint, ...]
    milestones: Milestones
    placed: bool
    proven: bool

    def area(self, horizon: float) -> float:
        """Mean priority-weighted availability over this many seconds after the failure."""
        return area(self.curve, self.started_at, self.started_at + horizon)


def best_course(
    scenario: Scenario,
    arrivals: Sequence[Coming],
    *,
    horizon: float,
    bound: float = 0.0,
    time_limit: float = math.inf,
) -> Reference | None:
    """What would have been best for a single moment of failure and these arrivals, within `horizon` seconds.

    bound: share of a node that courses it is compared with have planned, where that is more than usual.
    None where nodes fail at several moments: the best schedule then depends on which partitions fail.
    time_limit: seconds for the solver, where the machine may matter.
    """
    start = scenario.first_failure
    if any(failure.at != start for failure in scenario.failures):
        return None
    dead = {name for failure in scenario.failures for name in scenario.victims(failure)}
    deployments, nodes = deployments_of(scenario), nodes_of(scenario)
    costs = costs_fix(deployments, nodes, {}, scenario.max_utilisation)
    bound = max(bound, scenario.max_utilisation)
    problem = _problem(scenario, deployments, nodes, costs, dead, bound)
    delays = scenario.delays
    known = start + delays.detection + delays.look
    carried_out = delays.publication + delays.adoption + delays.restoration
    coming = [Arrival(max(0.0, node.at + delays.look - known), node.capacity * bound) for node in arrivals]
    fluid, watch = _world(scenario)
    # Capacity that is restored later than this is not available within the horizon.
    useful = horizon - float(watch.delay.min())
    last = start + max(_last_restored(one, scenario, useful) for one in scenario.topologies)
    # A wave past that counts next to nothing, but belongs to the course.
    until = max([1.0, last - known - carried_out, *(arrival.at + 1.0 for arrival in coming)])
    schedule = _schedule(problem, coming, until=until, time_limit=time_limit)
    fluid.advance(start)
    lost = fluid.indices(problem.partitions)
    fluid.stop(lost)
    watch.changed()
    for at, restored in schedule.waves:
        fluid.advance(known + at + carried_out)
        for one in scenario.topologies:
            mine = [name for name in restored if name.partition("/")[0] == one.topology.name]
            origin = fluid.now if one.topology.spec.bounded else start - scenario.age_of(one)
            fluid.start(fluid.indices(mine), origin)
        watch.changed()
    watch.finish()
    hit = fluid.touched(lost)
    queries = [
        QueryOutcome(
            name=name,
            priority=deployments[name.partition("/")[0]].priorities[name.partition("/")[2]],
            failed=bool(hit[i]),
            restored_at=None,
            gaps=tuple(watch.gaps[i]),
        )
        for i, name in enumerate(fluid.queries)
    ]
    returned = [query.available_at - start for query in queries if query.available_at is not None]
    return Reference(
        started_at=start,
        curve=availability_curve(queries, start),
        milestones=milestones(int(hit.sum()), returned),
        placed=schedule.placed,
        proven=schedule.proven,
    )


def _last_restored(one: SimulatedTopology, scenario: Scenario, useful: float) -> float:
    """Seconds after the failure until which it has to be restored to have caught up within `useful`."""
    if one.topology.spec.bounded:
        return useful
    return (useful * (scenario.replay_speed - 1) - scenario.age_of(one)) / scenario.replay_speed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Schedule:
    """waves: partitions and when they are restored, in seconds, in order."""

    waves: list[tuple[float, list[str]]]
    placed: bool
    proven: bool


def _schedule(
    problem: RecoveryProblem, coming: list[Arrival], *, until: float, time_limit: float
) -> _Schedule:
    rooms = [Room(0.0, capacity_grains(room)) for room in _free(problem).values()]
    rooms += [Room(arrival.at, capacity_grains(arrival.capacity)) for arrival in coming]
    if problem.queries and program_size(problem, rooms) <= MOST_COLUMNS:
        placed = placed_schedule(problem, rooms, horizon=until, node_limit=NODE_LIMIT, time_limit=time_limit)
        if placed is not None:
            waves = [
                (float(at), [problem.partitions[i] for i in np.flatnonzero(placed.restored_at == at)])
                for at in np.unique(placed.restored_at[np.isfinite(placed.restored_at)])
            ]
            return _Schedule(waves=waves, placed=True, proven=placed.proven)
    ahead = LookAhead(_merged(coming, MOST_WAVES), horizon=until, node_limit=200, time_limit=time_limit)
    found = ahead.clairvoyant(problem)
    done = problem.covered(())
    waves = []
    index = {query: i for i, query in enumerate(problem.queries)}
    for wave in found.waves:
        covered = done | problem.covered(index[query] for query in wave.queries)
        restored = [problem.partitions[i] for i in problem.partitions_of(covered & ~done)]
        if restored:
            waves.append((wave.at, restored))
        done = covered
    return _Schedule(waves=waves, placed=False, proven=found.proven and len(coming) <= MOST_WAVES)


def _free(problem: RecoveryProblem) -> dict[str, float]:
    """CPU percent that each node of the problem can still take."""
    room = {
        node.name: node.capacity * problem.max_utilisation - node.load
        for node in problem.nodes
        if not node.standby
    }
    for partition, node in problem.assigned.items():
        if node in room:
            room[node] -= problem.placed_costs[partition]
    return {name: max(0.0, free) for name, free in room.items()}


def _problem(
    scenario: Scenario,
    deployments: dict[str, Deployment],
    nodes: dict[str, NodeView],
    costs: Costs,
    dead: set[str],
    bound: float,
) -> RecoveryProblem:
    """The failed partitions, and those that run for nothing: a course may stop these too, and start them
    again elsewhere."""
    failed: set[str] = set()
    assigned: dict[str, str] = {}
    for one in scenario.topologies:
        name, topology = one.topology.name, one.topology
        left = {**one.assignment, **one.taken_over(dead)}
        lost = {p for p, node in left.items() if node in dead}
        lost |= topology.idle_partitions(lost)
        failed |= {f"{name}/{p}" for p in lost}
        assigned |= {f"{name}/{p}": node for p, node in left.items() if p not in lost}
    return recovery_problem(
        [deployment.topology for deployment in deployments.values()],
        failed=failed,
        costs={f"{name}/{p}": cost for name, mine in costs.items() for p, cost in mine.items()},
        nodes=[
            NodeSpace(name=node.name, capacity=node.capacity, standby=not node.usable)
            for node in nodes.values()
            if node.name not in dead
        ],
        capacity=None if len(dead) < len(nodes) else 0.0,
        assigned=assigned,
        priorities={
            f"{name}/{query}": priority
            for name, deployment in deployments.items()
            for query, priority in deployment.priorities.items()
        },
        max_utilisation=bound,
    )


def _world(scenario: Scenario) -> tuple[Fluid, QueryWatch]:
    start = scenario.first_failure - max(scenario.age_of(one) for one in scenario.topologies)
    fluid = Fluid([one.topology for one in scenario.topologies], speed=scenario.replay_speed, at=start)
    latencies = [one.latency for one in scenario.topologies for _ in one.topology.queries]
    return fluid, QueryWatch(fluid, latencies, scenario.policy)


def _merged(arrivals: list[Arrival], most: int) -> list[Arrival]:
    """At most so many moments; each arrival is moved to the earliest of its group."""
    if len(arrivals) <= most:
        return arrivals
    ordered = sorted(arrivals)
    groups = np.array_split(np.arange(len(ordered)), most)
    return [
        Arrival(ordered[int(group[0])].at, math.fsum(ordered[int(i)].capacity for i in group))
        for group in groups
    ]
