"""What became of tentative rows: stayed, changed, appeared, vanished."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.results.asking import compared
from controlplane.results.comparing import compare
from controlplane.results.messages import Compared, Comparison
from tests.unit.controlplane.results.test_reading import Outputs

Row = tuple[int, str, int]


def table(rows: list[Row]) -> pa.Table:
    ends, keys, counts = zip(*rows, strict=True)
    return pa.table(
        {
            "window_end": pa.array([end * 1_000_000 for end in ends], pa.int64()),
            "key": list(keys),
            "count": pa.array(counts, pa.int64()),
        }
    )


def written(
    root: Path, tentative: dict[int, list[Row]], final: dict[int, list[Row]], *, deployed: int = 3
) -> Outputs:
    outputs = Outputs(root, deployed=deployed)
    task = outputs.sink.outputs(deployed=deployed, attempt=0, life=1)
    for epoch, rows in tentative.items():
        task.write_tentative("W", 0, epoch, table(rows) if rows else None, 0.75)
    for epoch, rows in final.items():
        task.write("W", 0, epoch, table(rows) if rows else None)
    assert not task.settle()
    outputs.sink.commit(epoch=max(final))
    return outputs


def asked(outputs: Outputs, first: int, last: int, deployed: int = 3) -> Comparison:
    directory = str(outputs.directory)
    return Comparison(
        directory=directory, operator="W", partition=0, deployed=deployed, first=first, last=last
    )


def plain(tentative: list[Row], final: list[Row]) -> tuple[int, int, int, int]:
    """The same, said in another way."""
    left, right = Counter(tentative), Counter(final)
    stayed = sum((left & right).values())
    by_left = Counter((end, key) for end, key, _ in (left - right).elements())
    by_right = Counter((end, key) for end, key, _ in (right - left).elements())
    changed = sum((by_left & by_right).values())
    return stayed, changed, sum((by_right - by_left).values()), sum((by_left - by_right).values())


rows = st.lists(st.tuples(st.integers(1, 3), st.sampled_from("abc"), st.integers(0, 3)), max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(rows, rows), min_size=1, max_size=4))
def test_rows_are_counted_as_a_plain_count_has_them(
    tmp_path_factory: pytest.TempPathFactory, epochs: list[tuple[list[Row], list[Row]]]
) -> None:
    root = tmp_path_factory.mktemp("outputs")
    tentative = {5 + n: one for n, (one, _) in enumerate(epochs)}
    final = {5 + n: one for n, (_, one) in enumerate(epochs)}
    outputs = written(root, tentative | {4: [(9, "z", 9)]}, final | {4: [(9, "y", 9)]})
    found = compare(asked(outputs, 5, 4 + len(epochs)))
    expected = plain(
        [row for one in tentative.values() for row in one], [r for f in final.values() for r in f]
    )
    assert (found.stayed, found.changed, found.appeared, found.vanished) == expected
    assert not found.problem
    shutil.rmtree(root)


def test_a_count_that_lacked_rows_has_changed(tmp_path: Path) -> None:
    """In a process of its own, as a task asks for it."""
    outputs = written(
        tmp_path,
        {7: [(1, "a", 3), (1, "b", 2), (1, "wrong", 1)]},
        {7: [(1, "a", 4), (1, "b", 2), (1, "c", 1)]},
    )
    found = compared(asked(outputs, 7, 7))
    assert found == Compared(stayed=1, changed=1, appeared=1, vanished=1)


def test_columns_of_numbers_alone(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path)
    task = outputs.sink.outputs(deployed=3, attempt=0, life=1)
    task.write_tentative("W", 0, 1, pa.table({"x": [1, 2]}), 0.5)
    task.write("W", 0, 1, pa.table({"x": [2, 3, 4]}))
    task.settle()
    outputs.sink.commit(epoch=1)
    assert compare(asked(outputs, 1, 1)) == Compared(stayed=1, changed=1, appeared=1)


def test_types_of_columns_may_differ_between_epochs(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path)
    task = outputs.sink.outputs(deployed=3, attempt=0, life=1)
    for epoch, before, after in ((1, 1, 1), (2, 1.5, 2.25)):
        task.write_tentative("W", 0, epoch, pa.table({"key": ["a"], "x": [before]}), 0.5)
        task.write("W", 0, epoch, pa.table({"key": ["a"], "x": [after]}))
    task.settle()
    outputs.sink.commit(epoch=2)
    assert compare(asked(outputs, 1, 2)) == Compared(stayed=1, changed=1)


@pytest.mark.parametrize(
    ("deployed", "last", "problem"), [(4, 7, "deployed again"), (3, 8, "not committed yet")]
)
def test_what_cannot_be_compared_says_why(tmp_path: Path, deployed: int, last: int, problem: str) -> None:
    outputs = written(tmp_path, {7: [(1, "a", 3)]}, {7: [(1, "a", 4)]})
    assert problem in compare(asked(outputs, 7, last, deployed)).problem


def test_merged_lost_and_damaged_files_say_so(tmp_path: Path) -> None:
    outputs = written(tmp_path, {4: [(1, "a", 3)]}, {n: [(n, "a", 4)] for n in range(1, 12)})
    outputs.sink.put_in_order(6)
    assert compare(asked(outputs, 4, 4)) == Compared(changed=0, appeared=1, vanished=1), (
        "they are there still"
    )
    span = next((outputs.directory / "deployed=3" / "W" / "partition=0").glob("epochs=*/part.parquet"))
    os.utime(span, (0, 1_000_000))
    assert "merged" in compare(asked(outputs, 4, 4)).problem
    assert compare(asked(outputs, 6, 7)) == Compared(appeared=2), "no tentative file: no rows"
    (outputs.directory / "deployed=3" / "W" / "partition=0" / "epoch=7" / "part.parquet").write_bytes(b"x")
    assert "cannot be read" in compare(asked(outputs, 6, 7)).problem
    (outputs.directory / "committed.json").write_text("{")
    assert "committed.json" in compare(asked(outputs, 6, 7)).problem
    (outputs.directory / "committed.json").unlink()
    assert "not where" in compare(asked(outputs, 6, 7)).problem
