"""The rows of the Flink job, compared with what the queries must give."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from benchmarks.flink.checking import outputs_check, texts_write, tuples_before

ORIGIN = 1_700_000_000
TEXTS: list[str | None] = ["#one", None, "#two and #One", "nothing"]
SPEC: dict[str, Any] = {
    "name": "hashtags",
    "operators": [
        {"name": "Source", "kind": "source", "params": {"rate": 4}},
        {
            "name": "Parser",
            "kind": "flat_map_regex",
            "inputs": [{"from": "Source"}],
            "params": {"pattern": r"#(\w+)", "fold": "lower"},
        },
        {
            "name": "O0",
            "kind": "tumbling_window",
            "inputs": [{"from": "Parser"}],
            "params": {"size_s": 5},
            "output": True,
        },
    ],
}


def check(directory: Path) -> Any:
    return outputs_check(
        SPEC, outputs=directory, texts=TEXTS, rate=4, origin_us=ORIGIN * 1_000_000, second=ORIGIN + 10
    )


def write(directory: Path, name: str, *rows: str) -> None:
    (directory / "O0").mkdir(exist_ok=True)
    (directory / "O0" / name).write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


def window(number: int, count: int, key: str) -> str:
    start = ORIGIN + 5 * number
    return f"{start},{start + 5},{count},{key}"


FIRST = (window(0, 10, "one"), window(0, 5, "two"))
SECOND = (window(1, 10, "one"), window(1, 5, "two"))


def test_rows_are_exact_when_what_was_written_again_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a-r0-t1-s0-of1-c0.rows", *FIRST)
    write(tmp_path, "a-r0-t1-s0-of1-c1.rows", SECOND[0])
    # Restored from checkpoint 1; windows that end later than what is compared are left out.
    write(tmp_path, "b-r1-t2-s0-of1-c1.rows", *SECOND, window(2, 3, "one"))
    verdict = check(tmp_path)
    assert (verdict.clean, verdict.rows, verdict.faults) == (True, 4, {})


def test_lost_double_and_wrong_rows_are_counted(tmp_path: Path) -> None:
    write(tmp_path, "a-r0-t1-s0-of1-c0.rows", *FIRST, FIRST[0], window(1, 9, "one"), window(1, 1, "new"))
    verdict = check(tmp_path)
    assert not verdict.clean
    assert verdict.faults == {"O0[0]": {"missing": 1, "duplicate": 1, "unexpected": 1, "different": 1}}


def test_without_any_rows_all_are_missing(tmp_path: Path) -> None:
    write(tmp_path, "a-r0-t1-s0-of1.progress")
    verdict = check(tmp_path)
    assert not verdict.clean
    assert verdict.faults == {"O0[0]": {"missing": 4}}


@pytest.mark.parametrize(("second", "rate", "tuples"), [(0, 4, 0), (1, 4, 4), (10, 3, 30), (-5, 3, 0)])
def test_tuples_due_before_a_second(second: int, rate: int, tuples: int) -> None:
    assert tuples_before(ORIGIN + second, origin_us=ORIGIN * 1_000_000, rate=rate) == tuples


def test_texts_are_written_with_their_offsets(tmp_path: Path) -> None:
    texts_write(["ä", None, "bc"], tmp_path / "texts")
    content = (tmp_path / "texts").read_bytes()
    assert struct.unpack("<5i", content[:20]) == (3, 0, 2, 2, 4)
    assert content[20:].decode() == "äbc"
