"""The loss of power: what the epoch log calls committed, and each complete checkpoint, is on the disk."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from domain.messages import LatestCheckpoint
from spark_jobs.driver.epoch_log import EpochLog, EpochLogError
from spark_jobs.executor.restore import restore_partition
from spark_jobs.state.store import StateStore
from tests.lossy_disk import LossyDisk, lossy_disk
from tests.simulation.engine_world import DriverKilledError, PlayedCoordination, World, drive
from tests.simulation.test_engine import new_world


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


def forced_world(root: Path, seed: int) -> World:
    world = new_world(root, seed=seed)
    world.failing, world.force = False, True
    return world


# ---- the order of steps --------------------------------------------------------------------------------


class Forced:
    """What is on disk whatever happens, as far as calls to the operating system say: contents by file number,
    names by directory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.contents: set[int] = set()
        self.directories: dict[str, set[str]] = {}
        for name, record in (("fdatasync", self._content), ("fsync", self._any)):
            monkeypatch.setattr(os, name, self._recorded(getattr(os, name), record))

    def _recorded(self, call: Callable[[int], None], record: Callable[[int], None]) -> Callable[[int], None]:
        def recorded(descriptor: int) -> None:
            call(descriptor)
            record(descriptor)

        return recorded

    def _content(self, descriptor: int) -> None:
        self.contents.add(os.fstat(descriptor).st_ino)

    def _any(self, descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if os.path.isdir(path):
            self.directories[path] = set(os.listdir(path))
        else:
            self._content(descriptor)

    def assert_on_disk(self, path: Path, root: Path) -> None:
        """Its content, and every name on the way to it."""
        assert path.stat().st_ino in self.contents, f"the content of {path} is not forced"
        for one in [path, *path.parents]:
            if one == root:
                return
            assert one.name in self.directories.get(str(one.parent), set()), f"the name {one} is not forced"


def committed_outputs(root: Path, committed: int) -> Iterator[Path]:
    for path in sorted((root / "outputs").rglob("part*.parquet")):
        if int(path.parent.name.partition("=")[2]) <= committed:
            yield path


def test_nothing_counts_before_it_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each position in the epoch log comes after the outputs, each pointer to a checkpoint after all of its
    objects and the log's own name."""
    forced, seen = Forced(monkeypatch), [0, 0]
    world = forced_world(tmp_path, seed=2)
    commit, complete = EpochLog.commit, PlayedCoordination.complete

    def checked(log: EpochLog, position: Any, at: float, *, durable: bool = False) -> None:
        for path in committed_outputs(tmp_path, position.committed):
            forced.assert_on_disk(path, tmp_path)
            seen[0] += 1
        forced.assert_on_disk(log.path, tmp_path)
        commit(log, position, at, durable=durable)

    def pointed(coordination: PlayedCoordination, latest: LatestCheckpoint) -> bool:
        for path in (tmp_path / "checkpoints" / "t" / "1").rglob("*"):
            if path.is_file():
                forced.assert_on_disk(path, tmp_path)
                seen[1] += 1
        return complete(coordination, latest)

    monkeypatch.setattr(EpochLog, "commit", checked)
    monkeypatch.setattr(PlayedCoordination, "complete", pointed)
    assert drive(world, steps=100_000) == "completed"
    assert min(seen) > 20


# ---- a file system that loses the rest -------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LossyDisk]:
    with lossy_disk(tmp_path) as made:
        yield made


def crash_at(world: World, disk: LossyDisk, monkeypatch: pytest.MonkeyPatch, call: int) -> None:
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

    with monkeypatch.context() as patched:
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


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The rows of each output file of a run without failures."""
    world = forced_world(tmp_path_factory.mktemp("clean"), seed=0)
    assert drive(world, steps=100_000) == "completed"
    files = committed_outputs(world.root, 1_000_000)
    return {str(path.relative_to(world.root)): rows_of(path) for path in files}


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.ParquetFile(path).read().to_pylist()
    return rows


@pytest.mark.parametrize("seed", range(8))
def test_a_host_that_crashes_loses_nothing_that_was_committed(
    disk: LossyDisk, clean: dict[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Outputs of epochs that were reported as committed are whole, each partition of the checkpoint can be
    restored on an empty node, and the run goes on to the same rows."""
    chosen = random.Random(seed)
    world = forced_world(disk.root, seed=seed)
    os.sync()  # the user's input
    for number in range(4):
        crash_at(world, disk, monkeypatch, chosen.randint(1, 1_200))
        disk.restart()
        committed = max((one.committed for one in world.reported), default=0)
        for name, rows in clean.items():
            if int(Path(name).parent.name.partition("=")[2]) <= committed:
                assert rows_of(disk.root / name) == rows, name
        if world.latest is not None and world.latest.checkpoint:
            restore_all(world, disk.root / f"restored-{number}")
    assert drive(world, steps=100_000) == "completed"
    found = committed_outputs(disk.root, 1_000_000)
    assert {str(path.relative_to(disk.root)): rows_of(path) for path in found} == clean


def restore_all(world: World, empty: Path) -> None:
    """Every partition of the newest complete checkpoint, on a node that has nothing."""
    assert world.latest is not None
    layout: Any = SimpleNamespace(spec=world.topology.spec, deployed=1, checkpoints=world.checkpoints)
    for partition in world.topology.partitions:
        store = StateStore(empty / partition)
        restore_partition(store, layout, partition, world.latest.checkpoint)
        assert store.manifest(world.latest.checkpoint).epoch == world.latest.checkpoint
