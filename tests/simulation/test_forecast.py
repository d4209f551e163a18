"""Predictions of simulated incidents against what came: the range of 80 % holds in 70 to 90 of 100 cases."""

from __future__ import annotations

from collections import defaultdict

import pytest

from benchmarks.forecast import HIGH, KINDS, LOW, incidents_run, summary
from domain.forecast import Prediction


@pytest.fixture(scope="module")
def predictions() -> list[Prediction]:
    found, unended = incidents_run(300, seed=1)
    assert unended == 0
    return found


def test_ranges_hold_as_often_as_they_say(predictions: list[Prediction]) -> None:
    by: defaultdict[str, list[Prediction]] = defaultdict(list)
    for one in predictions:
        by[one.kind].append(one)
        if one.stage == "nodes":  # those that reach furthest
            by[f"{one.kind}, nodes"].append(one)
    held = {kind: summary(rows)["held"] for kind, rows in by.items()}
    assert set(KINDS) <= held.keys()
    assert {kind: share for kind, share in held.items() if not LOW <= share <= HIGH} == {}


def test_they_are_the_same_every_time(predictions: list[Prediction]) -> None:
    again, _ = incidents_run(20, seed=1)
    assert again == predictions[: len(again)]


def test_they_are_worth_something(predictions: list[Prediction]) -> None:
    found = summary([one for one in predictions if one.kind == "incident"])
    assert found["error"] < 0.3, "of the time that it took, in the median"
