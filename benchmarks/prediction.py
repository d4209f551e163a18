"""The CPU of nodes, predicted and measured, minute by minute at three loads: 20, 50 and 80 % of their quota.

Predicted is what the product shows of a node when a minute begins (`predicted_percent`): it was learned from
what happened before, and the minute that follows has no part in it. Measured is what the node's control group
took in that minute: Spark, Python, the agent and its uploads. What the product measures itself, from /proc,
is compared with that too.

Each load has a stack of its own. Its rate is found by measuring: up to two corrections, then the load that is
measured in the minutes has to be within 8 points. CAPACITY=<percent of a core per node> sets the quota, which
has to be larger for a low load, since what a node takes by itself is a part of it. INPUT=<file> reads real
tweets. `--levels 20` and then `--levels 50 --add FILE` do it in several runs with one report.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.load import corrected, load_of
from benchmarks.node_usage import NodeUsage, counting
from benchmarks.recovery.course import percentile
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

NODES = 4
CAPACITY = int(os.environ.get("CAPACITY", "30"))
LEVELS: Mapping[int, int] = {20: 2_000, 50: 150_000, 80: 330_000}
"""Load in percent of the quota -> tuples per second to begin with."""
CLOSE, MISSED = 4.0, 8.0
"""Points of load up to which a rate is taken, and from which on the load counts as missed."""
CORRECTIONS = 2
WARM_UP, LOOK = 240.0, 30.0
"""Seconds. After 90 s, nodes with 0.3 cores that were 80 % busy took a fifth more than minutes later."""
MINUTE = 60.0
NEAR, SHARE = 0.15, 0.9


def minutes_of(stack: BenchmarkStack, usage: NodeUsage, count: int, step: Any) -> list[dict[str, Any]]:
    """So many minutes of each node. Those in which a plan came, or nothing was predicted, do not count."""
    rows: list[dict[str, Any]] = []
    for number in range(count):
        began, plan = time.time(), stack.topology(TOPOLOGY)["applied_generation"]
        nodes = {
            name: (row["predicted_percent"], usage.seconds(name), time.monotonic())
            for name, row in stack.nodes("alive").items()
        }
        time.sleep(MINUTE - (time.time() - began))
        ended = time.time()
        disturbed = stack.topology(TOPOLOGY)["applied_generation"] != plan
        for name, (predicted, seconds, since) in nodes.items():
            measured = 100.0 * (usage.seconds(name) - seconds) / (time.monotonic() - since)
            shown = _samples(stack, name, began, ended)
            if predicted is not None and not disturbed:
                rows.append(
                    {
                        "minute": number,
                        "node": name,
                        "predicted": predicted,
                        "measured": round(measured, 2),
                        "shown": round(statistics.mean(shown), 2) if shown else None,
                    }
                )
        step()
    return rows


def _samples(stack: BenchmarkStack, node: str, began: float, ended: float) -> list[float]:
    """What the product measured of a node, in samples of ten seconds."""
    rows = stack.rest.listing(f"nodes/{node}/samples/?ordering=-at&limit=20")
    return [row["cpu_percent"] for row in rows if began + 5 < seconds_of(row["at"]) < ended + 5]


def model_of(stack: BenchmarkStack) -> dict[str, float]:
    """What was learned in the end: cores for being there, CPU seconds per task, per CPU second of operators
    and per tuple."""
    code = (
        "import json; from controlplane.topologies.models import Topology; "
        f"print(json.dumps(Topology.objects.get(name='{TOPOLOGY}').cpu_model))"
    )
    model = json.loads(stack.manage("shell", "--no-imports", "-c", code).splitlines()[-1])
    return {**model["shares"], "tasks": model["tasks"], "windows": model["windows"]}


def level_run(session: Session, level: int, minutes: int, step: Any) -> dict[str, Any]:
    """Minutes at one load, and what it took to find the rate. Raises `StackError`."""
    tried: list[tuple[int, float]] = []
    rate = session.options.rates.get(level, LEVELS.get(level, 20_000))
    variables = {"RESURGE_CHECKPOINT_INTERVAL": "10", "RESURGE_CPU_CAPS": "1"}
    while True:
        at_start = round(os.getloadavg()[0], 2)
        with running_stack(nodes=NODES, slots=1, capacity=CAPACITY, variables=variables) as stack:
            leaders = {name: stack.node_process(name).pid for name in stack.nodes("alive")}
            with counting(stack.home, leaders) as usage:
                stack.deploy_spec(pipeline_spec(rate=rate, epoch_interval=1.0), input=input_file())
                stack.healthy()
                time.sleep(WARM_UP)
                stack.healthy()
                tried.append((rate, round(load_of(stack, usage, LOOK, capacity=CAPACITY), 1)))
                session.note(f"{level} %: {tried[-1][1]:.1f} % at {rate} tuples/s")
                if abs(tried[-1][1] - level) > CLOSE and len(tried) <= CORRECTIONS:
                    rate = corrected(tried, level)
                    continue
                rows = minutes_of(stack, usage, minutes, step)
                stack.healthy()
                partitions = stack.partitions().values()
                return {
                    "level": level,
                    "quota": CAPACITY,
                    "rate": rate,
                    "tried": tried,
                    "load_at_start": at_start,
                    "model": model_of(stack),
                    "partitions_percent": round(sum(row["cpu"] or 0.0 for row in partitions) * 100, 2),
                    "rows": rows,
                }


def measure(session: Session) -> Report:
    options = session.options
    minutes = min(options.minutes, 2) if session.quick else options.minutes
    found: list[dict[str, Any]] = _earlier(options.add)
    with stopping_in_order(), session.progress("minutes", minutes * len(options.levels)) as step:
        for level in options.levels:
            try:
                found.append(level_run(session, level, minutes, step))
            except StackError as error:
                session.note(f"{level} %: {error}")
    return report_of(found)


def _earlier(path: Path | None) -> list[dict[str, Any]]:
    """The levels of an earlier report, to which this run's are added."""
    if path is None:
        return []
    levels: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["results"]["levels"]
    return levels


