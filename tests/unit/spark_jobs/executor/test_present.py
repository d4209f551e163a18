"""A replay in spare time waits while the present works on its node, and goes on where that never ends."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from domain.execution.footprint import Footprint
from domain.execution.job import Job
from domain.execution.lanes import Lane
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec
from spark_jobs.executor import present
from spark_jobs.executor.exchange import encode_table
from spark_jobs.executor.partition_run import PartitionRun
from spark_jobs.executor.present import FLOCK, LOCK, LONGEST, LOOK, SHARE, GivingWay, present_at_work
from spark_jobs.executor.task import Level, LevelTask
from tests.unit.spark_jobs.executor.layouts import epochs_to, layout_of


class Course:
    """A clock that only work and waiting move; what the present does at a time is an entry of `ends`."""

    def __init__(self, home: Path) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.present = ExitStack()
        self.ends_at = float("inf")
        self.way = GivingWay(home, lambda: self.now, self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        if self.now >= self.ends_at:
            self.present.close()

    def step(self, worked: float) -> float:
        """Seconds that a step waits after so many seconds of work."""
        self.now += worked
        began = self.now
        self.way.wait()
        return self.now - began


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return Course(tmp_path)


def test_nothing_waits_where_no_present_is_at_work(course: Course) -> None:
    assert course.step(worked=5.0) == 0.0


def test_a_step_waits_until_the_last_task_of_the_present_ends(course: Course, tmp_path: Path) -> None:
    course.present.enter_context(present_at_work(tmp_path))
    course.ends_at = 5.3
    with present_at_work(tmp_path):
        pass  # one of two tasks has ended
    assert course.step(worked=5.0) == pytest.approx(0.3, abs=2 * LOOK)
    assert course.step(worked=1.0) == 0.0


def test_where_the_present_never_ends_a_replay_has_its_share_of_the_time(
    course: Course, tmp_path: Path
) -> None:
    worked = waited = 0.0
    with present_at_work(tmp_path):
        for number in range(200):
            work = (0.001, 0.01, 0.1)[number % 3]
            worked += work
            waited += course.step(worked=work)
            assert waited <= SHARE * worked + 2 * LOOK
    assert waited >= 0.9 * SHARE * worked


def test_a_single_step_waits_for_a_while_at_most(course: Course, tmp_path: Path) -> None:
    with present_at_work(tmp_path):
        assert course.step(worked=100.0) == pytest.approx(LONGEST, abs=2 * LOOK)


def test_a_replay_that_looks_takes_nothing(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may lose its processor at any moment, and the present must not wait for it then."""
    looking, other = (os.open(tmp_path / LOCK, os.O_RDWR | os.O_CREAT, 0o644) for _ in "12")
    monkeypatch.setattr(present, "_opened", lambda _: os.dup(looking))  # so nothing ends with its copy
    assert course.step(worked=1.0) == 0.0
    fcntl.fcntl(other, fcntl.F_OFD_SETLK, FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
    os.close(looking)
    os.close(other)


def test_a_task_that_dies_is_at_work_no_more(course: Course, tmp_path: Path) -> None:
    program = (
        "import pathlib, sys; from spark_jobs.executor.present import present_at_work\n"
        "with present_at_work(pathlib.Path(sys.argv[1])): print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as task:
        assert task.stdout is not None
        task.stdout.readline()
        assert course.step(worked=1.0) > 0.9
        task.kill()
        task.wait()
    assert course.step(worked=1.0) == 0.0


SPEC = TopologySpec(
    name="t",
    operators=(
        OperatorSpec(name="S", kind="source"),
        OperatorSpec(
            name="V",
            kind="sql",
            params={"query": "SELECT text FROM input"},
            inputs=(InputSpec(source="S", partitioning="one_to_one"),),
            output=True,
        ),
    ),
)
EPOCHS = 3


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "node-1"
    home.mkdir()
    monkeypatch.setenv("NODE_HOME", str(home))
    monkeypatch.setenv("NODE_ID", "node-1")
    return home


def layout(home: Path) -> bytes:
    return msgspec.json.encode(layout_of(SPEC, home.parent, "V[0]"))


def job(*, spare: bool) -> bytes:
    lane = Lane(1, EPOCHS, {"S[0]": 0, "V[0]": 0})
    progress = {"S[0]": 0, "V[0]": 0}
    return msgspec.json.encode(Job(lane=lane, epochs=epochs_to(EPOCHS), progress=progress, spare=spare))


def records() -> list[tuple[int, tuple[int, list[str], str, int, bytes]]]:
    table = encode_table(pa.table({"text": ["one"]}))
    return [(0, (1, ["V[0]"], "S[0]", n, table)) for n in range(1, EPOCHS + 1)]


@pytest.mark.parametrize("spare", [False, True])
def test_a_task_is_of_the_present_unless_it_runs_in_spare_time(
    home: Path, monkeypatch: pytest.MonkeyPatch, *, spare: bool
) -> None:
    seen: list[bool] = []
    process = PartitionRun._process

    def looked(run: PartitionRun, instruction: object) -> None:
        other = Course(home)
        seen.append(other.step(worked=1.0) > 0.0)
        process(run, instruction)  # type: ignore[arg-type]  # hands on what it got

    monkeypatch.setattr(PartitionRun, "_process", looked)
    task = LevelTask(1, layout(home), job(spare=spare), Footprint((0,), (0, 1)))
    assert list(task(0, iter(records())))
    assert seen == [not spare] * EPOCHS
    assert Course(home).step(worked=1.0) == 0.0


@pytest.mark.parametrize(("spare", "steps"), [(True, EPOCHS), (False, 0)])
def test_a_replay_looks_before_each_epoch(
    home: Path, monkeypatch: pytest.MonkeyPatch, *, spare: bool, steps: int
) -> None:
    waits: list[int] = []
    monkeypatch.setattr(GivingWay, "wait", lambda way: waits.append(os.getpid()))
    level = Level(1, 0, layout(home), job(spare=spare))
    for _, message in records():
        level.deliver(message)
    assert list(level.run())
    assert len(waits) == steps
