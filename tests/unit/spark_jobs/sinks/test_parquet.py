from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.operators.window import ROWS
from spark_jobs.sinks.base import SinkError
from spark_jobs.sinks.parquet import OutputFiles, partition_path
from spark_jobs.sinks.writing import root_mark
from tests.outputs import DEPLOYED, epochs_present, read_outputs, write_epoch

INSTANT = pa.timestamp("us", tz="UTC")
WINDOW_OUTPUT = pa.schema(
    [("window_start", INSTANT), ("window_end", INSTANT), ("key", pa.string()), ("count", pa.int64()),
     ("status", pa.string())]
)  # fmt: skip


@pytest.fixture(autouse=True)
def _marked(tmp_path: Path) -> None:
    """A driver has marked the directory before its tasks work."""
    root_mark(tmp_path, force=False)


def rows(*keys: str, start: int = 0) -> pa.Table:
    records = [
        {"window_start": start, "window_end": start + 5_000_000, "key": key, "count": len(key)}
        for key in keys
    ]
    return pa.Table.from_pylist(records, schema=ROWS)


def file_of(root: Path, epoch: int, operator: str = "O0") -> Path:
    return partition_path(root, "t", DEPLOYED, operator, 0) / f"epoch={epoch}" / "part.parquet"


def test_layout_schema_and_status(tmp_path: Path) -> None:
    written = write_epoch(tmp_path, "t", "O0", 0, 7, rows("a", "bb"))
    file = tmp_path / "t" / f"deployed={DEPLOYED}" / "O0" / "partition=0" / "epoch=7" / "part.parquet"
    assert written.rows == 2
    assert written.bytes == file.stat().st_size
    table = pq.ParquetFile(file).read()
    assert table.schema.equals(WINDOW_OUTPUT)
    assert set(table.column("status").to_pylist()) == {"final"}


def test_same_rows_same_bytes_however_they_are_chunked(tmp_path: Path) -> None:
    whole = rows(*[f"key{n}" for n in range(5_000)])
    write_epoch(tmp_path, "t", "O0", 0, 1, whole)
    first = file_of(tmp_path, 1).read_bytes()
    write_epoch(tmp_path, "t", "O0", 0, 1, pa.concat_tables([whole.slice(0, 17), whole.slice(17)]))
    assert file_of(tmp_path, 1).read_bytes() == first
    assert os.listdir(file_of(tmp_path, 1).parent) == ["part.parquet"]


@pytest.mark.parametrize("empty", [None, rows()])
def test_an_epoch_without_rows_has_no_file_not_even_an_old_one(
    tmp_path: Path, empty: pa.Table | None
) -> None:
    assert write_epoch(tmp_path, "t", "O0", 0, 1, empty).bytes == 0
    assert not (tmp_path / "t").exists()
    write_epoch(tmp_path, "t", "O0", 0, 1, rows("a"))
    write_epoch(tmp_path, "t", "O0", 0, 1, empty)
    assert not file_of(tmp_path, 1).parent.exists()


def test_given_status_and_other_columns_are_kept(tmp_path: Path) -> None:
    table = pa.table({"ts": pa.array([5], pa.int64()), "word": ["a"], "status": ["tentative"]})
    write_epoch(tmp_path, "t", "O0", 0, 1, table)
    (row,) = pq.ParquetFile(file_of(tmp_path, 1)).read().to_pylist()
    assert row["status"] == "tentative"
    assert row["ts"].isoformat() == "1970-01-01T00:00:00.000005+00:00"


def test_reading_back(tmp_path: Path) -> None:
    for operator, epoch in (("O0", 2), ("O0", 10), ("O1", 2)):
        write_epoch(tmp_path, "t", operator, 0, epoch, rows(f"{operator}-{epoch}"))
    everything = read_outputs(tmp_path, "t")
    found = [(row["operator"], row["partition"], row["epoch"]) for row in everything.to_pylist()]
    assert found == [("O0", 0, 2), ("O0", 0, 10), ("O1", 0, 2)]
    assert read_outputs(tmp_path, "t", "O0", last_epoch=9).column("key").to_pylist() == ["O0-2"]
    assert epochs_present(tmp_path, "t", "O0", 0) == [2, 10]
    assert read_outputs(tmp_path, "nix").num_rows == 0


def test_a_half_written_file_is_not_seen(tmp_path: Path) -> None:
    write_epoch(tmp_path, "t", "O0", 0, 1, rows("a"))
    file_of(tmp_path, 2).parent.mkdir()
    (file_of(tmp_path, 2).parent / ".part.parquet.123").write_bytes(b"half")
    assert epochs_present(tmp_path, "t", "O0", 0) == [1]
    assert read_outputs(tmp_path, "t").num_rows == 1


def test_unwritable_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("in the way")
    with pytest.raises(
        SinkError, match=r"the output of O0\[0\] for epoch 3 cannot be written: Not a directory"
    ) as caught:
        write_epoch(tmp_path, "t", "O0", 0, 3, rows("a"))
    assert caught.value.where.startswith(str(tmp_path / "t"))
    assert "writable and has space" in caught.value.hint


