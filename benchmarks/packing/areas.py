"""Area under availability while nodes come one by one, against the best schedule that can be placed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict

from rich.table import Table

from benchmarks.packing.cases import BusySystem, fifteen_queries, generated_queries
from benchmarks.packing.exact import rooms_of
from benchmarks.packing.quality import Share, share_of
from benchmarks.runner import Report, Session, at_least, at_most
from domain.planning import (
    Arrival,
    BestDensity,
    LookAhead,
    NodeSpace,
    OperatorCentric,
    Planner,
    RecoveryProblem,
    recovery_problem,
)
from domain.planning.problem import GRAIN
from domain.simulation.placed_program import PlacedSchedule, Room, placed_schedule

LOAD = 0.78
HORIZON = 480.0
BOUND = 0.8
NODE_LIMIT = 20_000
SECONDS = 60.0
PlannerOf = Callable[[Sequence[Arrival], float], Planner]
"""Makes the planner of a wave from the arrivals still to come and the time left to the horizon."""

PLANNERS: dict[str, PlannerOf] = {
    "best_density": lambda _coming, _left: BestDensity(),
    "look_ahead": lambda coming, left: LookAhead(coming, horizon=left, time_limit=math.inf),
    "operator_centric": lambda _coming, _left: OperatorCentric(),
}


def areas(session: Session, report: Report) -> None:
    """Every planner on the same systems and arrivals; `look_ahead` knows the arrivals."""
    systems = {
        "fifteen queries": [
            fifteen_queries(load=LOAD, seed=seed) for seed in range(1 if session.quick else 6)
        ],
        "generated queries": [
            generated_queries(load=LOAD, seed=seed) for seed in range(5 if session.quick else 40)
        ],
    }
    report.parameters["areas"] = {"load": LOAD, "horizon": HORIZON, "max_utilisation": BOUND}
    report.results["areas"] = {}
    for name, several in systems.items():
        ratios: dict[str, list[float]] = {planner: [] for planner in PLANNERS}
        unproven = 0
        with session.progress(f"Areas, {name}", len(several)) as advance:
            for system in several:
                best = best_area(system)
                unproven += not best.proven
                for planner, planner_of in PLANNERS.items():
                    ratios[planner].append(area_of(system, planner_of) / best.area)
                advance()
        shares = {planner: share_of(mine) for planner, mine in ratios.items()}
        report.results["areas"][name] = {
            "systems": len(several),
            "planners": {planner: asdict(share) for planner, share in shares.items()},
        }
        report.tables.append(_table(f"{name}, nodes {LOAD:.0%} busy, {len(several)} schedules", shares))
        report.criteria.append(at_most(f"{name}: schedules not proven to be the best", unproven, 0))
        report.criteria += [
            at_least(f"{name}: area of {planner} relative to the optimum", shares[planner].mean, 0.97)
            for planner in ("best_density", "look_ahead")
        ]


def problem_of(system: BusySystem, live: Sequence[str], where: dict[str, str]) -> RecoveryProblem:
    """What is down now, and the nodes there are."""
    failed = {partition for partition, node in system.assignment.items() if node in system.dead}
    return recovery_problem(
        system.topology,
        failed=failed,
        restored=failed.intersection(where),
        costs=system.costs,
        nodes=[NodeSpace(name=name, capacity=system.capacity) for name in live],
        capacity=None if live else 0.0,
        assigned=where,
        max_utilisation=BOUND,
    )


def area_of(system: BusySystem, planner_of: PlannerOf) -> float:
    """Priority times seconds of the queries that this planner brings back, wave by wave."""
    where = system.surviving
    live = sorted(set(where.values()))
    area = 0.0
    for number, at in enumerate((0.0, *system.arrivals)):
        if number:
            live.append(f"replacement-{number}")
        coming = [Arrival(later - at, system.capacity * BOUND) for later in system.arrivals[number:]]
        problem = problem_of(system, live, where)
        if problem.queries and live:
            proposal = planner_of(coming, HORIZON - at).plan(problem)
            if proposal.placement is None:
                raise RuntimeError("a problem with nodes is placed")
            where |= proposal.placement.placed
            area += proposal.value * (HORIZON - at)
    return area


def best_area(system: BusySystem) -> PlacedSchedule:
    """The best schedule with hindsight, every partition on a node."""
    where = system.surviving
    problem = problem_of(system, sorted(set(where.values())), where)
    rooms = [Room(0.0, room * round(0.01 / GRAIN)) for room in rooms_of(problem)]
    whole = math.floor(system.capacity * BOUND / GRAIN + 1e-6)
    rooms += [Room(at, whole) for at in system.arrivals]
    found = placed_schedule(problem, rooms, horizon=HORIZON, node_limit=NODE_LIMIT, time_limit=SECONDS)
    if found is None:
        raise RuntimeError("restoring nothing is a solution")
    return found


def _table(title: str, shares: dict[str, Share]) -> Table:
    table = Table(title=f"Area under availability: {title}", title_justify="left")
    for column in ("planner", "mean", "worst"):
        table.add_column(column, justify="left" if column == "planner" else "right")
    for planner, share in shares.items():
        table.add_row(planner, f"{share.mean:.1%}", f"{share.worst:.1%}")
    return table
