"""What state by key costs: bytes that a checkpoint adds, seconds that an epoch takes, and memory, by size.

One partition's state on the local disk, without Spark: `--keys` keys, of which `--changed` of a hundred
change between two checkpoints, ten epochs apart, at random, when the state has grown and settled. The
baseline is the same state as a map in the manifest, which is written anew with each epoch, for the smallest
size only. One size goes on for so many checkpoints that a sweep begins and ends, which writes the whole base
anew. Memory is what the process has that is not a mapped file.

`--quick`: up to 100,000 keys instead of 20 million (about 2 GB).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from rich.table import Table

from benchmarks.runner import COLOURS, Report, Session, at_least, at_most, run
from spark_jobs.state.store import EMPTY, Manifest, StateStore

EPOCHS = 10
"""Between two checkpoints."""
CHECKPOINTS = 8
"""After the state is there."""
SWEPT, LONG = 10_000_000, 120
"""Keys of the state that goes on (or fewer, with `--keys`), and its checkpoints."""
SETTLED = 3
"""Epochs without a sweep after the state has grown."""
LOADED = 500_000
"""Keys that an epoch adds while the state grows."""
PAYLOAD = 60
"""Bytes of a row's text."""
SIZES = (100_000, 1_000_000, 10_000_000, 20_000_000)


def rows_of(keys: np.ndarray[Any, Any], epoch: int) -> pa.Table:
    names = pa.array([f"user-{key:012d}" for key in keys.tolist()], pa.string())
    text = pa.array([f"{epoch:08d}-{key}".ljust(PAYLOAD, ".") for key in keys.tolist()], pa.string())
    return pa.table({"key": names, "text": text, "count": pa.array(np.full(len(keys), epoch))})


