"""The counterparts of Figures 12 and 13 of the paper on PPA: what fidelity promises, and how accurate the
queries are when exactly the partitions of the plan run.

Plans are made for output fidelity (`OF`), for what is left of the output if joins are taken for unions
(`IC`), for the share of all tuples that some partition still reads, which is how the paper words internal
completeness (`tuples`), and for fidelity by what partitions carry of the sources (`carried`). The queries run
with the real operators in this process, with rates that were measured in their complete run; that one is
verified first.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.replication.objectives import IC, OBJECTIVES, OF, TUPLES, fidelity
from benchmarks.replication.one_process import OneProcess
from benchmarks.replication.queries import Query, Windows, accuracy, counted, queries, windows_of
from benchmarks.runner import Criterion, Report, Session, at_least, at_most
from controlplane.verification.verifying import topology_verify
from domain.replication import FidelityModel, TooLargeError, replication_planner_named
from domain.topology import Topology

SHARES = tuple(percent / 100 for percent in range(10, 100, 10))
"""Budgets as shares of the partitions."""
QUICK = (0.3, 0.5, 0.7, 0.9)
PLANNERS = ("dynamic_programming", "structure_aware", "published", "greedy")
WINDOWS, QUICK_WINDOWS = 30, 6
SLIDE = 10


@dataclass(frozen=True, slots=True)
class Point:
    """A budget: by objective what is promised of the plan for it, its accuracy, and the share that it has of
    what the accurate output counted."""

    budget: int
    promised: dict[str, float]
    accuracy: dict[str, float]
    counted: dict[str, float]


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan of a planner for OF, None where it refuses."""

    fidelity: float | None
    accuracy: float | None


class Trial:
    """A query with its complete run, against which plans are measured."""

    def __init__(self, query: Query, home: Path, windows: int) -> None:
        self.query = query
        self.spec = query.spec()
        self.engine = OneProcess(self.spec, home, epochs=query.window + SLIDE * windows)
        self.topology = self.engine.topology
        self.accurate = self._windows(range(len(self.topology.partitions)))
        self.measured = self.engine.measured(after=query.window)
        self.objectives = {name: made(self.topology, self.measured) for name, made in OBJECTIVES.items()}
        self.model = self.objectives[OF]

    def faults(self) -> tuple[int, int]:
        """Rows of the complete run that were compared with what the verification recomputes, and wrong
        ones."""
        outputs = self.engine.write()
        found = topology_verify(spec=self.spec, home=self.engine.home, outputs=outputs)
        compared = sum(one.expected for one in found.queries if not one.skipped)
        wrong = sum(one.missing + one.duplicate + one.unexpected + one.different for one in found.queries)
        return compared, wrong + sum(bool(one.error) for one in found.queries)

    def _windows(self, plan: Collection[int]) -> Windows:
        alive = [self.topology.partitions[one] for one in plan]
        (query,) = self.topology.queries
        return windows_of(self.engine.outputs(alive)[query])

    def accuracy(self, plan: Collection[int]) -> float:
        return accuracy(self._windows(plan), self.accurate)

    def point(self, budget: int) -> Point:
        plans = {
            name: planned("structure_aware", model, budget) or frozenset()
            for name, model in self.objectives.items()
        }
        return Point(
            budget=budget,
            promised={name: fidelity(self.objectives[name], plan) for name, plan in plans.items()},
            accuracy={name: self.accuracy(plan) for name, plan in plans.items()},
            counted={name: counted(self._windows(plan), self.accurate) for name, plan in plans.items()},
        )

    def planned(self, planner: str, budget: int) -> Planned:
        plan = planned(planner, self.model, budget)
        if plan is None:
            return Planned(None, None)
        return Planned(fidelity(self.model, plan), self.accuracy(plan))


def planned(planner: str, model: FidelityModel, budget: int) -> frozenset[int] | None:
    """None where the planner refuses."""
    try:
        return frozenset[int]().union(*replication_planner_named(planner).choose(model, budget).steps)
    except TooLargeError:
        return None