def test_the_highest_attempt_counts_whichever_is_written_last(tmp_path: Path) -> None:
    """Rows that differ in each attempt: files of a node that was taken for dead must not replace newer
    ones."""

    def keys() -> list[str]:
        table = read_outputs(tmp_path, "t")
        return list(table.column("key").to_pylist()) if table.num_columns else []

    def write(attempt: int, *names: str) -> None:
        write_epoch(tmp_path, "t", "O0", 0, 1, rows(*names) if names else None, attempt=attempt)

    write(3, "a")
    assert keys() == ["a"]
    write(5, "b")
    assert keys() == ["b"]
    assert os.listdir(file_of(tmp_path, 1).parent) == ["part-5.parquet"]
    write(4, "late")
    assert keys() == ["b"]
    write(12)
    write(11, "late as well")
    assert keys() == []
    assert epochs_present(tmp_path, "t", "O0", 0) == []
    write(12, "the same attempt, run twice")
    assert os.listdir(file_of(tmp_path, 1).parent) == ["part-12.parquet"]
    write(12)
    assert keys() == []


def test_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_epoch(tmp_path, "t", "O0", 0, 1, rows("a"))

    def full(self: Any, table: pa.Table) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(SinkError, match="No space left on device"):
        write_epoch(tmp_path, "t", "O0", 0, 1, rows("b"))
    monkeypatch.undo()
    assert read_outputs(tmp_path, "t").column("key").to_pylist() == ["a"]
    assert os.listdir(file_of(tmp_path, 1).parent) == ["part.parquet"]


def test_outputs_of_a_task_get_their_names_together(tmp_path: Path) -> None:
    outputs = OutputFiles(tmp_path, "t", deployed=DEPLOYED)
    for epoch in (1, 2):
        outputs.write("O0", 0, epoch, rows("a"))
        outputs.write("O1", 0, epoch, rows("b"))
    assert epochs_present(tmp_path, "t", "O0", 0) == []
    assert outputs.settle() == {}
    assert epochs_present(tmp_path, "t", "O0", 0) == epochs_present(tmp_path, "t", "O1", 0) == [1, 2]


def test_what_cannot_be_forced_to_disk_is_told_by_its_first_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs, sync = OutputFiles(tmp_path, "t", deployed=DEPLOYED), os.fdatasync
    for epoch in (1, 2, 3):
        outputs.write("O0", 0, epoch, rows("a"))
        outputs.write("O1", 0, epoch, rows("b"))

    def failing(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if "/.O0-0." in path and "/.O0-0.1." not in path:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", failing)
    (found,) = outputs.settle().items()
    assert (found[0], found[1][0]) == ("O0[0]", 2)
    assert "the output of O0[0] for epoch 2 cannot be written: Input/output error" in str(found[1][1])
    assert epochs_present(tmp_path, "t", "O0", 0) == [1]
    assert epochs_present(tmp_path, "t", "O1", 0) == [1, 2, 3]


def test_an_output_that_may_differ_is_in_its_place_before_anything_is_sent_on(tmp_path: Path) -> None:
    outputs = OutputFiles(tmp_path, "t", deployed=DEPLOYED, attempt=4)
    outputs.write("O0", 0, 1, rows("a"))
    assert epochs_present(tmp_path, "t", "O0", 0) == [1]


def test_an_output_that_may_differ_and_cannot_be_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent on of an epoch that is to be computed again."""
    write_epoch(tmp_path, "t", "O0", 0, 1, rows("a"), attempt=3)

    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fdatasync", failing)
    outputs = OutputFiles(tmp_path, "t", deployed=DEPLOYED, attempt=4)
    with pytest.raises(SinkError, match="Input/output error"):
        outputs.write("O0", 0, 1, rows("b"))
    assert read_outputs(tmp_path, "t").column("key").to_pylist() == ["a"]


def test_that_an_epoch_has_no_rows_any_more_is_on_disk_when_it_is_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise rows of an earlier attempt would be back after the loss of power."""
    write_epoch(tmp_path, "t", "O0", 0, 1, rows("a"))
    outputs, forced = OutputFiles(tmp_path, "t", deployed=DEPLOYED), set[str]()
    outputs.write("O0", 0, 1, None)
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: forced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    )
    assert outputs.settle() == {}
    assert str(partition_path(tmp_path, "t", DEPLOYED, "O0", 0)) in forced


def test_a_column_that_parquet_cannot_have_is_told_with_what_to_do(tmp_path: Path) -> None:
    """Such as an INTERVAL of SQL."""
    table = pa.table({"key": ["a"], "lasts": pa.array([(0, 1, 0)], pa.month_day_nano_interval())})
    with pytest.raises(
        SinkError, match=r"O0\[0\]: the rows of epoch 4 .*interval.* `CAST\(\.\.\. AS VARCHAR\)`"
    ):
        write_epoch(tmp_path, "t", "O0", 0, 4, table)
    assert not list(tmp_path.rglob("*.partial"))