def own_memory() -> int:
    """Bytes of this process without mapped files."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) << 10


def epochs(store: StateStore, keys: int, changed: float, checkpoints: int) -> Iterator[dict[str, Any]]:
    """The state grows, and then changes: one row for each checkpoint. `sweeping`: epochs in which a sweep was
    under way."""
    dice = np.random.default_rng(7)
    manifest: Manifest = EMPTY
    epoch = 0

    def apply(rows: pa.Table) -> None:
        nonlocal manifest, epoch
        epoch += 1
        state = store.open(manifest)
        held = state.keyed("t", ["key"])
        found = held.find(rows)
        if epoch > grown and found.missing.any():
            raise RuntimeError("a key of the state was not found")
        held.put(rows)
        manifest = store.commit(state, epoch=epoch, generation=1)
        store.trim(below=epoch, keep=[kept])

    kept, grown = 0, -(-keys // LOADED)
    for low in range(0, keys, LOADED):
        apply(rows_of(np.arange(low, min(keys, low + LOADED)), epoch))
    settled = 0
    while settled < SETTLED:  # what growing has begun, and a sweep that follows
        apply(rows_of(dice.integers(0, keys, 1), epoch))
        settled = 0 if sweeps(manifest) else settled + 1
    for checkpoint in range(checkpoints):
        uploaded = {one.name for one in manifest.files()}
        kept, seconds, sweeping = epoch, [], 0
        for _ in range(EPOCHS):
            chosen = dice.integers(0, keys, round(keys * changed / 100 / EPOCHS))
            rows = rows_of(np.unique(chosen), epoch)
            began = time.perf_counter()
            apply(rows)
            seconds.append(time.perf_counter() - began)
            sweeping += sweeps(manifest)
        added = sum(one.bytes for one in manifest.files() if one.name not in uploaded)
        yield {
            "checkpoint": checkpoint,
            "state_bytes": manifest.bytes,
            "added_bytes": added,
            "share": added / manifest.bytes,
            "files": len(manifest.files()),
            "changed": round(keys * changed / 100 / EPOCHS),
            "epoch_median_s": float(np.median(seconds)),
            "epoch_greatest_s": max(seconds),
            "memory_bytes": own_memory(),
            "sweeping": sweeping,
        }


def sweeps(manifest: Manifest) -> bool:
    return any("sweep" in one.note for one in manifest.files())


def as_map(store: StateStore, keys: int, changed: float) -> dict[str, Any]:
    """The same in a map of the manifest."""
    state = store.open(EMPTY)
    state.map("t").update({f"user-{key:012d}": "x" * PAYLOAD for key in range(keys)})
    manifest = store.commit(state, epoch=1, generation=1)
    began = time.perf_counter()
    state = store.open(manifest)
    state.map("t").update({f"user-{key:012d}": "y" * PAYLOAD for key in range(round(keys * changed / 1000))})
    store.commit(state, epoch=2, generation=1)
    seconds = time.perf_counter() - began
    size = (store.directory / "2.manifest").stat().st_size
    return {"keys": keys, "state_mb": size / 1e6, "epoch_ms": 1e3 * seconds}


def measure(session: Session) -> Report:
    options = session.options
    sizes = [size for size in SIZES if size <= (SIZES[0] if session.quick else options.keys)]
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="resurge-keyed-", dir=options.scratch) as scratch:
        for keys in sizes:
            found = []
            with session.progress(f"checkpoints of {keys:,} keys", CHECKPOINTS) as step:
                for row in epochs(StateStore(Path(scratch) / str(keys)), keys, options.changed, CHECKPOINTS):
                    found.append(row)
                    step()
            runs.append(summary(keys, found))
        long = going_on(session, Path(scratch) / "long", min(SWEPT, sizes[-1]))
        baseline = as_map(StateStore(Path(scratch) / "map"), sizes[0], options.changed)
    table = Table(
        title=f"{options.changed:g} % of the keys change between two checkpoints", title_justify="left"
    )
    for heading in (
        "keys",
        "state MB",
        "a checkpoint adds",
        "at most",
        "epoch ms",
        "at most",
        "keys/s",
        "memory MB",
    ):
        table.add_column(heading, justify="right")
    for one in runs:
        table.add_row(
            f"{one['keys']:,}",
            f"{one['state_mb']:.0f}",
            f"{one['share']:.2%}",
            f"{one['share_greatest']:.1%}",
            f"{one['epoch_ms']:.0f}",
            f"{one['epoch_ms_greatest']:.0f}",
            f"{one['keys_per_s']:,.0f}",
            f"{one['memory_mb']:.0f}",
        )
    table.add_row(
        f"{sizes[0]:,}, map",
        f"{baseline['state_mb']:.0f}",
        "100%",
        "",
        f"{baseline['epoch_ms']:.0f}",
        "",
        "",
        "",
    )
    table.add_row(
        f"{long['keys']:,}, in a sweep",
        f"{long['state_mb']:.0f}",
        f"{long['share']:.2%}",
        f"{long['share_greatest']:.1%}",
        f"{long['epoch_ms']:.0f}",
        f"{long['epoch_ms_greatest']:.0f}",
        "",
        f"{long['memory_mb']:.0f}",
    )
    criteria = [
        at_most(
            f"median share that a checkpoint adds, {one['keys']:,} keys",
            one["share"],
            2 * options.changed / 100,
        )
        for one in runs
    ]
    criteria.append(at_least("checkpoints in whole sweeps", long["checkpoints"], 1))
    return Report(
        parameters={"changed_percent": options.changed, "epochs": EPOCHS, "checkpoints": CHECKPOINTS},
        results={"sizes": runs, "map": baseline, "sweep": long},
        criteria=criteria,
        tables=[table],
    )


def going_on(session: Session, directory: Path, keys: int) -> dict[str, Any]:
    """Of checkpoints while whole sweeps were under way: as `summary`; `share_of_all` is the mean of all
    checkpoints from when the state has grown to the end of the last whole sweep."""
    found = []
    with session.progress(f"checkpoints of {keys:,} keys, with a sweep", LONG) as step:
        for row in epochs(StateStore(directory), keys, session.options.changed, LONG):
            found.append(row)
            step()
    while found and found[-1]["sweeping"]:  # the last sweep may have further to go
        found.pop()
    last = max((at for at, row in enumerate(found) if row["sweeping"]), default=-1)
    sweep = [row for row in found if row["sweeping"]]
    if not sweep:
        raise RuntimeError(f"no sweep began and ended within {LONG} checkpoints")
    shares = [row["share"] for row in found[: last + 1]]
    return {
        **summary(keys, sweep),
        "checkpoints": len(sweep),
        "of": last + 1,
        "share_of_all": statistics.mean(shares),
    }


def summary(keys: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the checkpoints of one size."""
    median = statistics.median
    epoch = median(row["epoch_median_s"] for row in rows)
    if not all(row["added_bytes"] for row in rows):
        raise RuntimeError("a checkpoint added nothing")
    return {
        "keys": keys,
        "state_mb": rows[-1]["state_bytes"] / 1e6,
        "share": median(row["share"] for row in rows),
        "share_mean": statistics.mean(row["share"] for row in rows),
        "share_greatest": max(row["share"] for row in rows),
        "epoch_ms": 1e3 * epoch,
        "epoch_ms_greatest": 1e3 * max(row["epoch_greatest_s"] for row in rows),
        "keys_per_s": median(row["changed"] for row in rows) / epoch,
        "files": rows[-1]["files"],
        "memory_mb": max(row["memory_bytes"] for row in rows) / 1e6,
    }


def draw(results: dict[str, Any]) -> Figure:
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    sizes = [one["state_mb"] for one in results["sizes"]]
    series = (("keys_per_s", "keys changed per second"), ("memory_mb", "MB of memory, without mapped files"))
    for axis, (name, label), colour in zip(axes, series, COLOURS, strict=False):
        axis.plot(sizes, [one[name] for one in results["sizes"]], marker="o", color=colour)
        axis.set(xscale="log", xlabel="state, MB", ylabel=label, ylim=(0, None))
        axis.grid(alpha=0.3)
    return figure


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keys", type=int, default=SIZES[-1], help="the largest state")
    parser.add_argument(
        "--changed", type=float, default=1.0, help="percent of the keys between two checkpoints"
    )
    parser.add_argument("--scratch", type=Path, help="a directory on the disk to measure")


if __name__ == "__main__":
    sys.exit(run(name="keyed_state", about=__doc__, measure=measure, draw=draw, arguments=arguments))
