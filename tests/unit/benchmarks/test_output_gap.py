"""What the benchmark of output after a kill reports and demands."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import Any

import pytest

from benchmarks import output_gap_report
from benchmarks.output_gap import killed_parse
from benchmarks.output_gap_report import Line, lines_of, report_of, stages_of

CLEAN = {"clean": True, "queries": 15, "rows": 1000, "faults": {}, "load_at_start": 0.1}
STAGES = {"loss recorded": 0.3, "first output": 1.0, "output of all": 1.5}


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def row(asked: int, seconds: float, **changed: Any) -> dict[str, Any]:
    return {
        "killed": asked, "asked": asked, "lost": 7, "queries": 15, "seconds": seconds, "news": 0.4,
        "gap": 1.4, "peace": 0.9, "waves": 1, "others": 0.1,
        "stages": {**STAGES, "output of all": seconds}, **changed,
    }  # fmt: skip


def failing(rows: list[dict[str, Any]], verified: list[dict[str, Any]]) -> list[str]:
    return [criterion.name for criterion in report_of(rows, verified).criteria if not criterion.holds]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_gap_report, "ASKED_FOR", 1)


def test_an_earlier_report_may_lack_what_others_took() -> None:
    earlier = {name: value for name, value in row(3, 1.0).items() if name != "others"}
    report = report_of([earlier, row(3, 1.0), row(1, 1.0)], [CLEAN])
    assert report.results["kinds"]["3 of 5"]["others"] == 0.1


def test_too_few_kills_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_gap_report, "ASKED_FOR", 2)
    assert failing([row(3, 1.0), row(1, 1.0), row(1, 1.0)], [CLEAN]) == ["3 of 5: kills"]


def test_both_kinds_have_bounds_of_their_own() -> None:
    rows = [row(3, 2.4), row(3, 2.5), row(1, 1.9), row(1, 2.1), row(1, 1.8)]
    report = report_of(rows, [CLEAN])
    assert failing(rows, [CLEAN]) == []
    assert report.results["kinds"]["3 of 5"]["median"] == pytest.approx(2.45)
    assert report.results["kinds"]["1 of 5"]["most"] == 2.1
    assert failing([row(3, 2.4), row(3, 2.4), row(3, 4.1)], [CLEAN]) == ["3 of 5: 95th percentile (s)"]
    assert failing([row(1, 2.1)], [CLEAN]) == ["1 of 5: median (s)"]


def test_a_run_that_shows_nothing_fails() -> None:
    assert failing([], []) == [
        "nodes killed / asked for",
        "partitions lost, least of a kill",
        "queries seen, least of a kill",
        "runs verified clean / runs",
        "rows compared, least of a run",
    ]


@pytest.mark.parametrize(
    ("changed", "failed"),
    [
        ({"killed": 2}, "nodes killed / asked for"),
        ({"lost": 0}, "partitions lost, least of a kill"),
        ({"queries": 0}, "queries seen, least of a kill"),
    ],
)
def test_one_kill_that_was_none_fails_the_run(changed: dict[str, Any], failed: str) -> None:
    assert failing([row(3, 1.0), row(3, 1.0, **changed)], [CLEAN]) == [failed]


def test_wrong_rows_fail_the_run() -> None:
    assert failing([row(3, 1.0)], [CLEAN, {**CLEAN, "clean": False}]) == ["runs verified clean / runs"]


def test_lines_of_the_drivers_log_are_found_by_their_event() -> None:
    text = "\n".join(
        f"timestamp='{iso(at)}' level='info' logger='x' event='{event}' generation=2"
        for at, event in [(9.0, "plan adopted"), (11.0, "plan adopted"), (11.5, "checkpoint")]
    )
    assert lines_of(f"{text}\n    at java.lang.Thread", ["plan adopted"], 10.0) == [
        Line(11.0, "plan adopted")
    ]


def test_stages_come_in_the_order_of_time() -> None:
    def plan(created: float, published: float | None) -> dict[str, Any]:
        return {"created_at": iso(created), "published_at": None if published is None else iso(published)}

    found = stages_of(
        10.0,
        losses=[10.2, 10.3],
        # The last one moves partitions to replacements; it comes after output.
        plans=[plan(10.4, 10.5), plan(10.45, None), plan(20.0, 20.1)],
        lines=[Line(10.1, "executors are gone"), Line(10.15, "job ended early"), Line(10.7, "plan adopted")],
        outputs={"a": 11.0, "b": 12.0},
    )
    assert list(found.items()) == [
        ("executors gone", 0.1), ("job ended early", 0.15), ("loss recorded", 0.3), ("plan recorded", 0.4),
        ("plan published", 0.5), ("plan adopted", 0.7), ("first output", 1.0), ("output of all", 2.0),
    ]  # fmt: skip


def test_the_numbers_of_killed_nodes_are_checked() -> None:
    assert killed_parse("3,1") == [3, 1]
    for wrong in ("", "x", "0", "5"):
        with pytest.raises(argparse.ArgumentTypeError):
            killed_parse(wrong)
