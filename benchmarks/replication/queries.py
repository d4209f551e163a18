"""The queries of the paper on PPA as pipelines of this project, with their data, and their accuracy."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.replication.one_process import BEGIN, Tables
from domain.topology import load_yaml

PIPELINES = Path(__file__).parents[2] / "spark_jobs" / "pipelines"
SECOND = 1_000_000
VIEWS, ARRIVALS, SPEEDS = (
    "page_clicks.parquet",
    "wc98_june30_requests_per_minute.csv",
    "metr_la_los_speed.csv.gz",
)
RATE = 500
"""Of the real page views: tuples per second in the mean."""

Windows = dict[int, dict[str, int]]
"""By the end of a window in seconds: its pages with their views, or its segments with an incident and the
seconds in which they were slow."""


@dataclass(frozen=True, slots=True)
class Query:
    """window: seconds of its longest window. source: parameters of all its sources. data: where its input is
    from."""

    name: str
    pipeline: str
    window: int
    data: str
    source: Mapping[str, Any]

    def spec(self) -> dict[str, Any]:
        spec = load_yaml((PIPELINES / f"{self.pipeline}.yaml").read_text(encoding="utf-8"))
        for operator in spec["operators"]:
            if operator["kind"] == "source":
                operator["params"] = {**operator["params"], **self.source}
        return spec


def queries() -> list[Query]:
    """Q1 reads real data where RESURGE_TEST_DATA has them; Q2 is as the paper says, and once more with
    speeds that were measured."""
    known = os.environ.get("RESURGE_TEST_DATA")
    data = Path(known) if known else None
    if data and (data / VIEWS).exists() and (data / ARRIVALS).exists():
        real = {"path": str(data / VIEWS), "arrivals": str(data / ARRIVALS), "speedup": 60, "rate": RATE}
        first = Query("Q1", "top-pages", 60, f"{VIEWS} at the rates of {ARRIVALS}", real)
    else:
        first = Query("Q1", "top-pages", 60, "generated page views", {})
    found = [first, Query("Q2", "traffic-incidents", 300, "generated traffic", {})]
    if data and (data / SPEEDS).exists():
        measured = {"path": str(data / SPEEDS)}
        found.append(Query("Q2, measured speeds", "traffic-incidents", 300, SPEEDS, measured))
    return found


def windows_of(tables: Tables) -> Windows:
    """What a query gave of each whole window: one that begins before the first tuple is none."""
    found: Windows = {}
    for table in tables:
        if table is None:
            continue
        columns = (table.column(name).to_pylist() for name in ("window_start", "window_end", "key", "count"))
        for start, end, key, count in zip(*columns, strict=True):
            if start >= BEGIN * SECOND:
                found.setdefault(end // SECOND, {})[key] = count
    return found


def accuracy(tentative: Windows, accurate: Windows) -> float:
    """The share of the accurate keys that the tentative output has, in the mean of the windows: how the paper
    measures both queries. Raises ValueError where there is nothing to compare with."""
    _require(accurate)
    return statistics.mean(
        len(tentative.get(end, {}).keys() & keys.keys()) / len(keys) for end, keys in accurate.items()
    )


def counted(tentative: Windows, accurate: Windows) -> float:
    """The same of what was counted for these keys."""
    _require(accurate)
    return statistics.mean(
        sum(min(count, tentative.get(end, {}).get(key, 0)) for key, count in keys.items())
        / sum(keys.values())
        for end, keys in accurate.items()
    )


def _require(accurate: Windows) -> None:
    if not accurate:
        raise ValueError("the complete run has no output in any whole window")
