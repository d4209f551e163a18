"""Tasks of earlier drivers that were frozen and go on change nothing any more."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from domain.topology.spec import ParquetSinkSpec
from host.durable import ABANDONED
from spark_jobs.sinks.base import SinkError, TaskOutputs
from spark_jobs.sinks.committed import committed_files, committed_read, deployment_directory
from spark_jobs.sinks.parquet_sink import ParquetSink
from spark_jobs.sinks.tentative import tentative_path
from spark_jobs.sinks.writing import MARK, writing_directory

DEPLOYED, EPOCH = 3, 7


@contextmanager
def driver(root: Path, life: int, *, goes_over: bool = False) -> Iterator[ParquetSink]:
    sink = ParquetSink(root, "t", ParquetSinkSpec(), operators=["Q"])
    if goes_over:
        sink.forget(deployed=DEPLOYED, after=EPOCH - 1)
    sink.prepare(deployed=DEPLOYED, life=life)
    yield sink
    sink.close()


def task(sink: ParquetSink, life: int, attempt: int = 0) -> TaskOutputs:
    return sink.outputs(deployed=DEPLOYED, attempt=attempt, life=life)


def rows(count: int) -> pa.Table:
    return pa.table({"window_end": [EPOCH * 1_000_000], "key": ["a"], "count": [count]})


def read(root: Path) -> list[int]:
    """What readers see."""
    committed = committed_read(root / "t")
    assert committed is not None
    tables = [pq.ParquetFile(file).read() for file in committed_files(root / "t", "Q", committed)]
    return [value for table in tables for value in table.column("count").to_pylist()]


def overtake(root: Path, table: pa.Table | None, epoch: int = EPOCH) -> None:
    """A later driver, of a version that computes other rows, writes and commits the epoch."""
    with driver(root, 2, goes_over=True) as sink:
        later = task(sink, 2)
        later.write("Q", 0, epoch, table)
        assert not later.settle()
        sink.commit(epoch=epoch)


@pytest.mark.parametrize("attempt", [0, 4])
@pytest.mark.parametrize("table", [rows(2), None])
def test_it_wakes_up_before_it_has_written(tmp_path: Path, table: pa.Table | None, attempt: int) -> None:
    with driver(tmp_path, 1) as sink:
        frozen = task(sink, 1, attempt)
        overtake(tmp_path, table)
        with pytest.raises(SinkError, match="a later driver of the topology has closed this directory"):
            frozen.write("Q", 0, EPOCH, rows(1))
    assert read(tmp_path) == ([2] if table is not None else [])


@pytest.mark.parametrize("table", [rows(2), None])
def test_it_wakes_up_before_its_file_has_its_place(tmp_path: Path, table: pa.Table | None) -> None:
    with driver(tmp_path, 1) as sink:
        frozen = task(sink, 1)
        frozen.write("Q", 0, EPOCH, rows(1))
        overtake(tmp_path, table)
        ((epoch, error),) = frozen.settle().values()
    assert (epoch, "has closed this directory" in str(error)) == (EPOCH, True)
    assert read(tmp_path) == ([2] if table is not None else [])


def test_it_wakes_up_when_its_file_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync, freezes = os.fdatasync, iter([lambda: overtake(tmp_path, rows(2))])

    def forced(descriptor: int) -> None:
        sync(descriptor)
        next(freezes, lambda: None)()

    with driver(tmp_path, 1) as sink:
        frozen = task(sink, 1)
        frozen.write("Q", 0, EPOCH, rows(1))
        monkeypatch.setattr(os, "fdatasync", forced)
        assert frozen.settle()
    assert read(tmp_path) == [2]


def test_it_wakes_up_to_remove_what_it_has_no_rows_for(tmp_path: Path) -> None:
    with driver(tmp_path, 1) as sink:
        frozen = task(sink, 1)
        overtake(tmp_path, rows(2))
        with pytest.raises(SinkError, match="has closed this directory"):
            frozen.write("Q", 0, EPOCH, None)
    assert read(tmp_path) == [2]


@pytest.mark.parametrize("wakes", ["before it has written", "before its file has its place", "not at all"])
def test_an_epoch_that_passed_without_a_query_has_no_rows_of_it(tmp_path: Path, wakes: str) -> None:
    """Where the guarantee is bounded: an attempt was given up, and its driver goes on without the query."""
    with driver(tmp_path, 1) as sink:
        frozen, other = task(sink, 1, attempt=4), task(sink, 1, attempt=4)
        if wakes != "before it has written":
            frozen.write("Q", 0, EPOCH, rows(1))
        other.write("Q", 1, EPOCH, rows(2))
        task(sink, 1, attempt=5).leave_out({"Q[0]": range(EPOCH, EPOCH + 2)})
        if wakes == "before it has written":
            frozen.write("Q", 0, EPOCH, rows(1))
        frozen.settle()
        sink.commit(epoch=EPOCH)
        assert read(tmp_path) == [2]


def test_what_cannot_be_left_out_is_told(tmp_path: Path) -> None:
    with driver(tmp_path, 1) as sink:
        (deployment_directory(tmp_path / "t", DEPLOYED) / "Q").write_text("a file in the way")
        with pytest.raises(SinkError, match=r"the output of Q\[0\] for epoch 7 cannot be written"):
            task(sink, 1, attempt=5).leave_out({"Q[0]": range(EPOCH, EPOCH + 1)})


@pytest.mark.parametrize("frozen_rows", [rows(1), None])
def test_it_wakes_up_with_tentative_rows(tmp_path: Path, frozen_rows: pa.Table | None) -> None:
    file = tentative_path(tmp_path, "t", DEPLOYED, "Q", 0) / f"epoch={EPOCH}" / "part.parquet"
    with driver(tmp_path, 1) as sink:
        frozen = task(sink, 1)
        with driver(tmp_path, 2) as later:
            task(later, 2).write_tentative("Q", 0, EPOCH, rows(2), 0.5)
        with pytest.raises(SinkError, match="has closed this directory"):
            frozen.write_tentative("Q", 0, EPOCH, frozen_rows, 0.5)
    assert pq.ParquetFile(file).read().column("count").to_pylist() == [2]


def test_a_driver_goes_on_with_what_the_one_before_had_written(tmp_path: Path) -> None:
    with driver(tmp_path, 1) as sink:
        first = task(sink, 1)
        first.write("Q", 0, EPOCH, rows(1))
        assert not first.settle()
    overtake(tmp_path, rows(2), EPOCH + 1)  # goes back to before EPOCH, so that its rows are gone
    with driver(tmp_path, 3) as sink:
        sink.commit(epoch=EPOCH + 1)
        assert read(tmp_path) == [2]
        assert [path.name for path in (tmp_path / "t" / "deployed=3").glob(".*")] == [".writing-3"]


def _all(root: Path) -> None:
    shutil.rmtree(root / "t")


def _deployment(root: Path) -> None:
    shutil.rmtree(deployment_directory(root / "t", DEPLOYED))


@pytest.mark.parametrize("remove", [_all, _deployment])
def test_outputs_that_were_removed_while_it_runs(tmp_path: Path, remove: Callable[[Path], None]) -> None:
    with driver(tmp_path, 1) as sink:
        remove(tmp_path)
        again, other = task(sink, 1), task(sink, 1)
        again.write("Q", 0, EPOCH, rows(1))
        other.write("Q", 1, EPOCH, rows(2))
        assert not again.settle()
        assert not other.settle()
        sink.commit(epoch=EPOCH)
        assert read(tmp_path) == [1, 2]


def test_what_killed_tasks_were_writing_goes(tmp_path: Path) -> None:
    with driver(tmp_path, 1) as sink:
        task(sink, 1).write("Q", 0, EPOCH, rows(1))  # and never settles
        (left,) = writing_directory(deployment_directory(tmp_path / "t", DEPLOYED), 1).iterdir()
        sink.put_in_order(0)
        assert left.exists()
        later = left.stat().st_ctime + ABANDONED + 1
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("host.durable.time.time", lambda: later)
            sink.put_in_order(0)
        assert not left.exists()


@pytest.mark.parametrize("step", ["forget", "prepare"])
def test_a_directory_that_cannot_be_closed_is_told(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with driver(tmp_path, 1):
        pass

    def refused(self: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "rename", refused)
    sink = ParquetSink(tmp_path, "t", ParquetSinkSpec(), operators=["Q"])
    steps = {
        "forget": partial(sink.forget, deployed=DEPLOYED, after=EPOCH),
        "prepare": partial(sink.prepare, deployed=DEPLOYED, life=2),
    }
    with pytest.raises(SinkError, match=r"\.writing-1: .*Permission denied\. .*again"):
        steps[step]()


def test_nothing_is_written_below_a_disk_that_is_gone(tmp_path: Path) -> None:
    """What is written there would be hidden as soon as the disk is back, and the list would name it."""
    root, disk = tmp_path / "outputs", tmp_path / "disk"
    with driver(root, 1) as sink:
        first = task(sink, 1)
        first.write("Q", 0, EPOCH, rows(1))
        assert not first.settle()
        sink.commit(epoch=EPOCH)
        root.rename(disk)
        root.mkdir()
        told = rf"{root}.* nothing is there\. Mount its disk again, .* make the empty file {root}/{MARK}"
        with pytest.raises(SinkError, match=told):
            task(sink, 1).write("Q", 0, EPOCH + 1, rows(2))
        with pytest.raises(SinkError, match=told):
            sink.commit(epoch=EPOCH + 1)
        assert list(root.iterdir()) == []
        with pytest.raises(SinkError, match=r"nothing of what was written is there\. Mount its disk"):
            sink.prepare(deployed=DEPLOYED, life=2, written=True)
        root.rmdir()
        disk.rename(root)
        again = task(sink, 1)
        again.write("Q", 0, EPOCH + 1, rows(2))
        assert not again.settle()
        sink.commit(epoch=EPOCH + 1)
        assert read(root) == [1, 2]


def test_a_directory_that_was_emptied_on_purpose_is_marked_as_the_error_says(tmp_path: Path) -> None:
    root = tmp_path / "outputs"
    with driver(root, 1) as sink:
        shutil.rmtree(root)
        with pytest.raises(SinkError, match=MARK) as error:
            task(sink, 1).write("Q", 0, EPOCH, rows(1))
        root.mkdir()
        (root / MARK).touch()
        assert str(root / MARK) in error.value.hint
        again = task(sink, 1)
        again.write("Q", 0, EPOCH, rows(1))
        assert not again.settle()
        sink.commit(epoch=EPOCH)
        assert read(root) == [1]


def test_one_cause_is_one_problem_however_often_it_is_tried(tmp_path: Path) -> None:
    with driver(tmp_path, 1) as sink:
        directory = deployment_directory(tmp_path / "t", DEPLOYED) / "Q" / "partition=0" / f"epoch={EPOCH}"
        (directory / "part.parquet").mkdir(parents=True)
        told = set()
        for _ in range(2):
            writes = task(sink, 1)
            writes.write("Q", 0, EPOCH, rows(1))
            ((_, error),) = writes.settle().values()
            told.add((error.where, error.what))
        what = f"the output of Q[0] for epoch {EPOCH} cannot be written: Is a directory"
        assert told == {(str(directory), what)}
