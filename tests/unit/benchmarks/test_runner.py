"""The shared runner of the benchmarks: its report, its exit code and its clock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.runner import (
    Report,
    Session,
    at_least,
    at_most,
    figure,
    ratio_of_medians,
    run,
)
from supervision.checks import SKIPPED


def _measure(session: Session) -> Report:
    with session.progress("counting", 2) as advance:
        advance()
        advance()
    value = 1.0 if session.quick else 3.0
    return Report(parameters={"n": 2}, results={"value": value}, criteria=[at_most("value", value, 2.0)])


def _draw(results: dict[str, Any]) -> Any:
    drawn, axes = figure(1)
    axes[0][0].plot([0, results["value"]])
    return drawn


def test_report_and_exit_code(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "report.json"
    assert run(name="x", about=None, measure=_measure, argv=["--quick", "--json", str(target)]) == 0
    document = json.loads(target.read_text())
    assert document["criteria"] == [{"name": "value", "value": 1.0, "bound": "<= 2", "holds": True}]
    assert document["parameters"] == {"quick": True, "n": 2}
    assert document["results"] == {"value": 1.0}
    assert {"processor", "cores", "memory_gib", "python", "packages"} <= set(document["machine"])
    assert run(name="x", about=None, measure=_measure, argv=[]) == 1


def test_what_could_not_be_measured_is_neither_right_nor_wrong() -> None:
    assert run(name="x", about=None, measure=lambda _: Report(skipped="no loop devices"), argv=[]) == SKIPPED


def test_a_plot_is_the_same_every_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    files = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for file in files:
        run(name="x", about=None, measure=_measure, draw=_draw, argv=["--plot", str(file)])
    assert files[0].read_bytes() == files[1].read_bytes()
    assert files[0].read_text().startswith("<?xml")


def test_criteria_read_like_what_was_asked_for() -> None:
    assert at_least("ratio", 0.98, 0.97).holds
    assert not at_least("ratio", 0.96, 0.97).holds
    assert at_most("seconds", 1.0, 1.0).bound == "<= 1"


def test_ratio_of_medians() -> None:
    assert ratio_of_medians([2.0, 8.0, 4.0], [2.0, 2.0, 9.0]) == 2.0
