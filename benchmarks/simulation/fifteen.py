"""Figure 12: fifteen queries on ten nodes of which eight die; replacements come one by one."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.table import Table

from benchmarks.runner import Report, Session, at_least
from benchmarks.simulation.cases import DEAD, fifteen_queries
from domain.availability import Sample
from domain.simulation.comparison import scenario_for
from domain.simulation.outcome import LatencyPoint
from domain.simulation.reference import best_course
from domain.simulation.scenario import Scenario
from domain.simulation.world import simulate

LOADS = (0.4, 0.6, 0.78)
PLANNERS = ("best_density", "look_ahead", "operator_centric")
BEST_CASE_DELAY = 180.0
HORIZON = 480.0
GRID = 10.0
"""Seconds after the failure over which areas are taken, and the spacing of the curves that are drawn."""


def measure(session: Session, report: Report) -> None:
    """Every algorithm, with the same arrivals, for many seeds."""
    seeds = 2 if session.quick else 15
    report.parameters["fifteen"] = {
        "loads": LOADS, "seeds": seeds, "horizon": HORIZON, "best_case_delay": BEST_CASE_DELAY,
    }  # fmt: skip
    found: dict[str, dict[str, Any]] = {}
    with session.progress("Fifteen queries", len(LOADS) * seeds) as advance:
        for load in LOADS:
            runs: dict[str, list[dict[str, Any]]] = {}
            for seed in range(seeds):
                for name, run in _one(fifteen_queries(load=load, seed=seed)).items():
                    runs.setdefault(name, []).append(run)
                advance()
            found[f"{load:g}"] = {name: _summary(mine, runs) for name, mine in runs.items()}
    report.results["fifteen"] = found
    for name, rows in found.items():
        report.tables.append(_table(float(name), rows))
    roomy, tight = found[f"{LOADS[0]:g}"], found[f"{LOADS[-1]:g}"]
    for name, rows in found.items():
        share = rows["best_density"]["share_of_clairvoyant"]
        report.criteria.append(
            at_least(f"best_density, load {name}: area relative to the clairvoyant optimum", share, 0.97)
        )
    report.criteria += [
        at_least(
            f"load {LOADS[0]:g}: first query, blocking / best_density",
            roomy["best_density"]["first_speed_up"],
            3.0,
        ),
        at_least(
            f"load {LOADS[-1]:g}: area, best_density / blocking",
            tight["best_density"]["area"] / max(tight["blocking"]["area"], 1e-9),
            1.0,
        ),
    ]


def _one(scenario: Scenario) -> dict[str, dict[str, Any]]:
    """One failure, recovered with every algorithm."""
    ways = {name: scenario_for(scenario, name) for name in (*PLANNERS, "blocking")}
    ways["best_case"] = replace(ways["blocking"], arrivals=(BEST_CASE_DELAY,) * DEAD)
    outcomes = {name: simulate(way) for name, way in ways.items()}
    if not all(outcome.ended for outcome in outcomes.values()):
        raise RuntimeError(f"a recovery did not end; seed {scenario.seed}")
    best = best_course(scenario, outcomes["blocking"].arrivals, horizon=HORIZON)
    if best is None:
        raise RuntimeError("a single failure has a best course")
    runs: dict[str, dict[str, Any]] = {
        name: {
            "first": outcome.milestones.first,
            "half": outcome.milestones.half,
            "all": outcome.milestones.all,
            "area": outcome.area(HORIZON),
            "share": outcome.area(HORIZON) / best.area(HORIZON),
            "available": _available(outcome.curve),
            "latency": _latency(outcome.latency),
            "peak": max(point.failed for point in outcome.latency),
        }
        for name, outcome in outcomes.items()
    }
    runs["clairvoyant"] = {
        "first": best.milestones.first,
        "half": best.milestones.half,
        "all": best.milestones.all,
        "area": best.area(HORIZON),
        "share": 1.0,
        "available": _available(best.curve),
        "proven": best.proven,
    }
    return runs


def _available(curve: Sequence[Sample]) -> list[int]:
    """Available queries on the grid."""
    return [
        next((one.available for one in reversed(curve) if one.at <= i * GRID), curve[0].available)
        for i in range(_points())
    ]


def _latency(points: Sequence[LatencyPoint]) -> list[float]:
    """Mean relative latency of the failed queries on the grid; 1 after the recovery has ended."""
    by_moment = {round(point.at, 6): point.failed for point in points}
    return [by_moment.get(round(i * GRID, 6), 1.0) for i in range(_points())]


def _points() -> int:
    return math.floor(600.0 / GRID) + 1


def _summary(mine: list[dict[str, Any]], runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Medians of milestones and means of areas and curves, over all seeds."""
    speed_ups = [theirs["first"] / ours["first"] for ours, theirs in zip(mine, runs["blocking"], strict=True)]
    summary: dict[str, Any] = {
        name: round(statistics.median(run[name] for run in mine), 2) for name in ("first", "half", "all")
    }
    summary |= {
        "area": round(statistics.mean(run["area"] for run in mine), 5),
        "share_of_clairvoyant": round(statistics.mean(run["share"] for run in mine), 5),
        "worst_share": round(min(run["share"] for run in mine), 5),
        "first_speed_up": round(statistics.median(speed_ups), 3),
        "worst_first_speed_up": round(min(speed_ups), 3),
        "available": [
            round(statistics.mean(at), 3) for at in zip(*(r["available"] for r in mine), strict=True)
        ],
    }
    if "latency" in mine[0]:
        summary["latency"] = [
            round(statistics.mean(at), 3) for at in zip(*(r["latency"] for r in mine), strict=True)
        ]
        summary["peak_latency"] = round(statistics.median(run["peak"] for run in mine), 1)
    if "proven" in mine[0]:
        summary["proven"] = sum(run["proven"] for run in mine) / len(mine)
    return summary


def _table(load: float, rows: dict[str, Any]) -> Table:
    table = Table(title=f"Fifteen queries, nodes {load:.0%} busy before the failure", title_justify="left")
    for column in ("", "first", "half", "all", "area", "share", "worst", "speed-up"):
        table.add_column(column, justify="left" if not column else "right", no_wrap=True)
    for name, row in rows.items():
        table.add_row(
            name,
            *(f"{row[moment]:.0f} s" for moment in ("first", "half", "all")),
            f"{row['area']:.3f}",
            f"{row['share_of_clairvoyant']:.1%}",
            f"{row['worst_share']:.1%}",
            f"{row['first_speed_up']:.2f}x",
        )
    return table
