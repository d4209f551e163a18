"""Figure 12: eight of ten nodes die at once, replacements arrive one by one. Incremental recovery (rolling
back ancestors only, and everything as in the paper), blocking recovery, and the best case, in which all
replacements arrive together half-way; each on a fresh stack, with the same delays.

SCALE=<n> divides the papers' 120 to 360 seconds (default 10), ROOM=<share> is for how much of what failed the
survivors have room (default 0.25), INPUT=<file> reads real tweets.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from benchmarks.horizons import areas_table
from benchmarks.recovery.scenario import (
    MAX_UTILISATION,
    ROOM,
    Outcome,
    Trial,
    capacity_with_room,
    described,
    node_loads,
    node_shares,
    trial_run,
)
from benchmarks.runner import Criterion, Report, Session, at_least, run
from benchmarks.stack import StackError, input_file, pipeline_spec, running_stack, stopping_in_order
from domain.planning import natural_key
from domain.topology import Topology, load_topology
from spark_jobs.operators.catalogue import catalogue

RATE = 1_000
PAPER_DELAY = (120.0, 360.0)
INCREMENTAL: Mapping[str, Any] = {
    "method": "incremental",
    "planner": "best_density",
    "rollback": "ancestors",
    "approval": "automatic",
}
BLOCKING: Mapping[str, Any] = {"method": "blocking", "approval": "automatic"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """`nodes` of which `killed` die at once; replacements take `delay` (low, high) seconds."""

    nodes: int
    killed: int
    delay: tuple[float, float]
    epoch_interval: float
    warm_up: float
    settle: float


def setup_of(session: Session) -> Setup:
    if session.quick:
        return Setup(nodes=5, killed=3, delay=(4, 10), epoch_interval=1.0, warm_up=20, settle=20)
    scale = float(os.environ.get("SCALE", "10"))
    low, high = (seconds / scale for seconds in PAPER_DELAY)
    return Setup(nodes=10, killed=8, delay=(low, high), epoch_interval=2.0, warm_up=60, settle=30)


def methods_of(session: Session, setup: Setup) -> dict[str, tuple[Mapping[str, Any], str]]:
    """Label -> recovery policy and the distribution of delays."""
    low, high = setup.delay
    spread = f"uniform:{low:g}:{high:g}"
    methods: dict[str, tuple[Mapping[str, Any], str]] = {
        "incremental": (INCREMENTAL, spread),
        "blocking": (BLOCKING, spread),
    }
    if not session.quick:
        methods["incremental, global rollback"] = ({**INCREMENTAL, "rollback": "global"}, spread)
        methods["best case"] = (INCREMENTAL, f"fixed:{high / 2:g}")
    return methods


def priority_of(number: int) -> int:
    """Priorities of the fifteen queries: from 1 to 10, without any order."""
    return 1 + 7 * number % 10


def spec_of(setup: Setup) -> dict[str, Any]:
    return pipeline_spec(
        rate=RATE, epoch_interval=setup.epoch_interval, parallelism=1, priorities=priority_of
    )


def stack_variables(delay: str) -> dict[str, str]:
    return {
        "RESURGE_REPLACEMENT_DELAY": delay,
        "RESURGE_CHECKPOINT_INTERVAL": "10",
        "RESURGE_MAX_UTILISATION": f"{MAX_UTILISATION:g}",
        # Capacities limit planning only: a new node must not start with a CPU cap of a few percent.
        "RESURGE_CPU_CAPS": "0",
    }


def all_but_the_sources(homes: Mapping[str, Sequence[str]], killed: int) -> list[str]:
    """Nodes to kill: all but those of Source and Parser and, where these leave room, those that hold no
    window aggregate (O0 to O3), so that every query fails."""

    def worth_sparing(node: str) -> tuple[bool, bool, Any]:
        operators = {partition.partition("[")[0] for partition in homes[node]}
        return (
            not operators & {"Source", "Parser"},
            bool(operators & {"O0", "O1", "O2", "O3"}),
            natural_key(node),
        )

    ordered = sorted(homes, key=worth_sparing)
    return sorted(ordered[len(ordered) - killed :], key=natural_key)


def figure_12(session: Session, report: Report) -> None:
    setup = setup_of(session)
    spec = spec_of(setup)
    topology = load_topology(spec, catalogue)
    outcomes: dict[str, Outcome] = {}
    problems: dict[str, str] = {}
    capacity = 0
    loads: dict[str, list[float]] = {}
    methods = methods_of(session, setup)
    with stopping_in_order(), session.progress("recoveries", len(methods)) as step:
        for label, (policy, delay) in methods.items():
            trial = Trial(
                label=label,
                policy=policy,
                victims=lambda homes: all_but_the_sources(homes, setup.killed),
                settle=setup.settle,
            )
            try:
                with running_stack(nodes=setup.nodes, variables=stack_variables(delay)) as stack:
                    stack.deploy_spec(spec, input=input_file())
                    stack.healthy()
                    measured = node_loads(stack, seconds=setup.warm_up)
                    if not capacity:
                        loads = measured
                        victims = all_but_the_sources(stack.homes(), setup.killed)
                        capacity = capacity_with_room(loads, victims, node_shares(stack.nodes("alive")))
                    stack.capacities_set(capacity)
                    outcomes[label] = trial_run(stack, topology, trial, note=session.note)
            except StackError as error:
                problems[label] = str(error)
                session.note(f"{label}: {error}")
            except KeyboardInterrupt:
                problems[label] = "interrupted"
                break
            step()
    _report(report, setup, topology, outcomes, problems)
    report.parameters["figure_12"] |= {
        "capacity": capacity,
        "delays": {n: d for n, (_, d) in methods.items()},
    }
    report.results["figure_12"]["node_load_percent"] = {
        node: round(sum(values) / len(values), 4) for node, values in loads.items()
    }


def _report(
    report: Report,
    setup: Setup,
    topology: Topology,
    outcomes: Mapping[str, Outcome],
    problems: Mapping[str, str],
) -> None:
    horizon = max((outcome.horizon for outcome in outcomes.values()), default=0.0)
    blocking = outcomes["blocking"].horizon if "blocking" in outcomes else None
    rows = {
        label: described(topology, one, horizon=horizon, blocking=blocking) for label, one in outcomes.items()
    }
    report.parameters["figure_12"] = {
        "nodes": setup.nodes,
        "killed": setup.killed,
        "delay": list(setup.delay),
        "rate": RATE,
        "epoch_interval": setup.epoch_interval,
        "max_utilisation": MAX_UTILISATION,
        "room": ROOM,
    }
    report.results["figure_12"] = {"methods": rows, "problems": dict(problems)}
    report.criteria += _criteria(rows, problems)
    table = Table(
        title=f"{setup.killed} of {setup.nodes} nodes killed, to {horizon:.0f} s", title_justify="left"
    )
    for column in ("", "waves", "first s", "half s", "all s", "availability", "of clairvoyant", "verify"):
        table.add_column(column, justify="left" if not column else "right")
    for label, row in rows.items():
        table.add_row(
            label,
            str(len(row["waves"])),
            *(f"{row[name]:.1f}" if row[name] is not None else "-" for name in ("first", "half", "all")),
            f"{row['mean_weighted_availability']:.1%}",
            f"{row['share_of_clairvoyant']:.1%} (plans {row['planned_share_of_clairvoyant']:.1%})",
            "clean" if row["verified"] else "WRONG",
        )
    for label, problem in problems.items():
        table.add_row(label, problem)
    report.tables += [table, areas_table(rows, "Area under availability, and that of the optimum")]


def _criteria(rows: Mapping[str, Mapping[str, Any]], problems: Mapping[str, str]) -> list[Criterion]:
    """A criterion whose number could not be measured counts as zero."""
    first = {label: row["first"] for label, row in rows.items() if row["first"]}
    sooner = first["blocking"] / first["incremental"] if first.keys() >= {"blocking", "incremental"} else 0.0
    share = rows["incremental"]["share_of_clairvoyant"] if "incremental" in rows else 0.0
    clean = sum(row["verified"] for row in rows.values())
    return [
        at_least("first query, blocking / incremental", sooner, 3.0),
        at_least("area of incremental / clairvoyant", share, 0.9),
        at_least("figure 12: runs verified clean / runs", clean / (len(rows) + len(problems)), 1.0),
    ]


def measure(session: Session) -> Report:
    report = Report()
    figure_12(session, report)
    return report


if __name__ == "__main__":
    from benchmarks.recovery.drawing import draw

    sys.exit(run(name="recovery.correlated", about=__doc__, measure=measure, draw=draw))
