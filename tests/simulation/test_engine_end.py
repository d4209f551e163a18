"""A driver does not end before readers see all that the epoch log calls committed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import pytest

from spark_jobs.driver.epoch_log import EpochLog
from spark_jobs.sinks.base import SinkError
from spark_jobs.sinks.committed import committed_read
from spark_jobs.sinks.parquet_sink import ParquetSink
from tests.simulation import test_engine, test_engine_marks
from tests.simulation.engine_drive import drive
from tests.simulation.engine_world import DriverKilledError, World

LAST: Final = 35
"""The last epoch of the input."""
FAILING: Final = 3
WORLDS: Final = {"deterministic": test_engine.new_world, "not deterministic": test_engine_marks.new_world}


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


@pytest.fixture(params=sorted(WORLDS))
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    made: World = WORLDS[request.param](tmp_path, 3)
    made.failing = False
    return made


class Commits:
    """From the epoch `since` on, `committed.json` is not written so many times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, since: int, error: BaseException) -> None:
        self.since, self.error, self.left = since, error, FAILING
        self._commit = ParquetSink.commit
        commits = self

        def commit(sink: ParquetSink, *, epoch: int) -> None:
            commits.carry_out(sink, epoch)

        monkeypatch.setattr(ParquetSink, "commit", commit)

    def carry_out(self, sink: ParquetSink, epoch: int) -> None:
        if epoch >= self.since and self.left > 0:
            self.left -= 1
            raise self.error
        self._commit(sink, epoch=epoch)


def seen(world: World) -> int:
    committed = committed_read(world.root / "outputs" / "t")
    return committed.epoch if committed is not None else 0


def test_the_next_driver_shows_what_one_that_was_killed_did_not(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = Commits(monkeypatch, since=LAST, error=DriverKilledError())
    while commits.left:
        assert drive(world, steps=20_000) == "killed"
    assert seen(world) < LAST
    if not world.topology.deterministic:  # the last checkpoint is complete, and no plan can be adopted
        for name in list(world.nodes):
            world.kill(name)
    assert drive(world, steps=20_000) == "completed"
    assert seen(world) == LAST


@pytest.mark.parametrize("state", ["completed", "stopped"])
def test_a_driver_ends_when_the_last_epoch_is_seen(
    world: World, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    full = SinkError("committed.json", "it cannot be written: no space left on device", "Make room.")
    commits = Commits(monkeypatch, since=LAST if state == "completed" else 10, error=full)

    def undeploy() -> None:
        if commits.left < FAILING:
            world.desired = "stopped"

    if state == "stopped":
        world.turning = undeploy
    assert drive(world, steps=20_000) == state
    log = EpochLog(world.root / "topologies" / "t" / "epochs.log")
    assert (seen(world), commits.left) == (log.committed, 0)
    log.close()
