"""If a file cannot be written, no row is lost: the partition waits and reports the reason, the others go on,
and after the fault the outputs are those of a clean run."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest
from msgspec import structs

from domain.execution.checkpoints import UPLOAD_TIMEOUT
from domain.messages import CheckpointReport, DriverStatus, LatestCheckpoint, Plan, ProblemReport
from spark_jobs.driver.loop import MakeWayError
from tests.simulation.engine_drive import drive
from tests.simulation.engine_world import World
from tests.simulation.test_engine import Rows, expected, new_world, outputs

__all__ = ["expected"]  # the fixture


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    made = new_world(tmp_path, seed=1)
    made.failing = False
    return made


def problems(world: World) -> list[ProblemReport]:
    return [message for message in world.messages if isinstance(message, ProblemReport)]


def in_the_way(path: Path) -> Path:
    """Put a file in the place of a directory, so that not even root can write there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("in the way")
    return path


def test_an_unwritable_state_directory(world: World, expected: Rows) -> None:
    assert world.plan is not None
    node = world.plan.assignment["A[0]"]
    blocked = in_the_way(world.root / "nodes" / node / "state" / "t" / "1" / "A-0")
    assert drive(world, steps=400) == "stopped"
    found = problems(world)
    assert [problem.where for problem in found] == ["A[0]"]
    assert str(blocked) in found[0].what
    assert found[0].hint
    states = [message for message in world.messages if isinstance(message, DriverStatus)]
    assert states[-2].state == "degraded"
    assert str(blocked) in states[-2].error
    blocked.unlink()
    assert drive(world, steps=100_000) == "completed"
    assert outputs(world.root) == expected


def test_an_unwritable_output_directory(world: World, expected: Rows) -> None:
    blocked = in_the_way(world.root / "outputs" / "t" / "deployed=1" / "V")
    assert drive(world, steps=400) == "stopped"
    found = problems(world)
    assert {problem.where for problem in found} == {"V[0]"}
    assert str(blocked) in found[0].what
    assert "writable" in found[0].hint
    blocked.unlink()
    assert drive(world, steps=100_000) == "completed"
    assert outputs(world.root) == expected


def test_an_output_that_cannot_be_forced_to_disk(
    world: World, expected: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partition is not further than its outputs, and its neighbours go on."""
    sync, world.force = os.fdatasync, True

    def failing(descriptor: int) -> None:
        if "/.V-0." in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", failing)
        assert drive(world, steps=400) == "stopped"
    found = problems(world)
    assert {problem.where for problem in found} == {"V[0]"}
    assert "Input/output error" in found[0].what
    assert world.reported[-1].committed < 5 < world.reported[-1].head
    assert drive(world, steps=100_000) == "completed"
    assert outputs(world.root) == expected


def test_an_operator_that_fails_does_not_stop_its_neighbours(world: World) -> None:
    in_the_way(world.root / "outputs" / "t" / "deployed=1" / "V")
    drive(world, steps=400)
    written = {path.name for path in (world.root / "outputs" / "t" / "deployed=1").iterdir() if path.is_dir()}
    assert {"A", "W"} <= written  # W is fed by A as V is, in the same task


def test_checkpoints_wait_while_a_partition_fails(world: World) -> None:
    """A checkpoint without the part of every partition is never complete."""
    in_the_way(world.root / "outputs" / "t" / "deployed=1" / "V")
    drive(world, steps=400)
    ended = [message for message in world.messages if isinstance(message, CheckpointReport)]
    assert all(message.state != "completed" for message in ended)
    assert world.latest is None


def test_no_thread_is_left(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that it started, or that these started: pools of tests before this one go on."""
    ours, start = [threading.current_thread()], threading.Thread.start

    def noted(thread: threading.Thread) -> None:
        if threading.current_thread() in ours:
            ours.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", noted)
    drive(world, steps=200)
    _, *started = ours
    assert started
    assert [thread for thread in started if thread.is_alive()] == []


def test_a_partition_that_cannot_leave_its_snapshot_fails_the_checkpoint_at_once(world: World) -> None:
    """It has reached the epoch; the driver does not wait for an upload that cannot come."""
    assert world.plan is not None
    node = world.plan.assignment["A[0]"]
    blocked = in_the_way(world.root / "nodes" / node / "snapshots" / "t")
    drive(world, steps=400)
    reports = [message for message in world.messages if isinstance(message, CheckpointReport)]
    failed = [report for report in reports if report.state == "failed"]
    assert failed
    waited = [(report.ended_at or world.now) - report.started_at for report in failed]
    assert max(waited) < UPLOAD_TIMEOUT / 10, "it waited for acknowledgements"
    assert all(report.cause.startswith("no snapshot of ") for report in failed)
    assert str(blocked) in failed[0].cause
    blocked.unlink()
    assert drive(world, steps=100_000) == "completed"
    assert world.latest is not None


def run_for_a_while(world: World) -> tuple[Plan, LatestCheckpoint]:
    """Until older checkpoints have left storage, and the log their epochs."""
    while world.latest is None or world.latest.kept[0] < 8:
        assert drive(world, steps=40) == "stopped"
    assert world.plan is not None
    return world.plan, world.latest


def test_a_plan_whose_checkpoint_is_gone_is_refused_until_a_newer_one_comes(
    world: World, expected: Rows
) -> None:
    plan, latest = run_for_a_while(world)
    gone = structs.replace(plan, generation=9, kind="restore", rollback=True, checkpoint=latest.kept[0] - 1)
    world.plan = gone
    assert drive(world, steps=40) == "stopped"
    said = world.reported[-2]
    assert (said.refused, said.generation) == (9, plan.generation)
    assert set(latest.kept) & set(said.restorable)
    assert [problem.where for problem in problems(world)] == ["plan 9"]
    assert said.committed > world.reported[0].committed, "the plan before goes on"
    world.plan = structs.replace(gone, generation=10, checkpoint=said.restorable[-1])
    assert drive(world, steps=100_000) == "completed"
    assert (world.reported[-1].refused, world.reported[-1].generation) == (0, 10)
    assert outputs(world.root) == expected


def test_a_driver_of_an_earlier_deployment_makes_way(world: World) -> None:
    """It runs while the topology is deployed again."""
    plan, _ = run_for_a_while(world)
    world.turning = lambda: setattr(world, "plan", structs.replace(plan, generation=9, deployed=9))
    with pytest.raises(MakeWayError, match="plan 9 is of a later deployment"):
        drive(world, steps=100)
