"""What schedules with replicas and tentative output report."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.copies import copies_report
from benchmarks.runner import Report


def row(**fields: Any) -> dict[str, Any]:
    compared = {"stayed": 5, "changed": 1, "appeared": 2, "vanished": 0}
    found = {"takeovers": 1, "periods": 2, "compared": compared, "not_compared": []}
    return {"seed": "1/1", **found, **fields}


@pytest.mark.parametrize(
    ("fields", "missed"),
    [
        ({}, []),
        ({"takeovers": 0}, ["takeovers"]),
        ({"periods": 0}, ["periods of tentative output"]),
        ({"compared": dict.fromkeys(("stayed", "changed"), 0)}, ["tentative and final rows compared"]),
        ({"not_compared": ["the files are gone"]}, ["schedules with rows that could not be compared"]),
    ],
)
def test_it_fails_where_what_it_measures_did_not_take_place(
    fields: dict[str, Any], missed: list[str]
) -> None:
    report = Report()
    # The second failed before anything was seen of its copies.
    report.results = {"schedules": [row(**fields), {"seed": "1/2", "problem": "it did not recover"}]}
    copies_report(report)
    assert [one.name for one in report.criteria if not one.holds] == missed
