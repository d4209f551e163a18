"""What counts of the outputs, compaction, and removal by age and size."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.topology.spec import ParquetSinkSpec
from host.environment import ROOT
from spark_jobs.sinks import compaction
from spark_jobs.sinks.base import SinkError
from spark_jobs.sinks.committed import (
    COMMITTED,
    Committed,
    CommittedError,
    Span,
    committed_files,
    committed_read,
    epoch_file,
)
from spark_jobs.sinks.compaction import Bounds, compact, remove_replaced, retire, spans_due
from spark_jobs.sinks.parquet_sink import ParquetSink

LENGTH = 5


def sink(root: Path, *, deployed: int = 3, **spec: Any) -> ParquetSink:
    made = ParquetSink(
        root, "t", ParquetSinkSpec(**{"compact_s": float(LENGTH), **spec}), operators=["A", "B"]
    )
    made.prepare(deployed=deployed, life=1)
    return made


def rows(epoch: int, count: int = 2) -> pa.Table:
    at = epoch * 1_000_000
    return pa.table(
        {"window_end": [at] * count, "key": [f"k{n}" for n in range(count)], "count": [epoch] * count}
    )


def write(made: ParquetSink, operator: str, epoch: int, table: pa.Table | None, attempt: int = 0) -> None:
    task = made.outputs(deployed=3, attempt=attempt, life=1)
    task.write(operator, 0, epoch, table)
    assert not task.settle()


def written(made: ParquetSink, epochs: range) -> None:
    """Of A every epoch has rows, of B only even ones."""
    for epoch in epochs:
        write(made, "A", epoch, rows(epoch))
        write(made, "B", epoch, rows(epoch) if epoch % 2 == 0 else None)


def read(root: Path, operator: str = "A") -> list[int]:
    """The `count` of each row that counts, in order."""
    committed = committed_read(root / "t")
    assert committed is not None
    found = [pq.ParquetFile(file).read() for file in committed_files(root / "t", operator, committed)]
    return [value for table in found for value in table.column("count").to_pylist()]


def twice(epochs: range) -> list[int]:
    return [epoch for epoch in epochs for _ in range(2)]


def files_of(root: Path) -> Path:
    return root / "t" / "deployed=3"


def small(root: Path, operator: str = "A") -> set[int]:
    return {
        int(path.name.partition("=")[2]) for path in (files_of(root) / operator).glob("partition=0/epoch=*")
    }


def test_only_committed_epochs_count(tmp_path: Path) -> None:
    made = sink(tmp_path)
    written(made, range(1, 5))
    assert committed_read(tmp_path / "t") is None
    made.commit(epoch=3)
    assert read(tmp_path) == twice(range(1, 4))
    made.commit(epoch=2)
    assert read(tmp_path) == twice(range(1, 4)), "an epoch that was shown stays"
    made.close()


def test_an_attempt_that_was_abandoned_does_not_count(tmp_path: Path) -> None:
    made = sink(tmp_path)
    write(made, "A", 1, rows(1), 1)
    directory = files_of(tmp_path) / "A" / "partition=0" / "epoch=1"
    kept = (directory / "part-1.parquet").read_bytes()
    write(made, "A", 1, None, 2)
    (directory / "part-1.parquet").write_bytes(kept)  # a node that was declared lost has woken up
    assert epoch_file(directory) is None
    write(made, "A", 1, rows(7), 3)
    made.commit(epoch=1)
    assert read(tmp_path) == [7, 7]
    made.close()


def test_settled_epochs_become_one_file_and_read_the_same(tmp_path: Path) -> None:
    made = sink(tmp_path)
    written(made, range(1, 14))
    made.commit(epoch=13)
    before = read(tmp_path), read(tmp_path, "B")
    made.put_in_order(12)
    assert (read(tmp_path), read(tmp_path, "B")) == before
    committed = committed_read(tmp_path / "t")
    assert committed is not None
    assert [(span.first, span.last) for span in committed.spans] == [(1, 5), (6, 10)]
    assert committed.spans[1].until == {"A": 10_000_000, "B": 10_000_000}
    assert small(tmp_path) == set(range(1, 14)), "who has listed them can still read them"
    assert remove_replaced(files_of(tmp_path), committed, grace=0.0) == 15
    assert small(tmp_path) == {11, 12, 13}
    assert (read(tmp_path), read(tmp_path, "B")) == before
    made.close()


def test_rows_of_an_operator_that_the_next_version_lacks_stay(tmp_path: Path) -> None:
    made = sink(tmp_path)
    written(made, range(1, 5))
    made.commit(epoch=4)
    made.close()
    later = ParquetSink(tmp_path, "t", ParquetSinkSpec(compact_s=float(LENGTH)), operators=["A"])
    later.prepare(deployed=3, life=2)
    later.commit(epoch=7)
    later.put_in_order(7)
    committed = committed_read(tmp_path / "t")
    assert committed is not None
    assert remove_replaced(files_of(tmp_path), committed, grace=0.0) == 6
    assert (read(tmp_path), read(tmp_path, "B")) == (twice(range(1, 5)), twice(range(2, 5, 2)))
    assert committed.spans == [Span(first=1, last=5, until={"A": 4_000_000, "B": 4_000_000})]
    later.close()


def test_an_epoch_that_may_be_written_again_stays_by_itself(tmp_path: Path) -> None:
    made = sink(tmp_path)
    written(made, range(1, 14))
    made.commit(epoch=7)
    made.put_in_order(12)
    committed = committed_read(tmp_path / "t")
    assert committed is not None
    assert [span.last for span in committed.spans] == [5], "10 is settled, and not committed"
    made.close()


def test_a_driver_that_is_started_again_goes_on(tmp_path: Path) -> None:
    made = sink(tmp_path)
    written(made, range(1, 12))
    made.commit(epoch=11)
    made.put_in_order(11)
    made.close()
    again = sink(tmp_path)
    written(again, range(12, 16))
    again.commit(epoch=15)
    again.put_in_order(15)
    assert read(tmp_path) == twice(range(1, 16))
    again.close()


def test_of_an_earlier_deployment_nothing_counts(tmp_path: Path) -> None:
    made = sink(tmp_path)
    written(made, range(1, 8))
    made.commit(epoch=7)
    made.close()
    other = sink(tmp_path, deployed=4)
    other.commit(epoch=1)
    committed = committed_read(tmp_path / "t")
    assert committed is not None
    assert (committed.deployed, committed.epoch, committed.spans) == (4, 1, [])
    other.close()


def test_what_is_old_goes_after_readers_were_told(tmp_path: Path) -> None:
    made = sink(tmp_path)
    written(made, range(1, 16))
    made.commit(epoch=15)
    made.put_in_order(15)
    made.close()
    directory = tmp_path / "t"
    committed = committed_read(directory)
    assert committed is not None
    later = time.time() + 100.0
    assert retire(files_of(tmp_path), committed, Bounds(age=150.0), now=lambda: later) is committed
    assert retire(files_of(tmp_path), committed, Bounds(age=50.0), now=lambda: later).removed == 15
    one = sum(path.stat().st_size for path in files_of(tmp_path).glob("*/partition=*/epochs=11-15/*"))
    left = retire(files_of(tmp_path), committed, Bounds(size=1.5 * one))
    assert (left.removed, [span.last for span in left.spans]) == (10, [15])
    assert left.removed_until == {"A": 10_000_000, "B": 10_000_000}
    assert list(files_of(tmp_path).glob("A/partition=0/epochs=1-5")), "nothing goes before"
    remove_replaced(files_of(tmp_path), left, grace=0.0)
    assert not list(files_of(tmp_path).glob("*/partition=*/epochs=1-5"))
    (directory / COMMITTED).write_bytes(msgspec.json.encode(left))
    assert read(tmp_path) == twice(range(11, 16))


def test_bounds_of_the_specification_hold(tmp_path: Path) -> None:
    made = sink(tmp_path, keep_gb=1e-9)
    written(made, range(1, 11))
    made.commit(epoch=10)
    made.put_in_order(10)
    committed = committed_read(tmp_path / "t")
    assert committed is not None
    assert committed.removed == 10
    made.close()


def test_without_compaction_nothing_changes(tmp_path: Path) -> None:
    made = sink(tmp_path, compact_s=0.0, keep_gb=1e-9)
    written(made, range(1, 21))
    made.commit(epoch=20)
    made.settle(epoch=20)
    made.close()
    assert small(tmp_path) == set(range(1, 21))


@pytest.mark.parametrize("interrupted", [False, True])
def test_outputs_without_a_directory_of_the_deployment_are_moved_into_it(
    tmp_path: Path, *, interrupted: bool
) -> None:
    """So they were written by the version before this one."""
    made = sink(tmp_path)
    written(made, range(1, 12))
    made.commit(epoch=11)
    made.put_in_order(11)
    made.close()
    before = read(tmp_path), read(tmp_path, "B")
    for operator in ("A", "B"):
        (files_of(tmp_path) / operator).rename(tmp_path / "t" / operator)
    shutil.rmtree(files_of(tmp_path))
    assert (read(tmp_path), read(tmp_path, "B")) == before, "of a topology that does not run"
    if interrupted:
        (tmp_path / "t" / ".deployed=3").mkdir()
        (tmp_path / "t" / "A").rename(tmp_path / "t" / ".deployed=3" / "A")
    again = sink(tmp_path)
    assert (read(tmp_path), read(tmp_path, "B")) == before
    written(again, range(12, 14))
    again.commit(epoch=13)
    assert read(tmp_path) == twice(range(1, 14))
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == [COMMITTED, "deployed=3"]
    again.close()


def test_outputs_of_a_version_without_a_list_are_moved_into_it(tmp_path: Path) -> None:
    made = sink(tmp_path)
    written(made, range(1, 12))
    made.close()
    for operator in ("A", "B"):
        (files_of(tmp_path) / operator).rename(tmp_path / "t" / operator)
    shutil.rmtree(files_of(tmp_path))
    assert not (tmp_path / "t" / COMMITTED).exists()
    again = sink(tmp_path)
    written(again, range(12, 14))
    again.commit(epoch=13)
    assert read(tmp_path) == twice(range(1, 14))
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == [COMMITTED, "deployed=3"]
    again.close()


def test_a_directory_that_refuses_the_move_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "t" / "A").mkdir(parents=True)
    blocking = tmp_path / "t" / ".deployed=3"
    blocking.touch()
    with pytest.raises(SinkError, match=r"\.deployed=3: tasks cannot write there: File exists.* tries again"):
        sink(tmp_path)
    blocking.unlink()
    sink(tmp_path).close()


@pytest.mark.parametrize("content", [b"", b"{", b'{"topology": "t"}', b"[]"])
def test_a_damaged_list_is_named_and_written_again(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t" / COMMITTED
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(CommittedError, match=COMMITTED):
        committed_read(tmp_path / "t")
    made = sink(tmp_path)
    written(made, range(1, 3))
    made.commit(epoch=2)
    assert read(tmp_path) == twice(range(1, 3))
    made.close()


@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("gone", [5, 10])
def test_a_damaged_or_lost_list_finds_the_spans_whose_small_files_have_gone(
    tmp_path: Path, gone: int, removed: bool
) -> None:
    made = sink(tmp_path)
    written(made, range(1, 12))
    made.commit(epoch=11)
    made.put_in_order(11)
    made.close()
    directory = tmp_path / "t"
    before = committed_read(directory)
    assert before is not None
    spans = [span for span in before.spans if span.last <= gone]
    remove_replaced(files_of(tmp_path), msgspec.structs.replace(before, spans=spans), grace=0.0)
    (directory / COMMITTED).unlink() if removed else (directory / COMMITTED).write_bytes(b"")
    again = sink(tmp_path)
    again.commit(epoch=11)
    found = committed_read(directory)
    assert found is not None
    assert found.spans == spans
    assert (read(tmp_path), read(tmp_path, "B")) == (twice(range(1, 12)), twice(range(2, 12, 2)))
    again.put_in_order(11)
    assert committed_read(directory) == before
    again.close()


def test_a_small_file_that_is_damaged_keeps_its_span_apart(tmp_path: Path) -> None:
    made = sink(tmp_path)
    written(made, range(1, 6))
    made.commit(epoch=5)
    (files_of(tmp_path) / "A" / "partition=0" / "epoch=3" / "part.parquet").write_bytes(b"PAR1")
    with pytest.raises(SinkError, match="epoch=3"):
        made.put_in_order(5)
    committed = committed_read(tmp_path / "t")
    assert committed is not None
    assert committed.spans == []
    made.close()


@pytest.mark.parametrize(
    ("early", "late", "together"),
    [
        ({"count": [1]}, {"count": [2], "sum": [1.5]}, [(1, None), (2, 1.5)]),
        ({"sum": [2], "count": [1]}, {"count": [2], "sum": [1.5]}, [(1, 2.0), (2, 1.5)]),
        ({"count": [1], "sum": pa.nulls(1)}, {"count": [2], "sum": ["a"]}, [(1, None), (2, "a")]),
    ],
    ids=["a column more", "another order and type", "null before"],
)
def test_epochs_of_other_columns_go_together_by_name(
    tmp_path: Path, early: dict[str, Any], late: dict[str, Any], together: list[tuple[Any, ...]]
) -> None:
    made = sink(tmp_path)
    write(made, "A", 1, pa.table(early))
    write(made, "A", 4, pa.table(late))
    made.commit(epoch=5)
    made.put_in_order(5)
    (file,) = files_of(tmp_path).glob("A/partition=0/epochs=1-5/part.parquet")
    assert [(row["count"], row["sum"]) for row in pq.ParquetFile(file).read().to_pylist()] == together
    made.close()


def test_two_columns_of_one_name_stay_as_they_are(tmp_path: Path) -> None:
    made = sink(tmp_path)
    for epoch in (1, 2):
        write(made, "A", epoch, pa.Table.from_arrays([pa.array([epoch]), pa.array(["a"])], ["x", "x"]))
    made.commit(epoch=5)
    made.put_in_order(5)
    (file,) = files_of(tmp_path).glob("A/partition=0/epochs=1-5/part.parquet")
    assert pq.ParquetFile(file).read().column(0).to_pylist() == [1, 2]
    made.close()


def test_a_window_end_that_is_no_instant_is_a_column_like_others(tmp_path: Path) -> None:
    made = sink(tmp_path)
    write(made, "A", 1, pa.table({"window_end": ["noon"], "count": [1]}))
    made.commit(epoch=5)
    made.put_in_order(5)
    committed = committed_read(tmp_path / "t")
    assert committed is not None
    assert committed.spans == [Span(first=1, last=5)]
    made.close()


@pytest.mark.parametrize("value", ["text", 2**62 + 1])
def test_columns_that_cannot_go_together_stay_in_small_files_and_the_rest_goes_on(
    tmp_path: Path, value: object
) -> None:
    made = sink(tmp_path)
    written(made, range(1, 11))
    write(made, "A", 8, pa.table({"window_end": [8], "key": ["k"], "count": [0.5]}))
    write(made, "B", 9, pa.table({"key": ["k"], "count": [1]}))
    write(made, "A", 9, pa.table({"window_end": [9], "key": ["k"], "count": [value]}))
    made.commit(epoch=10)
    before = read(tmp_path)
    with pytest.raises(SinkError, match=r"epochs=6-10.* cannot be put into one file.*one type") as told:
        made.put_in_order(10)
    assert told.value.where == str(files_of(tmp_path) / "A/partition=0/epochs=6-10/part.parquet")
    assert read(tmp_path) == before
    assert [path.name for path in files_of(tmp_path).rglob("epochs=*/*")] == ["part.parquet"] * 2, "of 1 to 5"
    made.close()
    bounded = sink(tmp_path, keep_gb=1e-9)
    with pytest.raises(SinkError):
        bounded.put_in_order(10)
    committed = committed_read(tmp_path / "t")
    assert committed is not None
    assert (committed.removed, committed.spans) == (5, []), "what is whole is still retired"
    bounded.close()


@pytest.mark.parametrize(
    ("early", "late"),
    [
        ([Decimal("0.1000000000000000001")], [0.5]),
        ([[Decimal("0.1000000000000000001")]], [[0.5]]),
        ([{"a": Decimal("0.1000000000000000001")}], [{"a": 0.5, "b": 1}]),
        ([Decimal("1.55")], [Decimal(10**37)]),
    ],
    ids=["fractions", "in a list", "in a structure", "too wide for readers"],
)
def test_no_decimal_becomes_another_number(tmp_path: Path, early: list[Any], late: list[Any]) -> None:
    made = sink(tmp_path)
    write(made, "A", 1, pa.table({"sum": early}))
    write(made, "A", 4, pa.table({"sum": late}))
    made.commit(epoch=5)
    with pytest.raises(SinkError, match=r"column 'sum' has .*decimal128.*, which no one type holds exactly"):
        made.put_in_order(5)
    assert not list(files_of(tmp_path).rglob("epochs=*/*"))
    made.close()


def test_decimals_of_several_scales_go_together(tmp_path: Path) -> None:
    made = sink(tmp_path)
    values = [Decimal("1.5"), Decimal("1000.25")]
    for epoch, value in enumerate(values, start=1):
        write(made, "A", epoch, pa.table({"sum": [value]}))
    made.commit(epoch=5)
    made.put_in_order(5)
    (file,) = files_of(tmp_path).glob("A/partition=0/epochs=1-5/part.parquet")
    assert pq.ParquetFile(file).read().column("sum").to_pylist() == values
    made.close()


@pytest.mark.parametrize("failure", [pa.ArrowTypeError("no"), ValueError("no"), MemoryError()])
def test_a_round_that_fails_is_followed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    made, rounds = sink(tmp_path), list[int]()

    def put_in_order(settled: int) -> None:
        rounds.append(settled)
        raise failure

    monkeypatch.setattr(made, "put_in_order", put_in_order)
    made.settle(epoch=1)
    made.settle(epoch=2)
    made.close()
    assert rounds == [1, 2]


def test_a_list_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    made = sink(tmp_path)
    shutil.rmtree(tmp_path / "t")
    (tmp_path / "t").write_text("a file in the way")
    with pytest.raises(SinkError, match=COMMITTED):
        made.commit(epoch=1)
    made.close()


@settings(max_examples=200, deadline=None)
@given(done=st.integers(0, 40), settled=st.integers(0, 60), length=st.integers(2, 12))
def test_spans_follow_each_other_and_end_at_multiples(done: int, settled: int, length: int) -> None:
    found = spans_due(done, settled=settled, length=length)
    for first, last in found:
        assert first == done + 1
        assert last % length == 0
        assert last <= settled
        done = last
    assert settled < (done // length + 1) * length


def test_what_is_left_of_a_span_by_a_driver_that_was_killed_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(path: Path, table: pa.Table) -> None:
        path.with_name(f"{path.name}.left").write_bytes(b"half")
        raise KeyboardInterrupt

    made = sink(tmp_path)
    written(made, range(1, 6))
    made.commit(epoch=5)
    monkeypatch.setattr(compaction, "write_table", killed)
    with pytest.raises(KeyboardInterrupt):
        made.put_in_order(5)
    assert list(tmp_path.rglob("*.left"))
    made.close()
    sink(tmp_path).close()
    assert not list(tmp_path.rglob("*.left"))


def test_a_crash_while_a_span_is_written_changes_nothing(tmp_path: Path) -> None:
    """Written again, it has the same rows."""
    made = sink(tmp_path)
    written(made, range(1, 6))
    made.commit(epoch=5)
    compact(files_of(tmp_path), 1, 5, writing=files_of(tmp_path))
    assert read(tmp_path) == twice(range(1, 6))
    made.put_in_order(5)
    assert read(tmp_path) == twice(range(1, 6))
    made.close()


@pytest.mark.parametrize("attempt", [0, 3])
def test_the_reader_in_the_document_reads_what_counts(tmp_path: Path, attempt: int) -> None:
    made = sink(tmp_path)
    for epoch in range(1, 8):
        write(made, "A", epoch, rows(99 if attempt else epoch), attempt)
        if attempt:
            write(made, "A", epoch, rows(epoch) if epoch % 2 else None, attempt + epoch)
    made.commit(epoch=7)
    made.put_in_order(7)
    text = (ROOT / "docs" / "outputs.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(import json\n.*?)\n\n\nfiles = ", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - what is tried is what the document says
    files = names["committed_files"](tmp_path / "t", "A")
    found = [value for file in files for value in pq.ParquetFile(file).read().column("count").to_pylist()]
    assert found == read(tmp_path) == twice(range(1, 8, 2 if attempt else 1))
    made.close()


def test_the_format_that_readers_know(tmp_path: Path) -> None:
    made = sink(tmp_path)
    made.commit(epoch=4)
    made.close()
    assert json.loads((tmp_path / "t" / COMMITTED).read_text()) == {
        "topology": "t", "deployed": 3, "epoch": 4, "removed": 0, "removed_until": {}, "spans": [],
    }  # fmt: skip
    known = Committed(topology="t", deployed=1, epoch=9, spans=[Span(first=1, last=5)])
    assert (known.tail, Committed(topology="t", deployed=1, epoch=9, removed=2).tail) == (5, 2)


def test_what_readers_are_shown_and_what_is_gone_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `committed.json` a driver knows after the loss of power which rows must not change."""
    made, forced, synced = sink(tmp_path), set[int](), set[str]()
    written(made, range(1, 4))
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: forced.add(os.fstat(descriptor).st_ino))
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    )
    made.commit(epoch=2)
    assert (tmp_path / "t" / COMMITTED).stat().st_ino in forced
    assert str(tmp_path / "t") in synced
    synced.clear()
    made.forget(deployed=3, after=2)
    assert str(files_of(tmp_path) / "A" / "partition=0") in synced