def described(run_: Mapping[str, Any]) -> dict[str, Any]:
    """The errors of one level; `bias`: predicted / measured - 1, of all minutes together."""
    rows = run_["rows"]
    errors = [abs(row["predicted"] - row["measured"]) / row["measured"] for row in rows if row["measured"]]
    measured = sum(row["measured"] for row in rows)
    shown = [(row["shown"], row["measured"]) for row in rows if row["shown"]]
    return {
        "node_minutes": len(errors),
        "load": measured / len(rows) / run_["quota"] * 100 if rows else 0.0,
        "near": sum(error <= NEAR for error in errors) / len(errors) if errors else 0.0,
        "median": statistics.median(errors) if errors else 0.0,
        "p90": percentile(errors, 0.9) or 0.0,
        "bias": sum(row["predicted"] for row in rows) / measured - 1 if measured else 0.0,
        "shown_bias": sum(one for one, _ in shown) / sum(two for _, two in shown) - 1 if shown else None,
    }


def report_of(levels: Sequence[Mapping[str, Any]]) -> Report:
    ordered = sorted(levels, key=lambda one: int(one["level"]))
    rows = [{**one, **described(one)} for one in ordered]
    report = Report(
        parameters={"nodes": NODES, "minute": MINUTE, "near": NEAR},
        results={"levels": rows},
    )
    title = f"CPU of {NODES} nodes: predicted beside measured"
    table = Table(title=title, title_justify="left")
    for column in (
        "level",
        "quota",
        "tuples/s",
        "load",
        "node-minutes",
        f"within {NEAR:.0%}",
        "median",
        "p90",
        "bias",
    ):
        table.add_column(column, justify="right")
    report.criteria.append(at_least("levels measured", len({row["level"] for row in rows}), len(LEVELS)))
    for row in rows:
        label = f"{row['level']} %"
        table.add_row(
            label, f"{row['quota']} %", f"{row['rate']:,}", f"{row['load']:.1f} %", str(row["node_minutes"]),
            f"{row['near']:.0%}", f"{row['median']:.1%}", f"{row['p90']:.1%}", f"{row['bias']:+.1%}",
        )  # fmt: skip
        report.criteria += [
            at_least(f"{label}: node-minutes", row["node_minutes"], 1),
            at_most(f"{label}: points of load missed", abs(row["load"] - row["level"]), MISSED),
            at_least(f"{label}: share within {NEAR:.0%}", row["near"], SHARE),
        ]
    report.tables.append(table)
    return report


def levels_parse(text: str) -> list[int]:
    try:
        levels = [int(part) for part in text.split(",")]
    except ValueError:
        levels = []
    if not levels or not all(0 < level < 100 for level in levels):
        raise argparse.ArgumentTypeError(f"{text!r}: percents, for example 20,50,80")
    return levels


def rates_parse(text: str) -> dict[int, int]:
    try:
        return {int(level): int(rate) for level, rate in (part.split(":") for part in text.split(","))}
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: for example 20:2000,80:100000") from error


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=int, default=8, help="minutes at each load (default 8)")
    parser.add_argument("--levels", type=levels_parse, default=list(LEVELS), metavar="PERCENT,...")
    parser.add_argument(
        "--rates", type=rates_parse, default={}, metavar="PERCENT:RATE,...", help="to begin with"
    )
    parser.add_argument("--add", type=Path, metavar="FILE", help="report with levels that are to count too")


if __name__ == "__main__":
    sys.exit(run(name="prediction", about=__doc__, measure=measure, arguments=arguments))
