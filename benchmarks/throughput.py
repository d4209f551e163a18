"""Sustained tweets per second with all fifteen queries, and the cost of checkpoints. Blocks of epochs with
and without checkpoints run in turn on the same cluster, at full speed."""

from __future__ import annotations

import os
import statistics
import sys
import time

from rich.table import Table

from benchmarks.engine import NODES, advance, hashtags, running
from benchmarks.runner import Report, Session, at_least, run

EPOCH_TUPLES = 250_000
# Event time runs at the required rate, so windows hold as many tuples as at that rate.
RATE = 125_000
NEVER = 1e9
INTERVAL = 10.0


def measure(session: Session) -> Report:
    blocks, epochs = (3, 6) if session.quick else (5, 12)
    source = {"rate": RATE, "pace": "fast", "path": os.environ.get("INPUT") or None}
    topology = hashtags(source=source, max_epoch_tuples=EPOCH_TUPLES, epoch_interval=2.0)
    rates: dict[str, list[float]] = {"checkpoints on": [], "checkpoints off": []}
    with running(topology) as loop, session.progress("blocks", 2 * blocks) as step:
        advance(loop, 30 if not session.quick else 10)
        for _ in range(blocks):
            for name, interval in (("checkpoints on", INTERVAL), ("checkpoints off", NEVER)):
                loop.machine.checkpoints.set_interval(interval, loop.clock())
                started = time.perf_counter()
                tuples = advance(loop, epochs)
                rates[name].append(tuples / (time.perf_counter() - started))
                step()
    on, off = (statistics.median(rates[name]) for name in rates)
    table = Table(title=f"15 queries, {NODES} nodes, epochs of {EPOCH_TUPLES:,} tweets", title_justify="left")
    for column in ("", "median tweets/s", "min", "max"):
        table.add_column(column, justify="right")
    for name, values in rates.items():
        table.add_row(
            name, *(f"{value:,.0f}" for value in (statistics.median(values), min(values), max(values)))
        )
    return Report(
        parameters={
            "nodes": NODES,
            "epoch_tuples": EPOCH_TUPLES,
            "rate": RATE,
            "blocks": blocks,
            "epochs": epochs,
        },
        results={"tweets_per_second": rates},
        criteria=[
            at_least("tweets/s, checkpoints on", on, 120_000),
            at_least("with checkpoints / without", on / off, 0.95),
        ],
        tables=[table],
    )


if __name__ == "__main__":
    sys.exit(run(name="throughput", about=__doc__, measure=measure))
