"""How much longer an epoch takes than an empty Spark job, and than an epoch that forces nothing to disk.

The demo's epoch on four nodes and a job with the same stages and tasks, whose functions do nothing, run in
turn on the same cluster. A few epochs at a time, they do so on a cluster beside it, which forces nothing.
"""

from __future__ import annotations

import sys

from rich.table import Table

from benchmarks.compact import spread
from benchmarks.engine import NODES
from benchmarks.forcing import Block, both, criteria, described
from benchmarks.runner import Report, Session, at_most, ratio_of_medians, run

RATE = 1_000
AT_ONCE = 5
EPOCH, EMPTY, UNFORCED = "epoch", "empty job", "epoch, nothing forced"


def measure(session: Session) -> Report:
    rounds = 4 if session.quick else 24
    seconds: dict[str, list[float]] = {EPOCH: [], EMPTY: [], UNFORCED: []}
    checkpoints = {EPOCH: 0, UNFORCED: 0}
    # With the pace `fast` the next epoch is planned when the last one is committed, so no wait is measured.
    with (
        both({"rate": RATE, "pace": "fast"}, max_epoch_tuples=RATE) as sides,
        session.progress("rounds", rounds) as step,
    ):
        for side in sides.values():
            side.run(Block(epochs=15, single=True))
        for number in range(rounds):
            for force in (True, False) if number % 2 == 0 else (False, True):
                found = sides[force].run(Block(epochs=AT_ONCE, single=True))
                seconds[EPOCH if force else UNFORCED] += found.epoch_seconds
                checkpoints[EPOCH if force else UNFORCED] += found.checkpoints
                if force:
                    seconds[EMPTY] += found.empty_seconds
            step()
    table = Table(title=f"{found.levels} stages, {NODES} nodes, {RATE} tweets an epoch", title_justify="left")
    for column in ("", "median ms", "p90 ms"):
        table.add_column(column, justify="right")
    for name, values in seconds.items():
        one = spread(values)
        table.add_row(name, f"{1e3 * one['median']:.0f}", f"{1e3 * one['p90']:.0f}")
    ratio, forcing = (ratio_of_medians(seconds[EPOCH], seconds[name]) for name in (EMPTY, UNFORCED))
    return Report(
        parameters={"nodes": NODES, "rate": RATE, "epochs": rounds * AT_ONCE, "levels": found.levels},
        results={
            "seconds": {name: spread(values) for name, values in seconds.items()},
            "checkpoints": checkpoints,
            "forced_seconds": described(sides),
            "ratio": ratio,
            "ratio_forcing": forcing,
        },
        criteria=[
            at_most("epoch / empty job, ratio of medians", ratio, 1.5),
            at_most("epoch with forcing / without, ratio of medians", forcing, 1.1),
            *criteria(sides),
        ],
        tables=[table],
    )


if __name__ == "__main__":
    sys.exit(run(name="epoch_overhead", about=__doc__, measure=measure))
