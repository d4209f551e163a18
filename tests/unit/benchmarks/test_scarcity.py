"""What the scarcity benchmark demands of its runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks import scarcity
from benchmarks.horizons import SLOWEST
from benchmarks.runner import Session
from benchmarks.scarcity import CAPACITY, KILLED, NODES, criteria, engines_parse

GOOD: dict[str, Any] = {
    "killed": ["node"] * KILLED,
    "throttled": 0.9,
    "failed_queries": 15,
    "verified": True,
    "verified_rows": 1000,
    "all": 100.0,
    "unfinished": 0,
    "quotas": [float(CAPACITY)] * (NODES + KILLED),
    "checkpoints": (9, 12),
}


AREA: dict[str, Any] = {"share": 0.95, "optimum_proven": True}
PLANNED: dict[str, Any] = {**GOOD, "partitions_percent": 60.0, "areas": {SLOWEST: AREA}}


@pytest.fixture(autouse=True)
def scarce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scarcity, "SCARCE", True)


def failing(rows: dict[str, dict[str, Any]]) -> list[str]:
    return [criterion.name for criterion in criteria(rows) if not criterion.holds]


def test_good_runs_meet_all_criteria() -> None:
    blocking = {**PLANNED, "all": 120.0, "areas": {SLOWEST: {**AREA, "share": 0.0}}}
    rows = {"incremental": PLANNED, "blocking": blocking, "Flink": GOOD}
    assert failing(rows) == []
    assert "all queries back, blocking / incremental" in [one.name for one in criteria(rows)]


@pytest.mark.parametrize(
    ("fault", "criterion"),
    [
        ({"killed": []}, "nodes killed, least"),
        ({"throttled": 0.0}, "throttled periods, least of the largest"),
        ({"failed_queries": 0}, "failed queries, least"),
        ({"verified": False}, "runs verified clean / runs"),
        ({"verified_rows": 0}, "rows compared, least"),
        ({"unfinished": 1}, "runs in which all came back / runs"),
        ({"quotas": [0.0] * NODES}, "Flink: nodes with the quota"),
        ({"checkpoints": (0, 12)}, "Flink: checkpoints before and after the failure, least"),
        ({"checkpoints": (9, 0)}, "Flink: checkpoints before and after the failure, least"),
    ],
)
def test_what_did_not_happen_fails_the_run(fault: dict[str, Any], criterion: str) -> None:
    assert failing({"Flink": {**GOOD, **fault}}) == [criterion]


@pytest.mark.parametrize(
    ("fault", "criterion"),
    [
        ({"partitions_percent": 0.0}, "incremental: CPU percent that partitions took before"),
        (
            {"areas": {SLOWEST: {**AREA, "optimum_proven": False}}},
            "incremental: optima that were not proven",
        ),
    ],
)
def test_a_recovery_is_compared_with_a_proven_optimum_of_real_costs(
    fault: dict[str, Any], criterion: str
) -> None:
    assert failing({"incremental": {**PLANNED, **fault}}) == [criterion]


def test_quotas_need_not_be_felt_where_the_machine_has_less_than_all_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scarcity, "SCARCE", False)
    assert failing({"Flink": {**GOOD, "throttled": 0.0}}) == []


def test_engines_are_named() -> None:
    assert engines_parse("resurge, flink") == ["resurge", "flink"]
    for text in ("", "storm", "flink,storm"):
        with pytest.raises(argparse.ArgumentTypeError, match="name some of resurge, flink"):
            engines_parse(text)


@pytest.mark.parametrize(
    ("loads", "found", "tries"),
    [
        ({75_000: 76.0}, 75_000, 1),
        ({75_000: 40.0, 168_750: 77.5}, 168_750, 2),
        ({75_000: 60.0, 101_250: 60.0}, 75_000, scarcity.TRIES),
    ],
    ids=["at once", "by a line", "the nearest, where none is near"],
)
def test_the_rate_is_the_one_with_the_wanted_load(
    loads: dict[int, float], found: int, tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    @contextmanager
    def deployed(rate: int, policy: dict[str, str]) -> Iterator[Any]:
        asked.append(rate)
        yield SimpleNamespace(nodes=lambda _: {}, home=None)

    monkeypatch.setattr(scarcity, "GIVEN_RATE", 0)
    monkeypatch.setattr(scarcity, "deployed", deployed)
    monkeypatch.setattr(scarcity, "counting", lambda *_: nullcontext())
    monkeypatch.setattr(scarcity, "load_of", lambda *_, **__: loads.get(asked[-1], 60.0))
    session = SimpleNamespace(note=lambda _: None)
    rate, tried = scarcity.rate_find(cast("Session", session))
    assert (rate, len(tried)) == (found, tries)
    assert [one for one, _ in tried] == asked


def test_a_rate_that_is_given_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scarcity, "GIVEN_RATE", 1_234)
    assert scarcity.rate_find(cast("Session", None)) == (1_234, [])


@pytest.mark.parametrize("share", [0.5, None])
def test_a_recovery_that_stays_below_the_optimum_fails_the_run(share: float | None) -> None:
    below = {**PLANNED, "areas": {SLOWEST: {**AREA, "share": share}}}
    rows = {"incremental": below, "blocking": {**PLANNED, "all": 120.0}}
    assert failing(rows) == [f"incremental: area to {SLOWEST} / the optimum's"]
