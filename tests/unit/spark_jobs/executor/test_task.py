"""What a task does where it should not run, and how far it says that partitions are."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from domain.execution.footprint import Footprint
from domain.execution.job import Job, TaskReport
from domain.execution.lanes import Lane
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec
from spark_jobs.executor.exchange import encode_table
from spark_jobs.executor.level_context import Message
from spark_jobs.executor.task import REPORT, LevelTask
from spark_jobs.sinks.writing import MARK
from spark_jobs.state.buffers import OutputBuffers
from tests.unit.spark_jobs.executor.layouts import epochs_to, layout_of

SPEC = TopologySpec(
    name="t",
    operators=(
        OperatorSpec(name="S", kind="source"),
        *(
            OperatorSpec(
                name=name,
                kind="sql",
                params={"query": "SELECT text FROM input"},
                inputs=(InputSpec(source="S", partitioning="one_to_one"),),
                output=True,
            )
            for name in "VW"
        ),
    ),
)
EPOCHS = 4
ROWS = encode_table(pa.table({"text": ["one"]}))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "node-1"
    home.mkdir()
    monkeypatch.setenv("NODE_HOME", str(home))
    monkeypatch.setenv("NODE_ID", "node-1")
    return home


def sent(home: Path, *more: Message) -> tuple[list[Message], TaskReport]:
    """What the task of the level of V and W sends on, and its report."""
    partitions = ("V[0]", "W[0]")
    starts = dict.fromkeys(("S[0]", *partitions), 0)
    job = Job(lane=Lane(1, EPOCHS, starts), epochs=epochs_to(EPOCHS), progress=starts)
    layout = layout_of(SPEC, home.parent, *partitions, force=True)
    arriving = [(1, list(partitions), "S[0]", epoch, ROWS) for epoch in range(1, EPOCHS + 1)]
    records = iter([(0, None), *((0, message) for message in [*arriving, *more])])
    task = LevelTask(1, msgspec.json.encode(layout), msgspec.json.encode(job), Footprint((0,), (0, 1, 2)))
    messages = [message for _, message in task(0, records)]
    assert next(records, None) is None, "Spark sees the task end in order"
    assert messages[-1][0] == REPORT
    return messages[:-1], msgspec.json.decode(messages[-1][-1], type=TaskReport)


def test_what_is_for_a_later_level_goes_on(home: Path) -> None:
    later: Message = (2, ["X[0]"], "S[0]", 1, ROWS)
    earlier: Message = (REPORT, [], "", 0, b"{}")
    messages, report = sent(home, later, earlier)
    assert messages == [later, earlier]
    assert {partition: one.epoch for partition, one in report.partitions.items()} == {
        "V[0]": EPOCHS,
        "W[0]": EPOCHS,
    }


def test_a_task_on_another_node_does_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_ID", "node-2")
    messages, report = sent(home, (2, ["X[0]"], "S[0]", 1, ROWS))
    assert messages == []
    assert (report.misplaced, report.node, report.partitions) == (True, "node-2", {})
    assert list(home.iterdir()) == []
    assert [path.name for path in (home.parent / "outputs").iterdir()] == [MARK]


def test_a_partition_is_as_far_as_its_outputs_are_in_their_place(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fdatasync

    def failing(descriptor: int) -> None:
        if "/.V-0.3." in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", failing)
    _, report = sent(home)
    assert {partition: one.epoch for partition, one in report.partitions.items()} == {
        "V[0]": 2,
        "W[0]": EPOCHS,
    }
    assert "Input/output error" in report.partitions["V[0]"].error
    assert report.partitions["V[0]"].hint
    assert not report.partitions["W[0]"].error


@pytest.mark.parametrize("level", [0, 1])
def test_buffers_are_dropped_before_a_job_fills_them(home: Path, level: int) -> None:
    """Its first level does so; what that has buffered since is still there for the next ones."""
    job = Job(lane=None, epochs=[], progress={"S[0]": 4, "V[0]": 4, "W[0]": 4}, drop_buffers=True)
    layout = layout_of(SPEC, home.parent, "V[0]", "W[0]")
    buffers = OutputBuffers(home, "t", layout.deployed)
    buffers.append("S[0]", ["V[0]"], 5, b"rows")
    task = LevelTask(level, msgspec.json.encode(layout), msgspec.json.encode(job), Footprint((0,), (0, 1)))
    assert list(task(0, iter([(0, None)])))
    assert buffers.directory.exists() is (level > 0)
