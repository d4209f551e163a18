"""Whether memory grows: resident memory of the driver, the executors and their Python workers over many
epochs. The last fifth of the run is compared with the second."""

from __future__ import annotations

import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rich.table import Table

from benchmarks.engine import NODES, advance, hashtags, running
from benchmarks.runner import Report, Session, at_most, run

RATE = 1_000
EVERY = 20
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident(home: str) -> dict[str, int]:
    """Bytes by kind of process, of all processes of this installation."""
    found: dict[str, int] = defaultdict(int)
    for directory, what in processes(home):
        with suppress(OSError):  # it ended meanwhile
            found[what] += int((directory / "statm").read_text().split()[1]) * PAGE
    return found


def processes(home: str) -> Iterator[tuple[Path, str]]:
    """Below /proc, those of this installation, each with its kind."""
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        try:
            if f"RESURGE_HOME={home}".encode() not in (directory / "environ").read_bytes():
                continue
            command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it ended meanwhile
        yield directory, kind(command)


def kind(command: str) -> str:
    if "CoarseGrainedExecutorBackend" in command:
        return "executors"
    if "pyspark.daemon" in command or "spark_jobs.executor.preloaded" in command:
        return "python workers"
    if "SparkSubmit" in command:
        return "driver JVM"
    return "servers and agents"


def measure(session: Session) -> Report:
    # At one epoch a second, as in the demo, the full run corresponds to an hour.
    samples = 40 if session.quick else 180
    topology = hashtags(source={"rate": RATE, "pace": "fast"}, max_epoch_tuples=RATE)
    series: dict[str, list[int]] = defaultdict(list)
    with running(topology) as loop, session.progress(f"samples, {EVERY} epochs each", samples) as step:
        home = os.environ["RESURGE_HOME"]
        for _ in range(samples):
            advance(loop, EVERY)
            for name, size in resident(home).items():
                series[name].append(size)
            series["driver"].append(int(Path("/proc/self/statm").read_text().split()[1]) * PAGE)
            step()
    fifth = max(1, samples // 5)
    table = Table(title=f"{samples * EVERY} epochs of {RATE} tweets on {NODES} nodes", title_justify="left")
    for column in ("", "early MB", "late MB", "ratio"):
        table.add_column(column, justify="right")
    total = [sum(values) for values in zip(*series.values(), strict=False)]
    medians: dict[str, dict[str, float]] = {}
    for name, values in [*series.items(), ("all", total)]:
        early, late = statistics.median(values[fifth : 2 * fifth]), statistics.median(values[-fifth:])
        table.add_row(name, f"{early / 1e6:.0f}", f"{late / 1e6:.0f}", f"{late / early:.2f}")
        medians[name] = {"early": round(early / 1e6, 1), "late": round(late / 1e6, 1)}
    return Report(
        parameters={"nodes": NODES, "epochs": samples * EVERY, "rate": RATE},
        results={"megabytes": medians},
        criteria=[at_most("memory late / early", late / early, 1.1)],
        tables=[table],
    )


if __name__ == "__main__":
    sys.exit(run(name="memory", about=__doc__, measure=measure))
