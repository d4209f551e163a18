"""More input than the nodes can work off, while every node is alive: for two minutes twice the rate arrives.

Reported are which queries were parked and when, when they were available again, and how late the more
valuable half of the queries was, and those that were never parked. Windows end every ten or twenty seconds,
and relative latencies are above 1.2 then also in peace; so lateness is their mean over twenty seconds,
divided by their mean over the minute before the surge. The run fails if the input did not grow, nothing was
parked, something did not return, or rows differ. RATE=<tuples/s> and CAPACITY=<percent of a core per node>
say how busy the nodes are before (`load`); TIMES=<factor> another surge. `--manual`: with the policy
`overload: manual` besides, under which every query goes on and gets late.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from rich.table import Table

from benchmarks.recovery.correlated import priority_of
from benchmarks.runner import Report, Session, at_least, at_most, run
from benchmarks.stack import (
    TOPOLOGY,
    BenchmarkStack,
    StackError,
    input_file,
    pipeline_spec,
    running_stack,
    seconds_of,
    stopping_in_order,
)

NODES = 5
RATE = int(os.environ.get("RATE", "20000"))
CAPACITY = int(os.environ.get("CAPACITY", "20"))
TIMES = float(os.environ.get("TIMES", "2"))
BEGINS, LASTS = 240.0, 120.0
"""Seconds after the start of the topology, and for how long. By then nodes with little CPU are warm."""
BEFORE, CYCLE = 60.0, 20.0
STEP = 10.0
PATIENCE = 600.0
NORMAL = 1.2
"""Relative latency up to which a query counts as available."""


@dataclass(slots=True)
class Course:
    """What happened to each query; seconds since the surge began. latencies: relative ones."""

    latencies: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    parked: dict[str, list[tuple[float, bool]]] = field(default_factory=dict)
    available: dict[str, list[tuple[float, bool]]] = field(default_factory=dict)
    loads: list[tuple[float, float]] = field(default_factory=list)
    input_rate: float = 0.0

    @property
    def load(self) -> float:
        return max((load for _, load in self.loads), default=0.0)


def course_of(events: Sequence[Mapping[str, Any]], began: float) -> Course:
    course = Course()
    for event in events:
        at = seconds_of(event["at"]) - began
        for change in event["changes"]:
            shown = change["fields"] or {}
            if change["entity"] == "topology" and change["key"] == TOPOLOGY:
                course.input_rate = max(course.input_rate, shown.get("input_rate") or 0.0)
                if shown.get("load") is not None:
                    course.loads.append((at, shown["load"]))
            if change["entity"] != "query":
                continue
            query = change["key"].rpartition("/")[2]
            for name, kept in (("parked", course.parked), ("available", course.available)):
                if name in shown:
                    kept.setdefault(query, []).append((at, bool(shown[name])))
            if shown.get("relative_latency") is not None:
                course.latencies.setdefault(query, []).append((at, shown["relative_latency"]))
    return course


def surge(session: Session, policy: str) -> dict[str, Any]:
    """One stack, one surge. Raises `StackError` if it is not healthy before."""
    spec = pipeline_spec(rate=RATE, epoch_interval=1.0, priorities=priority_of)
    for operator in spec["operators"]:
        if operator["name"] == "Source":
            operator["params"]["surges"] = [[BEGINS, BEGINS + LASTS, TIMES]]
    variables = {"RESURGE_CHECKPOINT_INTERVAL": "10", "RESURGE_CPU_CAPS": "1"}
    with running_stack(nodes=NODES, slots=1, capacity=CAPACITY, variables=variables) as stack:
        stack.deploy_spec(spec, input=input_file())
        stack.policy_set(overload=policy)
        stack.healthy()
        started = time.time() - stack.topology(TOPOLOGY)["head_epoch"]
        session.note(f"{policy}: the surge begins in {started + BEGINS - time.time():.0f} s")
        time.sleep(max(0.0, started + BEGINS - BEFORE - time.time()))
        stack.healthy()
        sequence, load = stack.last_sequence(), stack.topology(TOPOLOGY)["load"]
        priorities = {name: row["priority"] for name, row in stack.queries().items()}
        began = started + BEGINS
        time.sleep(max(0.0, began + LASTS - time.time()))
        finished = _well_again(stack)
        ended = time.time()
        course = course_of(stack.events(after=sequence), began)
        verdict = stack.verify()
        nodes = len(stack.nodes("alive"))
    ranked = sorted(priorities, key=lambda query: -priorities[query])
    half = ranked[: (len(ranked) + 1) // 2]
    lateness = {q: _lateness(course.latencies.get(q, [])) for q in ranked}
    worst = {q: max((late for _, late in lateness[q]), default=0.0) for q in ranked}
    late = {q: _seconds_late(lateness[q]) for q in ranked}
    parked = {q: [round(at, 1) for at, on in rows if on] for q, rows in course.parked.items()}
    going = [query for query in ranked if not parked.get(query)]
    return {
        "load_before": load,
        "load_most": course.load,
        "input_rate_most": course.input_rate,
        "nodes_alive": nodes,
        "parked": {q: at for q, at in parked.items() if at},
        "first_parked": min((at[0] for at in parked.values() if at), default=None),
        "parked_priorities": sorted(priorities[q] for q, at in parked.items() if at),
        "half": half,
        "half_parked": sorted(q for q in half if parked.get(q)),
        "half_worst_lateness": max(worst[q] for q in half),
        "latencies_seen": min(len(lateness[q]) for q in half),
        "going_worst_lateness": max((worst[q] for q in going), default=None),
        "going_seconds_late": round(statistics.mean(late[q] for q in going), 1) if going else None,
        "steps": _steps(course, going, lateness, ended - began),
        "half_seconds_late": round(statistics.mean(late[q] for q in half), 1),
        "all_seconds_late": round(statistics.mean(late.values()), 1),
        "well_again": round(ended - began, 1) if finished else None,
        "verified": verdict.clean,
        "verified_rows": verdict.rows,
        "faults": verdict.faults,
    }


def _well_again(stack: BenchmarkStack) -> bool:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if stack.is_healthy():
            return True
        time.sleep(2.0)
    return False


def _lateness(latencies: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """After each report in the surge: the mean relative latency of a cycle, divided by that before."""
    before = [relative for at, relative in latencies if -BEFORE < at <= 0.0]
    if not before:
        return []
    usual = statistics.mean(before)
    found: list[tuple[float, float]] = []
    for at in (at for at, _ in latencies if at > 0.0):
        cycle = [relative for then, relative in latencies if at - CYCLE < then <= at]
        found.append((at, statistics.mean(cycle) / usual))
    return found


def _steps(
    course: Course, going: Sequence[str], lateness: Mapping[str, Sequence[tuple[float, float]]], end: float
) -> list[dict[str, Any]]:
    """Every `STEP` seconds: the mean load since the step before, the lateness of the queries that were never
    parked in the mean, and how many are parked."""
    steps: list[dict[str, Any]] = []
    for number in range(1, int(end / STEP) + 1):
        since, at = (number - 1) * STEP, number * STEP
        late = [value for q in going for then, value in lateness[q] if since < then <= at]
        loads = [load for then, load in course.loads if since < then <= at]
        newest = [[on for then, on in rows if then <= at][-1:] for rows in course.parked.values()]
        steps.append(
            {
                "at": at,
                "load": round(statistics.mean(loads), 3) if loads else None,
                "lateness": round(statistics.mean(late), 3) if late else None,
                "parked": sum(on == [True] for on in newest),
            }
        )
    return steps


def _seconds_late(lateness: Sequence[tuple[float, float]]) -> float:
    """How long a query was late, from one report to the next."""
    return sum(later - at for (at, late), (later, _) in pairwise(lateness) if late >= NORMAL)


def measure(session: Session) -> Report:
    policies = ["automatic", "manual"] if session.options.manual else ["automatic"]
    rows: dict[str, dict[str, Any]] = {}
    with stopping_in_order(), session.progress("surges", len(policies)) as step:
        for policy in policies:
            try:
                rows[policy] = surge(session, policy)
            except StackError as error:
                session.note(f"{policy}: {error}")
            step()
    report = Report()
    report.criteria.append(at_least("surges measured / surges", len(rows) / len(policies), 1.0))
    if "automatic" not in rows:
        return report
    row = rows["automatic"]
    report.parameters = {
        "nodes": NODES, "quota_percent": CAPACITY, "rate": RATE, "times": TIMES,
        "begins": BEGINS, "lasts": LASTS, "normal": NORMAL,
    }  # fmt: skip
    report.results = {"policies": rows}
    report.criteria += [
        at_least("most input / rate", row["input_rate_most"] / RATE, 0.9 * TIMES),
        at_least("load in the surge", row["load_most"], 1.0),
        at_least("nodes alive at the end", row["nodes_alive"], NODES),
        at_least("queries parked", len(row["parked"]), 1),
        at_least("all well again", float(row["well_again"] is not None), 1.0),
        at_least(
            "runs verified clean / runs", sum(one["verified"] for one in rows.values()) / len(rows), 1.0
        ),
        at_least("rows compared, least", min(one["verified_rows"] for one in rows.values()), 1),
        at_most("queries of the more valuable half that were parked", len(row["half_parked"]), 0),
        at_least("latencies seen of each query of that half", row["latencies_seen"], LASTS / 4),
        at_most("worst lateness of that half", row["half_worst_lateness"], NORMAL),
    ]
    report.tables.append(table_of(rows))
    return report


def table_of(rows: Mapping[str, Mapping[str, Any]]) -> Table:
    title = f"{TIMES:g} times {RATE} tuples/s for {LASTS:.0f} s, {NODES} nodes with {CAPACITY} % of a core"
    table = Table(title=title, title_justify="left")
    columns = (
        "policy",
        "load before",
        "most",
        "parked",
        "at s",
        "half late s",
        "going late s",
        "all late s",
        "well s",
        "verify",
    )
    for column in columns:
        table.add_column(column, justify="left" if column == "policy" else "right")
    for policy, row in rows.items():
        table.add_row(
            policy,
            "-" if row["load_before"] is None else f"{row['load_before']:.0%}",
            f"{row['load_most']:.0%}",
            str(len(row["parked"])),
            "-" if row["first_parked"] is None else f"{row['first_parked']:.0f}",
            f"{row['half_seconds_late']:.0f}",
            "-" if row["going_seconds_late"] is None else f"{row['going_seconds_late']:.0f}",
            f"{row['all_seconds_late']:.0f}",
            "-" if row["well_again"] is None else f"{row['well_again']:.0f}",
            "clean" if row["verified"] else "NOT EXACT",
        )
    return table


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--manual", action="store_true", help="measure `overload: manual` besides")


if __name__ == "__main__":
    sys.exit(run(name="overload", about=__doc__, measure=measure, arguments=arguments))
