"""Sustained tweets per second with all fifteen queries, and what checkpoints and forcing data to disk cost.

Blocks of epochs run in turn at full speed: with and without checkpoints on the same cluster, and with
checkpoints on a cluster beside it that forces nothing. A block with checkpoints ends with the last of five.
"""

from __future__ import annotations

import os
import statistics
import sys
from typing import Any

from rich.table import Table

from benchmarks.engine import NODES
from benchmarks.forcing import NEVER, Block, Measured, both, criteria, described
from benchmarks.runner import Report, Session, at_least, run

EPOCH_TUPLES = 250_000
# Event time runs at the required rate, so windows hold as many tuples as at that rate.
RATE = 125_000
CHECKPOINTS = 5
INTERVAL = 10.0
QUICK_INTERVAL = 2.0
ON, OFF, UNFORCED = "checkpoints on", "checkpoints off", "checkpoints on, nothing forced"


def measure(session: Session) -> Report:
    rounds, interval = (1, QUICK_INTERVAL) if session.quick else (3, INTERVAL)
    source = {"rate": RATE, "pace": "fast", "path": os.environ.get("INPUT") or None}
    settings: dict[str, Any] = {"max_epoch_tuples": EPOCH_TUPLES, "epoch_interval": 2.0}
    found: dict[str, list[Measured]] = {ON: [], OFF: [], UNFORCED: []}
    with both(source, **settings) as sides, session.progress("blocks", 3 * rounds) as step:
        for side in sides.values():
            side.run(Block(epochs=10 if session.quick else 30))
        for number in range(rounds):
            for name in order(number):
                block = Block(checkpoints=CHECKPOINTS, interval=interval)
                if name == OFF:
                    # As long as the block before that had checkpoints.
                    block = Block(epochs=found[ON][-1].epochs, interval=NEVER)
                found[name].append(sides[name != UNFORCED].run(block))
                step()
    rates = {name: [one.tuples / one.seconds for one in blocks] for name, blocks in found.items()}
    on, off, unforced = (statistics.median(rates[name]) for name in (ON, OFF, UNFORCED))
    taken = min(one.checkpoints for name in (ON, UNFORCED) for one in found[name])
    return Report(
        parameters={
            "nodes": NODES,
            "epoch_tuples": EPOCH_TUPLES,
            "rate": RATE,
            "rounds": rounds,
            "checkpoint_interval": interval,
        },
        results={
            "tweets_per_second": rates,
            "checkpoints": {name: [one.checkpoints for one in blocks] for name, blocks in found.items()},
            "epochs": {name: [one.epochs for one in blocks] for name, blocks in found.items()},
            "forced_seconds": described(sides),
        },
        criteria=[
            at_least("tweets/s, checkpoints on", on, 120_000),
            at_least("checkpoints in a block that has some, least", taken, CHECKPOINTS),
            at_least("with checkpoints / without", on / off, 0.95),
            at_least("with forcing / without", on / unforced, 0.9),
            *criteria(sides),
        ],
        tables=[table_of(rates)],
    )


def order(number: int) -> tuple[str, ...]:
    """Of the blocks of a round: each pair that is compared runs in either order."""
    return (ON, OFF, UNFORCED) if number % 2 == 0 else (UNFORCED, OFF, ON)


def table_of(rates: dict[str, list[float]]) -> Table:
    table = Table(title=f"15 queries, {NODES} nodes, epochs of {EPOCH_TUPLES:,} tweets", title_justify="left")
    for column in ("", "median tweets/s", "min", "max"):
        table.add_column(column, justify="right")
    for name, values in rates.items():
        table.add_row(
            name, *(f"{value:,.0f}" for value in (statistics.median(values), min(values), max(values)))
        )
    return table


if __name__ == "__main__":
    sys.exit(run(name="throughput", about=__doc__, measure=measure))
