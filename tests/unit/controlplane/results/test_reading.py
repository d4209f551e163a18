"""Reading the newest rows and windows of a query, page by page, from the files that count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.results import reading
from controlplane.results.columns import LONGEST
from controlplane.results.messages import Answer, Cursor, CursorError, Question
from controlplane.results.reading import answer
from domain.masking import MASK
from domain.topology.spec import ParquetSinkSpec
from spark_jobs.sinks.committed import committed_read
from spark_jobs.sinks.compaction import remove_replaced
from spark_jobs.sinks.parquet_sink import ParquetSink

SPAN = 5
KEYS = 4


def windows(epoch: int, since: int = 0) -> pa.Table | None:
    """A window ends with every second epoch. since: seconds after 1970."""
    if epoch % 2:
        return None
    end = (since + epoch) * 1_000_000
    keys = range(KEYS)
    return pa.table(
        {
            "window_start": [end - 2_000_000] * KEYS,
            "window_end": [end] * KEYS,
            "key": [f"k{n}" for n in keys],
            "count": [(n * epoch) % 7 for n in keys],
        }
    )


class Outputs:
    """A topology `t` with a query of windows, `W[0]`, and one of rows in no windows, `R[0]`."""

    def __init__(self, root: Path, *, deployed: int = 3, since: int = 0) -> None:
        self.directory = root / "t"
        self.since = since
        self.deployed = deployed
        self.sink = ParquetSink(
            root, "t", ParquetSinkSpec(compact_s=float(SPAN)), operators=["W", "R"], force=False
        )
        self.sink.prepare(deployed=deployed, life=1)

    def write(self, epochs: range) -> None:
        for epoch in epochs:
            task = self.sink.outputs(deployed=self.deployed, attempt=0, life=1)
            task.write("W", 0, epoch, windows(epoch, self.since))
            task.write("R", 0, epoch, pa.table({"text": [f"{epoch}-{n}" for n in range(3)]}))
            assert not task.settle()
        self.sink.commit(epoch=epochs[-1])

    def compact(self, settled: int) -> None:
        self.sink.put_in_order(settled)
        committed = committed_read(self.directory)
        assert committed is not None
        remove_replaced(self.directory / f"deployed={self.deployed}", committed, grace=0.0)

    def ask(self, operator: str = "W", **given: Any) -> Answer:
        question = {"directory": str(self.directory), "operator": operator, "partition": 0, "limit": 1000}
        reply = answer(Question(**{**question, **given}))
        assert reply.answer is not None, reply.refusal
        return reply.answer

    def refusal(self, operator: str = "W", **given: Any) -> str:
        question = {"directory": str(self.directory), "operator": operator, "partition": 0, "limit": 1000}
        reply = answer(Question(**{**question, **given}))
        assert reply.refusal is not None
        return "absent" if reply.refusal.absent else reply.refusal.message

    def every(self, operator: str, limit: int, **given: Any) -> list[dict[str, Any]]:
        rows, before = [], ""
        while True:
            page = self.ask(operator, limit=limit, before=before, **given)
            assert len(page.rows) <= limit
            rows += page.rows
            before = page.next
            if not before:
                return rows


@pytest.fixture
def outputs(tmp_path: Path) -> Outputs:
    return Outputs(tmp_path)


def test_the_newest_window_comes_first_and_in_it_the_largest_count(outputs: Outputs) -> None:
    outputs.write(range(1, 12))
    found = outputs.ask(limit=5, windows=2)
    assert [(one.name, one.type) for one in found.columns] == [
        ("window_start", "time"),
        ("window_end", "time"),
        ("key", "text"),
        ("count", "number"),
        ("status", "text"),
    ]
    assert [(row["window_end"], row["count"], row["key"]) for row in found.rows] == [
        ("1970-01-01T00:00:10Z", 6, "k2"),
        ("1970-01-01T00:00:10Z", 3, "k1"),
        ("1970-01-01T00:00:10Z", 2, "k3"),
        ("1970-01-01T00:00:10Z", 0, "k0"),
        ("1970-01-01T00:00:08Z", 3, "k3"),
    ]
    assert [(one.end, one.rows, one.total, one.key, one.count) for one in found.windows] == [
        ("1970-01-01T00:00:10Z", 4, 11, "k2", 6),
        ("1970-01-01T00:00:08Z", 4, 6, "k3", 3),
    ]
    assert (found.epoch, found.removed, found.deployed) == (11, 0, 3)


@settings(max_examples=12, deadline=None)
@given(
    written=st.integers(1, 40),
    settled=st.integers(0, 40),
    limit=st.integers(1, 50),
    later=st.integers(0, 12),
    operator=st.sampled_from(["W", "R"]),
)
def test_pages_hold_each_row_once(
    tmp_path_factory: pytest.TempPathFactory,
    written: int,
    settled: int,
    limit: int,
    later: int,
    operator: str,
) -> None:
    """However long pages are, what is in spans, and what is written between the first page and the others."""
    outputs = Outputs(tmp_path_factory.mktemp("outputs"))
    outputs.write(range(1, written + 1))
    outputs.compact(min(settled, written))
    first = outputs.ask(operator, limit=limit)
    if later:
        outputs.write(range(written + 1, written + later + 1))
    rows = [*first.rows]
    if first.next:
        rows += outputs.ask(operator, limit=1000, before=first.next).rows
    if operator == "R":
        expected = [f"{epoch}-{n}" for epoch in range(written, 0, -1) for n in (2, 1, 0)]
        assert [row["text"] for row in rows] == expected
        assert len(outputs.every("R", limit)) == 3 * (written + later)
    else:
        found = [(row["window_end"], row["key"]) for row in rows]
        assert len(found) == len(set(found)) == KEYS * (written // 2)
        assert len(outputs.every("W", limit)) == KEYS * ((written + later) // 2)
    outputs.sink.close()


@pytest.mark.parametrize("settled", [0, 11])
def test_windows_before_1970_have_pages_as_well(tmp_path: Path, settled: int) -> None:
    outputs = Outputs(tmp_path, since=-1_000)
    outputs.write(range(1, 15))
    outputs.compact(settled)
    rows = outputs.every("W", 3)
    assert len(rows) == len({(row["window_end"], row["key"]) for row in rows}) == KEYS * 7
    assert rows[-1]["window_end"] == "1969-12-31T23:43:22Z"
    outputs.sink.close()


def test_each_file_is_read_with_the_types_that_it_has(tmp_path: Path) -> None:
    """Columns of Python code may be of other types from epoch to epoch."""
    values = [pa.array([1]), pa.array(["late"]), pa.array([[1, None]]), pa.array([2.5]), pa.nulls(1)]
    values.append(pa.array([-1_000_000_000], pa.timestamp("ns", tz="Europe/Zurich")))
    outputs = Outputs(tmp_path)
    for newest in range(len(values)):
        for epoch in range(len(values)):
            task = outputs.sink.outputs(deployed=3, attempt=0, life=1)
            task.write("R", 0, epoch + 1, pa.table({"v": values[(epoch + newest) % len(values)]}))
            assert not task.settle()
        outputs.sink.commit(epoch=len(values))
        found = {str(row["v"]).replace("T", " ")[:19] for row in outputs.every("R", 2)}
        instants = {text for text in found if ":" in text}
        assert found - instants == {"1", "late", "[1, NULL]", "2.5", "None"}
        assert len(instants) == 1


def test_a_column_may_have_any_name(tmp_path: Path) -> None:
    written = Outputs(tmp_path)
    task = written.sink.outputs(deployed=3, attempt=0, life=1)
    task.write("R", 0, 1, pa.table({"file_row_number": range(5), "filename": ["f"] * 5}))
    assert not task.settle()
    written.sink.commit(epoch=1)
    assert [row["file_row_number"] for row in written.every("R", 2)] == [4, 3, 2, 1, 0]


def test_a_page_of_a_compacted_file_says_where_to_begin(outputs: Outputs) -> None:
    outputs.write(range(1, 14))
    page = outputs.ask("R", limit=13)
    assert page.rows[-1]["text"] == "9-2"
    outputs.sink.put_in_order(13)  # the small files are there still, but may go at any moment
    assert "begin again with the newest rows" in outputs.refusal("R", before=page.next)
    outputs.compact(13)
    assert "begin again with the newest rows" in outputs.refusal("R", before=page.next)
    windows = outputs.ask("W", limit=6)
    outputs.compact(13)
    assert outputs.ask("W", before=windows.next).rows[0]["window_end"] == "1970-01-01T00:00:10Z"


def test_files_of_other_columns_that_became_one_read_the_same(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path)
    for epoch in range(1, 13):
        task = outputs.sink.outputs(deployed=3, attempt=0, life=1)
        for operator, table in (("W", windows(2 * epoch)), ("R", pa.table({"text": [f"{epoch}"]}))):
            assert table is not None
            extra = epoch > 3 if operator == "W" else 3 < epoch < 9 or epoch == 12
            more = table.append_column("more", pa.array([epoch] * table.num_rows))
            task.write(operator, 0, epoch, more if extra else table)
        assert not task.settle()
    outputs.sink.commit(epoch=12)
    before = outputs.ask(windows=20), outputs.ask("R")
    outputs.compact(12)
    after = outputs.ask(windows=20), outputs.ask("R")
    assert [(one.columns, one.rows, one.windows) for one in after] == [
        (one.columns, one.rows, one.windows) for one in before
    ]
    assert [len(one.rows) for one in after] == [12 * KEYS, 12]
    outputs.sink.close()


def test_a_new_deployment_ends_the_pages_of_the_old_one(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path)
    outputs.write(range(1, 9))
    page = outputs.ask(limit=3)
    again = Outputs(tmp_path, deployed=4)
    again.write(range(1, 3))
    assert "deployed again" in again.refusal(before=page.next)
    assert {row["window_end"] for row in again.ask().rows} == {"1970-01-01T00:00:02Z"}


def test_masked_values_are_nowhere_in_the_answer(outputs: Outputs) -> None:
    outputs.write(range(1, 5))
    found = outputs.ask(windows=5, masked=["key"])
    assert {row["key"] for row in found.rows} == {MASK}
    assert {window.key for window in found.windows} == {MASK}
    assert [one.name for one in found.columns if one.masked] == ["key"]
    uncounted = outputs.ask(windows=5, masked=["count"])
    assert {row["count"] for row in uncounted.rows} == {MASK}
    assert {(window.total, window.count, window.key) for window in uncounted.windows} == {(None, None, None)}


def test_a_masked_column_beside_one_that_differs_in_case_only(outputs: Outputs) -> None:
    rows = {"Email": ["a"], "list": [[{"x": 1, "y": [2]}]], "email": ["b"], "EMAIL": ["c"], "last": ["d"]}
    task = outputs.sink.outputs(deployed=3, attempt=0, life=1)
    task.write("R", 0, 1, pa.table(rows))
    assert not task.settle()
    outputs.sink.commit(epoch=1)
    (row,) = outputs.ask("R", masked=["email", "last"]).rows
    assert [row[name] for name in row if name not in ("list", "status")] == ["a", MASK, "c", MASK]


def test_what_cannot_be_read_is_said(outputs: Outputs, tmp_path: Path) -> None:
    assert outputs.refusal() == "absent"
    outputs.write(range(1, 5))
    assert outputs.ask("R", limit=1).next
    file = next((tmp_path / "t").glob("deployed=3/W/partition=0/epoch=4/*.parquet"))
    file.write_bytes(b"no parquet")
    assert "cannot be read" in outputs.refusal()
    (tmp_path / "t" / "committed.json").write_text("{")
    assert "damaged" in outputs.refusal()


def test_an_answer_is_never_large(outputs: Outputs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long texts are cut, and a page ends where it has become large."""
    monkeypatch.setattr(reading, "MOST_BYTES", 5_000)
    task = outputs.sink.outputs(deployed=3, attempt=0, life=1)
    task.write("R", 0, 1, pa.table({"text": [f"{n:04}" + "x" * 5_000 for n in range(100)]}))
    task.settle()
    outputs.sink.commit(epoch=1)
    page = outputs.ask("R")
    assert 1 < len(page.rows) < 10
    assert len(page.rows[0]["text"]) == LONGEST + 1
    texts = [row["text"][:4] for row in outputs.every("R", 1000)]
    assert texts == [f"{n:04}" for n in range(99, -1, -1)]


def test_few_files_are_opened_however_many_there_are(
    outputs: Outputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_FILES", 4)
    outputs.write(range(1, 31))
    page = outputs.ask("R", limit=1000)
    assert len(page.rows) == 12
    assert page.next
    assert len(outputs.every("R", 1000)) == 90


@pytest.mark.parametrize("text", ["", "1", "1.2.3", "a.b.c.d", "1.-2..3", "1.2.3.4.5", "9" * 90 + ".0..0"])
def test_a_cursor_that_no_page_had_is_refused(text: str) -> None:
    with pytest.raises(CursorError):
        Cursor.read(text)
