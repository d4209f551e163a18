"""The topology of Figure 6, its input, and what its nodes may take. Pure but for `input_write`.

Sixteen source partitions, then four operators with 8, 4, 2 and 1 partitions, of which each reads two of the
operator before it: the paper's own numbers. A synthetic operator counts keys in a sliding window of 30 s
every second, and a projection that stays with it makes its windows the next one's input. Every partition sees
two inputs with the same keys, and gives each key once a second: it halves what it reads. There are as many
keys as a source partition gives tuples per second, so states grow with the rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.stack import TOPOLOGY
from domain.topology import split_partition

SOURCES = 16
SYNTHETIC = {"O1": 8, "O2": 4, "O3": 2, "O4": 1}
"""Operator -> partitions."""
QUERY = "O4[0]"
WINDOW, SLIDE = 30.0, 1.0
NO_CHECKPOINT = 36_000.0
"""Seconds between checkpoints that the driver takes by itself: longer than any run."""

MAX_UTILISATION = 0.8
SOURCE_REQUEST, REQUEST = 2.0, 0.02
"""Cores that plans count for a partition of the source, and for any other. They are no limit: sources are so
large for the plan that only one node has room for them, and nothing else fits there."""
ROOMY = 10_000
"""CPU percent of a node that has room for everything."""
TIGHT = 230
"""CPU percent of a node that has no room for a partition of the source."""


def spec_of(rate: int, *, epoch: float) -> dict[str, Any]:
    """rate: tuples per second of one source partition."""
    operators: list[dict[str, Any]] = [
        {
            "name": "Source",
            "kind": "source",
            "parallelism": SOURCES,
            "params": {"reader": "file", "text": "key", "partition_by": "source", "rate": rate * SOURCES},
            "cpu_request": SOURCE_REQUEST,
        },
        _projection("Keys", "Source", SOURCES, {"ts": "ts", "key": "text"}),
    ]
    before = "Keys"
    for name, parallelism in SYNTHETIC.items():
        operators.append(
            {
                "name": name,
                "kind": "sliding_window",
                "parallelism": parallelism,
                "inputs": [{"from": before, "partitioning": "merge"}],
                "params": {"size_s": WINDOW, "slide_s": SLIDE},
                "cpu_request": REQUEST,
                "output": parallelism == 1,
            }
        )
        if parallelism > 1:
            before = f"{name}Keys"
            operators.append(_projection(before, name, parallelism, {"ts": "window_end", "key": "key"}))
    return {
        # The methods of `BenchmarkStack` ask for the topology of this name.
        "name": TOPOLOGY,
        "description": "Figure 6 of partially active replication",
        "epoch_interval": epoch,
        "checkpoint_interval": NO_CHECKPOINT,
        "operators": operators,
    }


def _projection(name: str, source: str, parallelism: int, columns: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "kind": "project",
        "parallelism": parallelism,
        "inputs": [{"from": source, "partitioning": "one_to_one"}],
        "params": {"columns": dict(columns)},
        "cpu_request": REQUEST,
    }


def input_write(path: Path, rate: int) -> Path:
    """One second of input: each source partition has `rate` tuples, each of another key."""
    rows = range(rate * SOURCES)
    table = pa.table(
        {
            "key": pa.array([f"key {row // SOURCES:06}" for row in rows]),
            "source": pa.array([f"{row % SOURCES:02}" for row in rows]),
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


def source_capacity() -> int:
    """CPU percent of a node that has room for all source partitions with what is chained to them, and then
    less than other nodes."""
    wanted = 100 * SOURCES * (SOURCE_REQUEST + REQUEST)
    return round((wanted + 100) / MAX_UTILISATION)


def is_synthetic(partition: str) -> bool:
    """Whether it is of a synthetic operator, its projection included."""
    return split_partition(partition)[0].removesuffix("Keys") in SYNTHETIC


def windowed(partitions: Iterable[str]) -> list[str]:
    """Those of the synthetic operators themselves, as the paper counts them."""
    return [partition for partition in partitions if split_partition(partition)[0] in SYNTHETIC]


def half_of(partitions: int) -> int:
    """The replication budget that is a half."""
    return (partitions + 1) // 2
