"""Recovery where CPU is really scarce: nodes with a CPU quota, of which three of five are killed at once.

Each method recovers on a stack of its own, with the same input, rate, quota and delays of replacements:
incremental with moves, incremental without, and blocking. Reported are when the failed queries were
available again, and the area under the availability weighted by priority, up to several moments; beside
those of Resurge that of the best schedule for the same arrivals, whose waves take no time: it is planned
with the costs that were measured before the failure and 80 % of each node. The run fails if a node was not
killed, no quota was felt, or rows differ.

CAPACITY=<percent of a core per node> says how scarce it is. The rate of the input is found first: the one
with which control groups show the nodes 75 to 80 % busy, on stacks of Resurge of their own, also where
only another engine is measured; RATE=<tuples/s> sets it.
KILLED=<n> and NODES=<n> change what is killed of what, and CAPACITY=200 lifts the scarcity (the rate is then
20,000/s). `--quick`: without the method `incremental, no moves`.

`--engines resurge,flink` runs Apache Flink too, which is installed into a cache directory
(RESURGE_BENCHMARK_CACHE) and needs a JDK; `flink-shared` is a variant of its job.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import mean
from typing import Any

from rich.table import Table

from benchmarks.class_archive import class_archive_ensure
from benchmarks.flink.cluster import JVM
from benchmarks.flink.configuration import HEAP_MB, TUNING
from benchmarks.flink.installation import VERSION, FlinkError, install
from benchmarks.flink.recovery import Setup, archive_make
from benchmarks.flink.recovery import recover as flink_recover
from benchmarks.horizons import SLOWEST, areas_table, horizons_of
from benchmarks.load import corrected, load_of
from benchmarks.node_usage import counting
from benchmarks.outcome import Outcome, described
from benchmarks.recovery.correlated import priority_of
from benchmarks.recovery.course import course_of
from benchmarks.recovery.optimum import Failure
from benchmarks.recovery.scenario import node_shares
from benchmarks.runner import Criterion, Report, Session, at_least, at_most, run
from benchmarks.stack import (
    TOPOLOGY,
    BenchmarkStack,
    StackError,
    input_file,
    pipeline_spec,
    running_stack,
    stopping_in_order,
)
from domain.topology import Topology, load_topology
from host.environment import Delay
from spark_jobs.operators.catalogue import catalogue

NODES = int(os.environ.get("NODES", "5"))
KILLED = int(os.environ.get("KILLED", "3"))
GIVEN_RATE = int(os.environ.get("RATE", "0"))
RATE = 20_000
"""Tuples per second where nothing is scarce."""
CAPACITY = int(os.environ.get("CAPACITY", "20"))
# Where all quotas together are more than the machine has, they need not be felt.
SCARCE = 100 * (os.cpu_count() or 1) >= CAPACITY * NODES
DELAY = "uniform:15:40"
EPOCH = 1.0
MAX_UTILISATION = 0.8
"""The share of a node that is planned, as by default."""
BUSY = 77.5
"""Percent of their quotas that the nodes are to take before the failure."""
CLOSE = 2.5
"""The search for the rate ends where the load of the nodes is within so many points of `BUSY`."""
TRIES = 4
"""Rates that are tried, at most."""
FIRST_TRY = 75_000
LOOK = 40.0
"""Seconds over which the nodes are looked at; windows end every 20."""
# Executors with a fifth of a core get up to speed for that long, and costs with them.
WARM_UP = 90.0
PATIENCE = 600.0
# Of the delays: the same in every run, for every method and engine.
SEED = "scarcity, the same delays for all"
ENGINES = ("resurge", "flink", "flink-shared")
FLINK = {"flink": "Flink", "flink-shared": "Flink, shared views"}
# The first with what a policy has by default: a wave that is too much for its nodes loses queries again.
METHODS: Mapping[str, Mapping[str, str]] = {
    "incremental": {"method": "incremental", "rebalancing": "automatic", "overload": "automatic"},
    "incremental, no moves": {"method": "incremental", "rebalancing": "manual"},
    "blocking": {"method": "blocking", "rebalancing": "manual"},
}


def rate_find(session: Session) -> tuple[int, list[tuple[int, float]]]:
    """The rate that is to be measured with, and each one that was tried with the percent of their quotas that
    the nodes took. Raises `StackError`."""
    if GIVEN_RATE or not SCARCE:
        return GIVEN_RATE or RATE, []
    tried: list[tuple[int, float]] = []
    rate = FIRST_TRY
    while len(tried) < TRIES:
        with deployed(rate, {"rebalancing": "manual", "overload": "manual"}) as stack:
            tried.append((rate, busy_percent(stack)))
        session.note(f"{rate} tuples/s: nodes take {tried[-1][1]:.1f} % of their quotas")
        if abs(tried[-1][1] - BUSY) <= CLOSE:
            break
        rate = corrected(tried, BUSY)
    return min(tried, key=lambda one: abs(one[1] - BUSY))[0], tried


def busy_percent(stack: BenchmarkStack) -> float:
    """Percent of their quotas that the nodes take, as control groups count it for a while."""
    leaders = {name: stack.node_process(name).pid for name in stack.nodes("alive")}
    with counting(stack.home, leaders) as usage:
        return round(load_of(stack, usage, LOOK, capacity=CAPACITY), 1)


@contextmanager
def deployed(rate: int, policy: Mapping[str, str]) -> Iterator[BenchmarkStack]:
    """A stack that has run the queries for a while. Raises `StackError`."""
    variables = {
        "RESURGE_REPLACEMENT_DELAY": DELAY,
        "RESURGE_CHECKPOINT_INTERVAL": "10",
        "RESURGE_CPU_CAPS": "1",
        "RESURGE_MAX_UTILISATION": str(MAX_UTILISATION),
        # Delays are drawn with its beginning.
        "RESURGE_SECRET_KEY": SEED,
    }
    with running_stack(nodes=NODES, slots=1, capacity=CAPACITY, variables=variables) as stack:
        spec = pipeline_spec(rate=rate, epoch_interval=EPOCH, priorities=priority_of)
        stack.deploy_spec(spec, input=input_file())
        stack.policy_set(**policy)
        stack.healthy()
        time.sleep(WARM_UP)
        stack.healthy()
        yield stack


def recover(session: Session, label: str, policy: Mapping[str, str], rate: int) -> Outcome:
    """One stack, one failure. Raises `StackError` if it is not healthy before."""
    spec = pipeline_spec(rate=rate, epoch_interval=EPOCH, priorities=priority_of)
    topology = load_topology(spec, catalogue)
    with deployed(rate, policy) as stack:
        busy = busy_percent(stack) / 100
        sequence, queries = stack.last_sequence(), stack.queries()
        victims = sorted(stack.nodes("alive"))[:KILLED]
        failure = failure_of(stack, topology, victims, queries)
        failed = topology.failed_queries(p for p, node in failure.homes.items() if node in victims)
        session.note(f"{label}: killing {', '.join(victims)}; {len(failed)} queries need them")
        at = stack.kill_nodes(*victims)
        stack.expect(lambda: stack.incidents(), "an incident", timeout=60)
        throttled, finished = watch(stack)
        plans = [plan for row in stack.incidents() for plan in stack.plans(row["number"])]
        course = course_of(
            stack.events(after=sequence),
            plans,
            topology=TOPOLOGY,
            failed_at=at,
            failed=failed,
            priorities=dict(failure.priorities),
            baselines={q: row["baseline_latency"] for q, row in queries.items() if row["baseline_latency"]},
        )
        moves = [plan for plan in plans if plan["kind"] == "move" and plan["applied_at"]]
        return Outcome(
            killed=[name for name in victims if not stack.node_runs(name)],
            arrived=[moment for moment, _ in course.arrivals],
            busy=busy,
            throttled=throttled,
            course=course,
            verdict=stack.verify(),
            moved=sum(len(plan["restore"]) for plan in moves),
            unfinished=0 if finished else len(failed) - len(course.returned),
            failure=failure,
        )


def failure_of(
    stack: BenchmarkStack,
    topology: Topology,
    victims: Sequence[str],
    queries: Mapping[str, Mapping[str, Any]],
) -> Failure:
    """What is there before these nodes are killed. queries: by partition, their rows."""
    nodes, partitions = stack.nodes("alive"), stack.partitions()
    quotas = {name: float(row["capacity"]) for name, row in nodes.items()}
    return Failure(
        topology=topology,
        homes={name: str(partitions[name]["node"]) for name in topology.partitions},
        measured={name: 100.0 * float(partitions[name]["cpu"]) for name in topology.partitions},
        survivors={name: quota for name, quota in quotas.items() if name not in victims},
        victims={name: quotas[name] for name in victims},
        share=mean(node_shares(nodes).values()),
        priorities={query: int(row["priority"]) for query, row in queries.items()},
        max_utilisation=MAX_UTILISATION,
    )


def watch(stack: BenchmarkStack) -> tuple[float, bool]:
    """Wait until all is well again, or patience ends: the largest share of throttled periods, and which."""
    throttled, deadline = 0.0, time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        throttled = max([throttled, *(row["throttled"] for row in stack.nodes("alive").values())])
        if stack.is_healthy():
            return throttled, True
        time.sleep(2.0)
    return throttled, False


def flink(session: Session, rate: int, *, shared: bool) -> Outcome:
    """The same failure for Flink. Raises `FlinkError`."""
    spec = pipeline_spec(rate=rate, epoch_interval=EPOCH, priorities=priority_of)
    topology = load_topology(spec, catalogue)
    setup = Setup(
        spec=spec,
        input=input_file(),
        rate=rate,
        nodes=NODES,
        killed=KILLED,
        capacity=CAPACITY,
        warm_up=WARM_UP,
        patience=PATIENCE,
        delay=Delay.parse(DELAY),
        seed=SEED,
        priorities={f"{one.name}[0]": one.priority for one in topology.outputs},
        shared=shared,
    )
    installation = install(session.note)
    archive_make(installation, setup, session.note)
    return flink_recover(setup, installation, session.note)


def criteria(rows: Mapping[str, Mapping[str, Any]]) -> list[Criterion]:
    """What must have happened for the figures to mean anything, and what is wanted of them."""

    def all_back(label: str) -> float:
        return float(rows[label]["all"] or 0.0)

    found = [
        at_least("nodes killed, least", min(len(row["killed"]) for row in rows.values()), KILLED),
        at_least("failed queries, least", min(row["failed_queries"] for row in rows.values()), 1),
        at_least("runs verified clean / runs", sum(r["verified"] for r in rows.values()) / len(rows), 1.0),
        at_least("rows compared, least", min(row["verified_rows"] for row in rows.values()), 1),
        at_least("runs in which all came back / runs", sum(map(_complete, rows.values())) / len(rows), 1.0),
    ]
    if SCARCE:
        least = min(row["throttled"] for row in rows.values())
        found.append(at_least("throttled periods, least of the largest", least, 0.05))
    if {"blocking", "incremental"} <= rows.keys():
        sooner = all_back("blocking") / all_back("incremental") if all_back("incremental") else 0.0
        found.append(at_least("all queries back, blocking / incremental", sooner, 1.0))
        # To the end of the slowest: to its own, a recovery in one wave has no area at all.
        share = rows["incremental"]["areas"][SLOWEST]["share"] or 0.0
        found.append(at_least(f"incremental: area to {SLOWEST} / the optimum's", share, 0.9))
    found += [
        one for label, row in rows.items() if "partitions_percent" in row for one in _optimum(label, row)
    ]
    for label in rows.keys() & set(FLINK.values()):
        row = rows[label]
        found += [
            at_least(f"{label}: nodes with the quota", row["quotas"].count(float(CAPACITY)), NODES + KILLED),
            at_least(f"{label}: checkpoints before and after the failure, least", min(row["checkpoints"]), 1),
        ]
    return found


def _optimum(label: str, row: Mapping[str, Any]) -> list[Criterion]:
    """That there was something to plan, and that the best schedule is known."""
    unproven = sum(not one["optimum_proven"] for one in row["areas"].values())
    return [
        at_least(f"{label}: CPU percent that partitions took before", row["partitions_percent"], 1),
        at_most(f"{label}: optima that were not proven", unproven, 0),
    ]


def _complete(row: Mapping[str, Any]) -> bool:
    return row["all"] is not None and not row["unfinished"]


def recoveries(session: Session, rate: int) -> dict[str, Callable[[], Outcome]]:
    """Label -> what measures it with this rate."""
    found: dict[str, Callable[[], Outcome]] = {}
    engines = session.options.engines
    left_out = {"incremental, no moves"} if session.quick else set()
    if "resurge" in engines:
        for label, policy in METHODS.items():
            if label not in left_out:
                found[label] = partial(recover, session, label, policy, rate)
    for engine, label in FLINK.items():
        if engine in engines:
            found[label] = partial(flink, session, rate, shared=engine == "flink-shared")
    return found


def measure(session: Session) -> Report:
    report = Report()
    archive = class_archive_ensure(session.note)
    outcomes: dict[str, Outcome] = {}
    try:
        with stopping_in_order():
            rate, tried = rate_find(session)
    except (StackError, FileNotFoundError) as error:
        session.note(f"no rate was found, set one with RATE=<tuples/s>: {error}")
        report.criteria.append(at_least("rates found", 0, 1))
        return report
    chosen = recoveries(session, rate)
    with stopping_in_order(), session.progress("recoveries", len(chosen)) as step:
        for label, run_it in chosen.items():
            try:
                outcomes[label] = run_it()
            except (StackError, FlinkError) as error:
                session.note(f"{label}: {error}")
            step()
    if len(outcomes) < len(chosen):
        report.criteria.append(at_least("methods measured / methods", len(outcomes) / len(chosen), 1.0))
    if not outcomes:
        return report
    horizon = max(outcome.horizon(PATIENCE) for outcome in outcomes.values())
    ends = {label: outcome.horizon(PATIENCE) for label, outcome in outcomes.items()}
    rows = {
        label: described(
            outcome,
            horizon,
            horizons_of(
                recovered=ends[label],
                arrivals=outcome.arrived,
                blocking=ends.get("blocking"),
                slowest=horizon,
            ),
        )
        for label, outcome in outcomes.items()
    }
    report.parameters = {
        "class_archive": archive,
        "nodes": NODES,
        "killed": KILLED,
        "quota_percent": CAPACITY,
        "rate": rate,
        "rates_tried": tried,
        "epoch_interval": EPOCH,
        "delay": DELAY,
        "warm_up": WARM_UP,
        "horizon": round(horizon, 1),
    }
    if chosen.keys() & set(FLINK.values()):
        report.parameters["flink"] = {"version": VERSION, "java": JVM, "heap_mb": HEAP_MB, **TUNING}
    report.results = {"methods": rows}
    report.criteria += criteria(rows)
    if tried:
        missed = min(abs(load - BUSY) for _, load in tried)
        report.criteria.append(
            at_most(f"points by which nodes missed {BUSY:g} % of their quotas", missed, 5.0)
        )
    report.tables += [table_of(rows, horizon), areas_table(rows, "Area under availability")]
    return report


def table_of(rows: Mapping[str, Mapping[str, Any]], horizon: float) -> Table:
    title = f"{KILLED} of {NODES} nodes with {CAPACITY} % of a core killed, to {horizon:.0f} s"
    table = Table(title=title, title_justify="left")
    for column in (
        "",
        "busy",
        "arrivals s",
        "waves",
        "moved",
        "first s",
        "half s",
        "all s",
        "area",
        "gap s",
        "on time s",
        "on time",
        "verify",
    ):
        table.add_column(column, justify="left" if not column else "right")
    for label, row in rows.items():
        table.add_row(
            label,
            f"{row['busy']:.0%}",
            ", ".join(f"{moment:.0f}" for moment in row["arrived"]),
            str(row["waves"]),
            str(row["moved"]),
            *(f"{row[name]:.0f}" if row[name] is not None else "-" for name in ("first", "half", "all")),
            f"{row['availability']:.1%}",
            f"{row['longest_gap']:.0f}" if row["longest_gap"] is not None else "-",
            f"{row['on_time']['all']:.0f}" if row["on_time"]["all"] is not None else "-",
            f"{row['on_time']['availability']:.1%}",
            "clean" if row["verified"] else "WRONG",
        )
    return table


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engines", type=engines_parse, default=["resurge"], metavar="NAME,...", help=", ".join(ENGINES)
    )


def engines_parse(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or not set(names) <= set(ENGINES):
        raise argparse.ArgumentTypeError(f"{text!r}: name some of {', '.join(ENGINES)}")
    return names


if __name__ == "__main__":
    sys.exit(run(name="scarcity", about=__doc__, measure=measure, arguments=arguments))