def test_the_file_of_a_span_is_on_disk_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The small files go then."""
    made, forced, synced = sink(tmp_path), set[int](), set[str]()
    written(made, range(1, LENGTH + 1))
    made.commit(epoch=LENGTH)
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: forced.add(os.fstat(descriptor).st_ino))
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    )
    compact(files_of(tmp_path), 1, LENGTH, writing=files_of(tmp_path))
    file = files_of(tmp_path) / "A" / "partition=0" / f"epochs=1-{LENGTH}" / "part.parquet"
    assert file.stat().st_ino in forced
    assert {str(file.parent), str(file.parent.parent)} <= synced
    made.close()


def test_small_files_stay_although_a_later_span_has_no_rows(tmp_path: Path) -> None:
    """It is as old as any."""
    made = sink(tmp_path)
    written(made, range(1, LENGTH + 1))
    made.commit(epoch=2 * LENGTH)
    made.put_in_order(2 * LENGTH)
    committed = committed_read(tmp_path / "t")
    assert committed is not None
    assert [(span.first, span.last) for span in committed.spans] == [(1, LENGTH), (LENGTH + 1, 2 * LENGTH)]
    assert remove_replaced(files_of(tmp_path), committed) == 0
    made.close()


def test_the_last_window_of_a_span_is_that_of_all_partitions(tmp_path: Path) -> None:
    made = sink(tmp_path)
    task = made.outputs(deployed=3, attempt=0, life=1)
    for partition, epoch in ((0, 4), (1, 2)):
        task.write("A", partition, epoch, rows(epoch))
    assert not task.settle()
    assert compact(files_of(tmp_path), 1, LENGTH, writing=files_of(tmp_path)).until == {"A": 4_000_000}
    made.close()
