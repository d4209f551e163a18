"""What the scarcity benchmark demands of its runs."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from benchmarks import scarcity
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


@pytest.fixture(autouse=True)
def scarce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scarcity, "SCARCE", True)


def failing(rows: dict[str, dict[str, Any]]) -> list[str]:
    return [criterion.name for criterion in criteria(rows) if not criterion.holds]


def test_good_runs_meet_all_criteria() -> None:
    rows = {"incremental": GOOD, "blocking": {**GOOD, "all": 120.0}, "Flink": GOOD}
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
