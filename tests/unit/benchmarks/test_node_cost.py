"""What the benchmark of what nodes take by themselves counts and demands."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.node_cost import KINDS, NODES, cores_by_kind, report_of


def row(rate: int, cores: float, *, epochs: int = 60, nodes: int = NODES, unseen: str = "") -> dict[str, Any]:
    kinds = {kind: 0.0 if kind == unseen else cores / len(KINDS) for kind in KINDS.values()}
    return {"rate": rate, "kinds": kinds, "cores": cores, "epochs": epochs, "seconds": 60.0, "nodes": nodes}


def failing(*found: dict[str, Any]) -> list[str]:
    return [criterion.name for criterion in report_of(list(found)).criteria if not criterion.holds]


def test_cores_are_of_the_time_between() -> None:
    before = {("agents", "1"): 2.0, ("executors", "2"): 5.0}
    after = {("agents", "1"): 8.0, ("executors", "2"): 5.0, ("executors", "3"): 3.0}
    found = cores_by_kind(before, after, 60.0)
    assert found == {"agents": pytest.approx(0.1), "executors": 0.05, "Python workers": 0}


def test_less_than_half_of_what_a_load_takes() -> None:
    assert failing(row(100, 0.3), row(120_000, 0.7)) == []
    assert failing(row(100, 0.4), row(120_000, 0.7)) == ["cores at 100 tuples/s / at 120,000"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"epochs": 3}, "epochs of which CPU was counted, least"),
        ({"nodes": NODES - 1}, "nodes alive, least"),
        ({"unseen": "agents"}, "kinds of processes seen, least"),
    ],
)
def test_what_was_not_measured_is_told(wrong: dict[str, Any], told: str) -> None:
    assert failing(row(100, 0.3), row(120_000, 0.7, **wrong)) == [told]