def accuracy_of_plans(session: Session, report: Report) -> None:
    """Figures 12 and 13 for each query."""
    shares, windows = (QUICK, QUICK_WINDOWS) if session.quick else (SHARES, WINDOWS)
    report.parameters["accuracy"] = {"shares": shares, "windows": windows}
    found: dict[str, Any] = {}
    for query in queries()[:2] if session.quick else queries():
        with tempfile.TemporaryDirectory(prefix="resurge-accuracy-") as name:
            trial = Trial(query, Path(name), windows)
            compared, wrong = trial.faults()
            budgets = [max(1, round(share * len(trial.model.partitions))) for share in shares]
            points: list[Point] = []
            planners: dict[str, list[Planned]] = {name: [] for name in PLANNERS}
            with session.progress(f"Accuracy of {query.name}", len(budgets)) as advance:
                for budget in budgets:
                    points.append(trial.point(budget))
                    for planner, mine in planners.items():
                        mine.append(trial.planned(planner, budget))
                    advance()
        errors = errors_of(points)
        found[query.name] = {
            "data": query.data,
            "partitions": len(trial.model.partitions),
            "windows": len(trial.accurate),
            "compared": compared,
            "errors": errors,
            "errors_counted": errors_counted(points),
            "points": [asdict(point) for point in points],
            "planners": {name: [asdict(one) for one in mine] for name, mine in planners.items()},
            "rates": trial.measured.rates,
            "flows": trial.measured.flows,
        }
        report.tables += [_points(query, points), _planners(query, budgets, planners)]
        report.criteria += [
            at_least(f"{query.name}: rows of the complete run compared", compared, 1),
            at_most(f"{query.name}: wrong rows of the complete run", wrong, 0),
            *judged(query, trial.topology, points, errors),
        ]
    report.results["accuracy"] = {"shares": shares, "queries": found}


def errors_of(points: Sequence[Point]) -> dict[str, float]:
    """By objective the mean absolute difference between what it promises and the accuracy."""
    return {
        name: statistics.mean(abs(one.promised[name] - one.accuracy[name]) for one in points)
        for name in OBJECTIVES
    }


def errors_counted(points: Sequence[Point]) -> dict[str, float]:
    """The same with what was counted."""
    return {
        name: statistics.mean(abs(one.promised[name] - one.counted[name]) for one in points)
        for name in OBJECTIVES
    }


def judged(
    query: Query, topology: Topology, points: Sequence[Point], errors: dict[str, float]
) -> list[Criterion]:
    """With a join OF must be much closer than the others. Without one OF and IC are the same by
    definition."""
    if any(one.correlated for one in topology.operators):
        ratios = {name: errors[OF] / errors[name] if errors[name] else math.inf for name in (IC, TUPLES)}
        return [at_most(f"{query.name}: error of OF / of {name}", one, 0.5) for name, one in ratios.items()]
    same = sum((one.promised[OF], one.accuracy[OF]) == (one.promised[IC], one.accuracy[IC]) for one in points)
    name = f"{query.name}, which joins nothing: budgets at which OF and IC differ"
    return [at_most(name, len(points) - same, 0)]


def _points(query: Query, points: Sequence[Point]) -> Table:
    table = Table(title=f"Figure 12 {query.name}: promised / accuracy / counted", title_justify="left")
    for column in ("budget", *OBJECTIVES):
        table.add_column(column, justify="right")
    for one in points:
        cells = (
            f"{one.promised[name]:.3f} / {one.accuracy[name]:.3f} / {one.counted[name]:.3f}"
            for name in OBJECTIVES
        )
        table.add_row(str(one.budget), *cells)
    for label, errors in (("error", errors_of(points)), ("of counted", errors_counted(points))):
        table.add_row(label, *(f"{errors[name]:.3f}" for name in OBJECTIVES))
    return table


def _planners(query: Query, budgets: Sequence[int], planners: dict[str, list[Planned]]) -> Table:
    table = Table(title=f"Figure 13 {query.name}: OF / accuracy", title_justify="left")
    table.add_column("planner")
    for budget in budgets:
        table.add_column(str(budget), justify="right")
    for name, mine in planners.items():
        cells = (
            "refuses" if one.fidelity is None else f"{one.fidelity:.2f}/{one.accuracy:.2f}" for one in mine
        )
        table.add_row(name, *cells)
    return table
