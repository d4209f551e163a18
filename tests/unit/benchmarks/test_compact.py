"""The text of a report."""

from __future__ import annotations

import json

from benchmarks.compact import WIDTH, compact, spread


def test_a_report_has_short_lines_and_reads_back() -> None:
    row = {"curve": [i / 8 for i in range(100)], "empty": [], "none": None}
    document = {"parameters": {"rates": [1000, 10_000]}, "results": [row, row], "long": "x" * 200}
    text = compact(document)
    assert json.loads(text) == document
    long = [line for line in text.splitlines() if len(line) > WIDTH]
    assert long == [line for line in long if "xxx" in line]
    assert text.count("\n") < 40


def test_measurements_are_rounded_and_counts_are_not() -> None:
    assert compact({"s": 0.12345678, "tuples": 123_456_789}) == '{"s": 0.123457, "tuples": 123456789}'


def test_spread() -> None:
    assert spread([3.0, 1.0, 2.0]) == {"count": 3, "least": 1.0, "median": 2.0, "p90": 3.0, "most": 3.0}
