"""How much longer an epoch takes than an empty Spark job. The demo's epoch on four nodes and a job with the
same stages and tasks, whose functions do nothing, run in turn on the same cluster."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

from rich.table import Table

from benchmarks.compact import spread
from benchmarks.engine import NODES, advance, hashtags, running
from benchmarks.runner import Report, Session, at_most, ratio_of_medians, run

RATE = 1_000


class EmptyStage:
    """Takes its records and sends nothing."""

    def __call__(self, slot: int, records: Iterator[Any]) -> Iterator[Any]:
        for _ in records:
            pass
        return iter(())


def measure(session: Session) -> Report:
    repeats = 20 if session.quick else 60
    # With the pace `fast` the next epoch is planned when the last one is committed, so no wait is measured.
    topology = hashtags(source={"rate": RATE, "pace": "fast"}, max_epoch_tuples=RATE)
    seconds: dict[str, list[float]] = {"epoch": [], "empty job": []}
    with running(topology) as loop, session.progress("epochs", repeats) as step:
        advance(loop, 15)
        assert loop.placement.layout is not None  # noqa: S101 - the loop runs
        stages = [EmptyStage()] * loop.placement.layout.level_count
        for _ in range(10):
            loop.cluster.exchange(stages)
        for _ in range(repeats):
            started = time.perf_counter()
            advance(loop, 1)
            middle = time.perf_counter()
            loop.cluster.exchange(stages)
            seconds["epoch"].append(middle - started)
            seconds["empty job"].append(time.perf_counter() - middle)
            step()
        levels = loop.placement.layout.level_count
    ratio = ratio_of_medians(seconds["epoch"], seconds["empty job"])
    table = Table(title=f"{levels} stages, {NODES} nodes, {RATE} tweets an epoch", title_justify="left")
    for column in ("", "median ms", "p90 ms"):
        table.add_column(column, justify="right")
    for name, values in seconds.items():
        ordered = sorted(values)
        p90 = ordered[int(len(ordered) * 0.9)]
        table.add_row(name, f"{1e3 * ordered[len(ordered) // 2]:.0f}", f"{1e3 * p90:.0f}")
    return Report(
        parameters={"nodes": NODES, "rate": RATE, "repeats": repeats, "levels": levels},
        results={"seconds": {name: spread(values) for name, values in seconds.items()}, "ratio": ratio},
        criteria=[at_most("epoch / empty job, ratio of medians", ratio, 1.5)],
        tables=[table],
    )


if __name__ == "__main__":
    sys.exit(run(name="epoch_overhead", about=__doc__, measure=measure))
