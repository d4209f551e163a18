"""Seconds from the SIGKILL of nodes to their recorded loss, on real processes: one of four nodes, then two of
four, again and again. With --freeze, one node is also stopped without being ended, as by a dead switch.

Between two kills the installation becomes healthy again. INPUT=<file> reads real tweets.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any

from rich.table import Table

from benchmarks.runner import Report, Session, at_least, at_most, run
from benchmarks.stack import (
    BenchmarkStack,
    input_file,
    pipeline_spec,
    running_stack,
    seconds_of,
    stopping_in_order,
)

NODES = 4
RATE = 500
LOST = "node.lost"
TWO_PIECES = "its executor"
"""In the evidence of a loss that a refused connection and a driver confirm."""
BOUND = 0.5
SETTLED = 5.0
"""Seconds after which a replacement that has just come has executors that are ready."""


def losses(stack: BenchmarkStack, count: int, *, freeze: bool = False) -> list[dict[str, Any]]:
    """Let `count` nodes with partitions fail; what was recorded of each, when all are healthy again."""
    victims = sorted(set(stack.plan()["assignment"].values()))[:count]
    sequence = stack.last_sequence()
    if freeze:
        at = time.time()
        go_on = stack.freeze_nodes(*victims)
    else:
        at = stack.kill_nodes(*victims)

    def recorded() -> list[dict[str, Any]]:
        found = stack.events(after=sequence, kinds=(LOST,))
        return found if {event["node"] for event in found} >= set(victims) else []

    try:
        stack.expect(recorded, f"the loss of {', '.join(victims)}", timeout=60)
    finally:
        if freeze:
            go_on()
    rows = [
        {
            "what": "freeze" if freeze else f"{count} of {NODES}",
            "node": event["node"],
            "seconds": round(seconds_of(event["at"]) - at, 3),
            "evidence": event["reason"],
        }
        for event in recorded()
        if event["node"] in victims
    ]
    stack.healthy()
    time.sleep(SETTLED)
    return rows


def measure(session: Session) -> Report:
    options = session.options
    count = min(options.count, 2) if session.quick else options.count
    rounds = [1] * count + [2] * count
    rows: list[dict[str, Any]] = []
    with (
        stopping_in_order(),
        running_stack(nodes=NODES, variables={}) as stack,
        session.progress("failures", len(rounds) + options.freeze) as step,
    ):
        stack.deploy_spec(pipeline_spec(rate=RATE, epoch_interval=1.0), input=input_file())
        stack.healthy()
        time.sleep(SETTLED)
        for victims in rounds:
            rows += losses(stack, victims)
            step()
        for _ in range(options.freeze):
            rows += losses(stack, 1, freeze=True)
            step()
    return report_of(rows)


def report_of(rows: list[dict[str, Any]]) -> Report:
    table = Table(title="Seconds until a loss is recorded", title_justify="left")
    for column in ("what", "losses", "median", "slowest", "by two pieces of evidence"):
        table.add_column(column, justify="left" if column == "what" else "right")
    results: dict[str, Any] = {}
    for what in sorted({row["what"] for row in rows}):
        those = [row for row in rows if row["what"] == what]
        seconds = [row["seconds"] for row in those]
        results[what] = {
            "seconds": sorted(seconds),
            "median": statistics.median(seconds),
            "by_two_pieces": sum(TWO_PIECES in row["evidence"] for row in those),
        }
        table.add_row(
            what, str(len(those)), f"{statistics.median(seconds):.2f}", f"{max(seconds):.2f}",
            str(results[what]["by_two_pieces"]),
        )  # fmt: skip
    killed = [row for row in rows if row["what"] != "freeze"]
    confirmed = sum(TWO_PIECES in row["evidence"] for row in killed)
    return Report(
        parameters={"nodes": NODES, "rate": RATE},
        results=results,
        criteria=[
            at_most("median of all kills (s)", statistics.median(row["seconds"] for row in killed), BOUND),
            at_least("kills confirmed by two pieces / kills", confirmed / len(killed), 1.0),
        ],
        tables=[table],
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--count", type=int, default=10, help="failures of each kind (default 10)")
    parser.add_argument("--freeze", type=int, default=0, help="nodes to freeze afterwards (default 0)")


if __name__ == "__main__":
    sys.exit(run(name="detection", about=__doc__, measure=measure, arguments=arguments))
