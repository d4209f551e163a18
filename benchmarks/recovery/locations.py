"""Figures 13 to 15 and the untouched queries, on one stack of ten nodes: two nodes killed upstream or
downstream, recovered incrementally or blocking; two, four and eight nodes killed; and what queries notice
that the failure did not touch, rolling back ancestors only or everything, in turn.
INPUT=<file> reads real tweets.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from benchmarks.recovery.correlated import BLOCKING, INCREMENTAL, RATE, Setup, spec_of, stack_variables
from benchmarks.recovery.scenario import (
    Outcome,
    Trial,
    capacity_that_binds,
    described,
    latency_percentiles,
    node_loads,
    trial_run,
)
from benchmarks.runner import Report, Session, at_least, at_most, run
from benchmarks.stack import StackError, input_file, running_stack, stopping_in_order
from domain.planning import natural_key
from domain.topology import Topology, load_topology
from spark_jobs.operators.catalogue import catalogue

# Epochs as long as two cores need to run ten nodes and have time left: where they have none, every start of a
# process is felt by all queries, and nothing is learnt about recovery.
SETUP = Setup(nodes=10, killed=8, delay=(6, 18), epoch_interval=4.0, warm_up=60, settle=30)
GLOBAL: Mapping[str, Any] = {**INCREMENTAL, "rollback": "global"}
REPEATS = 3


def downstream_first(topology: Topology, homes: Mapping[str, Sequence[str]], count: int) -> list[str]:
    """Nodes in reverse topological order of the first operator they hold."""
    return _ordered(topology, homes)[::-1][:count]


def upstream_first(topology: Topology, homes: Mapping[str, Sequence[str]], count: int) -> list[str]:
    """Nodes in topological order of the first operator they hold, without those of the source."""
    return _ordered(topology, homes)[:count]


def _ordered(topology: Topology, homes: Mapping[str, Sequence[str]]) -> list[str]:
    position = {partition: index for index, partition in enumerate(topology.partitions)}
    spared = {"Source", "Parser"}
    nodes = {
        node: min(position[partition] for partition in partitions)
        for node, partitions in homes.items()
        if partitions and not spared & {partition.partition("[")[0] for partition in partitions}
    }
    return sorted(nodes, key=lambda node: (nodes[node], natural_key(node)))


def trials(topology: Topology) -> list[Trial]:
    """What is done, in this order; a trial of one kind follows one of another."""

    def trial(label: str, policy: Mapping[str, Any], order: Any, count: int) -> Trial:
        return Trial(
            label=label,
            policy=policy,
            victims=lambda homes: sorted(order(topology, homes, count), key=natural_key),
            settle=SETUP.settle,
        )

    chosen: list[Trial] = []
    for number in range(1, REPEATS + 1):
        chosen.append(trial(f"downstream 2, ancestors, {number}", INCREMENTAL, downstream_first, 2))
        chosen.append(trial(f"downstream 2, global, {number}", GLOBAL, downstream_first, 2))
    chosen.append(trial("downstream 2, blocking", BLOCKING, downstream_first, 2))
    chosen.append(trial("upstream 2, ancestors", INCREMENTAL, upstream_first, 2))
    chosen.append(trial("upstream 2, blocking", BLOCKING, upstream_first, 2))
    for count in (4, 8):
        chosen.append(trial(f"downstream {count}, ancestors", INCREMENTAL, downstream_first, count))
        chosen.append(trial(f"upstream {count}, ancestors", INCREMENTAL, upstream_first, count))
    return chosen


def figures_13_to_15(session: Session, report: Report, *, only: str = "") -> None:
    """Adds to the report. only: what the names of the failures hold; all of them without."""
    spec = spec_of(SETUP)
    topology = load_topology(spec, catalogue)
    plan = [one for one in trials(topology) if only in one.label]
    low, high = SETUP.delay
    outcomes: list[Outcome] = []
    problem = ""
    capacity = 0
    variables = stack_variables(f"uniform:{low:g}:{high:g}")
    with stopping_in_order(), session.progress("failures", len(plan)) as step:
        try:
            with running_stack(nodes=SETUP.nodes, variables=variables) as stack:
                stack.deploy_spec(spec, input=input_file())
                stack.healthy()
                capacity = capacity_that_binds(node_loads(stack, seconds=SETUP.warm_up))
                stack.capacities_set(capacity)
                for one in plan:
                    outcomes.append(trial_run(stack, topology, one, note=session.note))
                    step()
        except StackError as error:
            problem = str(error)
        except KeyboardInterrupt:
            problem = f"interrupted after {len(outcomes)} of {len(plan)} failures"
    if problem:
        session.note(problem)
    _report(report, topology, plan, outcomes, problem)
    report.parameters["figures_13_to_15"] = {
        "nodes": SETUP.nodes,
        "delay": list(SETUP.delay),
        "rate": RATE,
        "epoch_interval": SETUP.epoch_interval,
        "capacity": capacity,
        "trials": [one.label for one in plan],
    }


def _report(
    report: Report, topology: Topology, plan: Sequence[Trial], outcomes: Sequence[Outcome], problem: str
) -> None:
    rows = {one.label: described(topology, one, horizon=one.horizon) for one in outcomes}
    untouched = untouched_latencies(outcomes)
    report.results["figures_13_to_15"] = {"trials": rows, "untouched": untouched, "problem": problem}
    clean = sum(row["verified"] for row in rows.values())
    rise = untouched.get("ancestors", {}).get("p99_rise")
    report.criteria += [
        # One that could not be measured does not hold.
        at_most("p99 of untouched queries, during / before, ancestors", 99.0 if rise is None else rise, 1.2),
        at_least("figures 13 to 15: runs verified clean / runs", clean / len(plan), 1.0),
    ]
    table = Table(title="Failures on ten nodes", title_justify="left")
    for column in ("", "queries", "last arrival s", "waves", "first s", "all s", "verify"):
        table.add_column(column, justify="left" if not column else "right")
    for label, row in rows.items():
        table.add_row(
            label,
            str(len(row["failed_queries"])),
            f"{row['arrivals'][-1]:.1f}" if row["arrivals"] else "-",
            str(len(row["waves"])),
            *(f"{row[name]:.1f}" if row[name] is not None else "-" for name in ("first", "all")),
            "clean" if row["verified"] else "WRONG",
        )
    report.tables.append(table)
    report.tables.append(_latency_table(untouched))


def untouched_latencies(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Latencies of queries the failure did not touch: before it, from the failure until all are back, and of
    that the part from the first plan on, which is what the recovery itself does to them."""
    found: dict[str, Any] = {}
    for kind in ("ancestors", "global"):
        chosen = [one for one in outcomes if one.label.startswith(f"downstream 2, {kind}")]
        before: list[float] = []
        since_failure: list[float] = []
        during: list[float] = []
        for one in chosen:
            course, end = one.course, one.horizon
            before += course.latencies(course.untouched, -one.before, 0.0)
            since_failure += course.latencies(course.untouched, 0.0, end)
            during += course.latencies(course.untouched, one.recovering_since, end)
        row: dict[str, Any] = {
            "failures": len(chosen),
            "before": latency_percentiles(before),
            "during_recovery": latency_percentiles(during),
            "since_failure": latency_percentiles(since_failure),
        }
        earlier, now = row["before"]["p99"], row["during_recovery"]["p99"]
        row["p99_rise"] = round(now / earlier, 4) if earlier and now else None
        found[kind] = row
    return found


def _latency_table(untouched: Mapping[str, Any]) -> Table:
    table = Table(title="Latency of the untouched queries, seconds", title_justify="left")
    for column in ("rollback", "when", "samples", "p50", "p90", "p99"):
        table.add_column(column, justify="left" if column in ("rollback", "when") else "right")
    for kind, row in untouched.items():
        for when in ("before", "during_recovery", "since_failure"):
            cells = [row[when][name] for name in ("p50", "p90", "p99")]
            table.add_row(
                kind,
                when.replace("_", " "),
                str(row[when]["samples"]),
                *("-" if cell is None else f"{cell:.2f}" for cell in cells),
            )
    return table


def measure(session: Session) -> Report:
    report = Report()
    figures_13_to_15(session, report, only=session.options.only)
    return report


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", default="", metavar="TEXT", help="only failures whose name holds this")


if __name__ == "__main__":
    from benchmarks.recovery.drawing import draw

    sys.exit(run(name="recovery.locations", about=__doc__, measure=measure, draw=draw, arguments=arguments))
