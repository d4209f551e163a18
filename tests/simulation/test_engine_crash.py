"""The loss of power: what the epoch log calls committed, and each complete checkpoint, is on the disk."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from domain.messages import LatestCheckpoint
from spark_jobs.driver.epoch_log import EpochLog
from tests.lossy_disk import lossy_disk
from tests.simulation.crash_schedules import Files, clean_files, forced_world, output_files, run_schedule
from tests.simulation.engine_coordination import PlayedCoordination
from tests.simulation.engine_drive import drive

SCHEDULES = 4


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


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


def test_nothing_counts_before_it_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each position in the epoch log comes after the outputs, each pointer to a checkpoint after all of its
    objects and the log's own name."""
    forced, seen = Forced(monkeypatch), [0, 0]
    world = forced_world(tmp_path, seed=2)
    commit, complete = EpochLog.commit, PlayedCoordination.complete

    def checked(log: EpochLog, position: Any, at: float, *, durable: bool = False) -> None:
        for path in output_files(tmp_path, position.committed):
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


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return clean_files(tmp_path_factory.mktemp("clean"))


# Threads of the driver die with it, by an error of the simulation.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_a_host_that_crashes_loses_nothing_that_was_committed(
    tmp_path: Path, clean: Files, seed: int
) -> None:
    with lossy_disk(tmp_path) as disk:
        run_schedule(disk, clean, seed)
