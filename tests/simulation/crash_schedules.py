"""The whole engine on a file system that loses what was not forced to disk, shut down at random moments.

python -m tests.simulation.crash_schedules --count 13
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.lossy_disk import LossyDisk
from spark_jobs.driver.epoch_log import EpochLog, EpochLogError
from spark_jobs.executor.restore import restore_partition
from spark_jobs.sinks.committed import committed_files, committed_read
from spark_jobs.state.store import StateStore
from supervision.checks import SKIPPED
from tests.lossy_disk import lossy_disk
from tests.simulation.engine_drive import drive
from tests.simulation.engine_world import DriverKilledError, World
from tests.simulation.test_engine import new_world

CRASHES = 4
"""Of each schedule."""
CALLS = 1_200
"""About so many calls that name, force or write a line are made in a run without a crash."""
ALL = 1_000_000
Files = dict[str, list[dict[str, Any]]]


def forced_world(root: Path, seed: int) -> World:
    """Without other failures."""
    world = new_world(root, seed=seed)
    world.failing, world.force = False, True
    return world


def output_files(root: Path, last: int) -> Iterator[Path]:
    """Those of the epochs up to `last`."""
    for path in sorted((root / "outputs").glob("*/deployed=1/*/*/epoch=*/part*.parquet")):
        if int(path.parent.name.partition("=")[2]) <= last:
            yield path


def clean_files(root: Path) -> Files:
    """The rows of each output file of a run without a crash."""
    world = forced_world(root, seed=0)
    assert drive(world, steps=100_000) == "completed"
    return {str(path.relative_to(root)): rows_of(path) for path in output_files(root, ALL)}


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.ParquetFile(path).read().to_pylist()
    return rows


def run_schedule(disk: LossyDisk, clean: Files, seed: int) -> None:
    """Outputs of epochs that were reported as committed are whole, each partition of the checkpoint can be
    restored on an empty node, and the run goes on to the same rows."""
    chosen = random.Random(seed)
    world = forced_world(disk.root, seed=seed)
    os.sync()  # the user's input
    for number in range(CRASHES):
        crash_at(world, disk, chosen.randint(1, CALLS))
        disk.restart()
        committed = max((one.committed for one in world.reported), default=0)
        for name, rows in clean.items():
            if int(Path(name).parent.name.partition("=")[2]) <= committed:
                assert rows_of(disk.root / name) == rows, name
        listed_files_are_whole(disk.root / "outputs" / "t")
        if world.latest is not None and world.latest.checkpoint:
            restore_all(world, disk.root / f"restored-{number}")
    assert drive(world, steps=100_000) == "completed"
    found = output_files(disk.root, ALL)
    assert {str(path.relative_to(disk.root)): rows_of(path) for path in found} == clean


def listed_files_are_whole(outputs: Path) -> None:
    """Readers find all that `committed.json` names. It may be ahead of a log whose last line was lost: the
    epochs are applied again, with the same rows."""
    listed = committed_read(outputs)
    if listed is not None:
        for operator in {path.name for path in outputs.glob("deployed=1/*") if path.is_dir()}:
            for path in committed_files(outputs, operator, listed):
                rows_of(path)


def crash_at(world: World, disk: LossyDisk, call: int) -> None:
    """The power goes before this call that names, forces or writes a line; the driver dies with it."""
    left = [call]

    def before(function: Any) -> Any:
        def called(*arguments: Any, **keywords: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                disk.crash()
            if left[0] <= 0:
                raise DriverKilledError
            return function(*arguments, **keywords)

        return called

    with pytest.MonkeyPatch.context() as patched:
        for owner, name in (
            (os, "replace"), (os, "rename"), (os, "link"), (os, "fdatasync"), (os, "fsync"),
            (Path, "rename"), (EpochLog, "commit"), (EpochLog, "applied"), (EpochLog, "plan"),
        ):  # fmt: skip
            patched.setattr(owner, name, before(getattr(owner, name)))
        try:
            ended = drive(world, steps=100_000)
        except (OSError, EpochLogError):
            ended = "killed"
    if ended != "killed":
        disk.crash()


def restore_all(world: World, empty: Path) -> None:
    """Every partition of the newest complete checkpoint, on a node that has nothing."""
    assert world.latest is not None
    layout: Any = SimpleNamespace(
        spec=world.topology.spec, deployed=1, checkpoints=world.checkpoints, division=None
    )
    for partition in world.topology.partitions:
        store = StateStore(empty / partition)
        restore_partition(store, layout, partition, world.latest.checkpoint)
        assert store.manifest(world.latest.checkpoint).epoch == world.latest.checkpoint


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=13, help=f"schedules, each of {CRASHES} crashes")
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    pytest.MonkeyPatch().setattr(time, "sleep", lambda seconds: None)
    failing: list[int] = []
    with tempfile.TemporaryDirectory() as name:
        clean = clean_files(Path(name))
    for seed in range(given.first, given.first + given.count):
        try:
            with tempfile.TemporaryDirectory() as name, lossy_disk(Path(name)) as disk:
                run_schedule(disk, clean, seed)
        except pytest.skip.Exception as reason:
            print(f"skipped: {reason}")
            return SKIPPED
        except Exception:  # the point is to go on and list them all
            failing.append(seed)
            print(f"seed {seed} fails", flush=True)
            traceback.print_exc()
    print(f"{given.count} schedules from seed {given.first}: {len(failing)} failing {failing[:20]}")
    return 1 if failing else 0


if __name__ == "__main__":
    sys.exit(main())
