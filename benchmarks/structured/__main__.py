"""Whether Spark Structured Streaming carries the load of `benchmarks.scarcity`, without any failure.

Four of the fifteen queries, the windows, run as streaming queries of one application on a standalone cluster:
first one of them alone, then all four. What the other eleven take comes on top, so an engine that does not
keep pace with these does not carry the load. Nodes have the same quota as there, the driver and the master
none. Reported are how many tweets were processed of those that came, how old they were on average when the
batch with them was written, and how busy the nodes were. RATE=<tweets/s>, CAPACITY=<percent of a core per
node> and NODES=<n> as there; INPUT=<file> reads real tweets; COMPILERS=2 has executors use both of Java's
compilers. `--quick`: one window, for a minute.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.flink.checking import texts_read, texts_write
from benchmarks.node_usage import counting
from benchmarks.runner import Report, Session, at_least, run
from benchmarks.stack import input_file, stopping_in_order
from benchmarks.structured.cluster import TUNING, StructuredCluster, StructuredError
from benchmarks.structured.job import WINDOWS, Job
from spark_jobs.sources.sample import sample_write

NODES = int(os.environ.get("NODES", "5"))
CAPACITY = int(os.environ.get("CAPACITY", "20"))
RATE = int(os.environ.get("RATE", "120000"))
START = 300.0
WARM_UP, LOOK, QUICK_LOOK = 180.0, 120.0, 60.0
VARIANTS: Mapping[str, Sequence[str]] = {"one window": ["O0"], "four windows": list(WINDOWS)}


def variant_run(session: Session, label: str, queries: Sequence[str]) -> dict[str, Any]:
    """One application, looked at once it is warm. Raises `StructuredError`."""
    with tempfile.TemporaryDirectory(prefix="resurge-structured-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        source = input_file()
        if source is None:
            source = sample_write(home / "sample.parquet")
        texts_write(texts_read(Path(source)), home / "input.texts")
        with StructuredCluster(home, nodes=NODES, capacity=CAPACITY) as cluster:
            cluster.submit(
                Job(
                    master="",
                    texts=str(home / "input.texts"),
                    rate=RATE,
                    queries=list(queries),
                    partitions=NODES,
                    checkpoints=str(home / "checkpoints"),
                    progress=str(cluster.progress),
                    configuration={**cluster.configuration, "spark.sql.shuffle.partitions": str(NODES)},
                )
            )
            cluster.expect(
                lambda: {one["name"] for one in batches(cluster.progress)} == set(queries),
                "batch of every query",
                timeout=START,
            )
            session.note(f"{label}: the first batches are written")
            time.sleep(WARM_UP)
            leaders = cluster.leaders()
            quotas = [cluster.quota(node) or 0.0 for node in leaders]
            before = [periods.throttled for node in leaders if (periods := cluster.periods(node))]
            with counting(home, leaders) as usage:
                began, used = time.time(), sum(usage.seconds(node) for node in leaders)
                time.sleep(QUICK_LOOK if session.quick else LOOK)
                seconds = time.time() - began
                used = sum(usage.seconds(node) for node in leaders) - used
            after = [periods.throttled for node in leaders if (periods := cluster.periods(node))]
            cluster.check()
            seen = list(batches(cluster.progress))
    return {
        "variant": label,
        "quotas": quotas,
        "throttled": sum(after) - sum(before),
        "busy": used / seconds / (NODES * CAPACITY / 100),
        "queries": {query: described(seen, query, began, began + seconds) for query in queries},
    }


def batches(path: Path) -> Iterator[dict[str, Any]]:
    """Micro-batches as Spark reports them; the last line may be on its way."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                yield json.loads(line)


def described(seen: Sequence[Mapping[str, Any]], query: str, began: float, ended: float) -> dict[str, Any]:
    """What a query did between two moments. share: of the tweets that came then, in the batches that ended
    then. ages: of the tweets of a batch at its end, on average, in seconds."""
    rows, ages, durations, given = 0, [], [], 0
    for one in seen:
        at = _moment(one["timestamp"]) + one["batchDuration"] / 1000
        if one["name"] != query or not began < at <= ended or not one["numInputRows"]:
            continue
        rows += one["numInputRows"]
        durations.append(one["batchDuration"] / 1000)
        ages.append(at - _moment(one["eventTime"]["avg"]))
        given += sum(operator["numRowsRemoved"] for operator in one["stateOperators"])
    return {
        "batches": len(ages),
        "rows": rows,
        "share": rows / (RATE * (ended - began)),
        "batch_seconds": statistics.median(durations) if durations else None,
        "age_first": round(ages[0], 2) if ages else None,
        "age_median": round(statistics.median(ages), 2) if ages else None,
        "age_last": round(ages[-1], 2) if ages else None,
        "windows_given": given,
    }


def _moment(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _with_quota(variant: Mapping[str, Any]) -> int:
    return sum(quota > 0 for quota in variant["quotas"])


def _total(variant: Mapping[str, Any], key: str) -> int:
    """Of all queries of a variant; one that gets nowhere in two minutes is a result, too."""
    return sum(row[key] for row in variant["queries"].values())


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


@contextmanager
def _noted(session: Session, label: str) -> Iterator[None]:
    try:
        yield
    except StructuredError as error:
        session.note(f"{label}: {error}")


def measure(session: Session) -> Report:
    variants = dict([*VARIANTS.items()][:1]) if session.quick else VARIANTS
    found: list[dict[str, Any]] = []
    with stopping_in_order():
        for label, queries in variants.items():
            with _noted(session, label):
                found.append(variant_run(session, label, queries))
    return report_of(found, len(variants))


def report_of(found: Sequence[Mapping[str, Any]], wanted: int) -> Report:
    report = Report(
        parameters={"nodes": NODES, "quota_percent": CAPACITY, "rate": RATE, "tuning": dict(TUNING)},
        results={"variants": list(found)},
    )
    table = Table(
        title=f"{RATE:,} tweets/s on {NODES} nodes with {CAPACITY} % of a core", title_justify="left"
    )
    for column in (
        "variant",
        "query",
        "busy",
        "batches",
        "of the tweets",
        "batch",
        "age, median",
        "at the end",
    ):
        table.add_column(column, justify="left" if column in ("variant", "query") else "right")
    for one in found:
        for query, row in one["queries"].items():
            table.add_row(
                one["variant"], query, f"{one['busy']:.0%}", str(row["batches"]), f"{row['share']:.0%}",
                *(_seconds(row[key]) for key in ("batch_seconds", "age_median", "age_last")),
            )  # fmt: skip
    report.tables.append(table)
    report.criteria += [
        at_least("variants measured", len(found), wanted),
        at_least("nodes with the quota in force, least", min(map(_with_quota, found), default=0), NODES),
        at_least("periods stopped by the quota, least", min((o["throttled"] for o in found), default=0), 1),
        at_least("tweets processed, least", min((_total(one, "rows") for one in found), default=0), 1),
        at_least(
            "rows of windows that ended, least",
            min((_total(one, "windows_given") for one in found), default=0),
            1,
        ),
    ]
    return report


if __name__ == "__main__":
    sys.exit(run(name="structured", about=__doc__, measure=measure))
