"""What a specification may say of its guarantee."""

from __future__ import annotations

from typing import Any

import pytest

from domain.topology import TopologyError, load_topology
from spark_jobs.operators.catalogue import catalogue


def problems(operator: dict[str, Any] | None = None, **fields: Any) -> list[str]:
    window = {
        "name": "W",
        "kind": "tumbling_window",
        "params": {"size_s": 5},
        "inputs": [{"from": "S"}],
        "output": True,
    }
    source = {"name": "S", "kind": "source", "params": {"path": "x.parquet"}}
    try:
        load_topology(
            {"name": "t", "operators": [source, {**window, **(operator or {})}], **fields}, catalogue
        )
    except TopologyError as error:
        return [str(problem) for problem in error.problems]
    return []


def test_exact_is_the_default_and_bounded_may_be_chosen() -> None:
    assert problems() == []
    assert problems(guarantee="bounded") == []
    assert problems({"every": "500 events"}, guarantee="bounded", key_saving={"every": "5s"}) == []


def test_unknown_guarantees_are_refused() -> None:
    (problem,) = problems(guarantee="at most once")
    assert problem.startswith("guarantee: ")


@pytest.mark.parametrize("given", [{"operator": {"every": "5s"}}, {"key_saving": {"failures": 3}}])
def test_what_only_a_bounded_guarantee_uses_is_refused_without_it(given: dict[str, Any]) -> None:
    (problem,) = problems(**given)
    assert "no effect where the guarantee is exact" in problem


def test_only_operators_with_state_say_how_often_it_is_stored() -> None:
    stateless = {"kind": "union", "params": {}, "every": "5s"}
    assert problems(stateless, guarantee="bounded") == [
        "operators[1].every: has no effect: 'W' (union) keeps no state"
    ]
    (problem,) = problems({**stateless, "kind": "magic"}, guarantee="bounded")
    assert problem.startswith("operators[1].kind")


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"operator": {"every": "often"}}, "operators[1].every"),
        ({"key_saving": {"every": "0s"}}, "key_saving.every"),
        ({"key_saving": {"store_threads": 0}}, "key_saving.store_threads"),
        ({"key_saving": {"bypass_s": 0}}, "key_saving.bypass_s"),
        ({"key_saving": {"threads": 3}}, "key_saving"),
        ({"checkpoint_mode": "synchronous"}, "checkpoint_mode"),
    ],
)
def test_bad_values_are_told_with_their_place(given: dict[str, Any], path: str) -> None:
    (problem,) = problems(guarantee="bounded", **given)
    assert problem.startswith(path)


def test_feedback_streams_need_an_exact_guarantee() -> None:
    inputs = [{"from": "S"}, {"from": "C", "feedback": True}]
    source = {"name": "S", "kind": "source", "params": {"path": "x.parquet"}}
    cycle = {"name": "C", "kind": "components", "inputs": inputs, "output": True}
    with pytest.raises(TopologyError, match="a feedback stream needs `guarantee: exact`"):
        load_topology({"name": "t", "guarantee": "bounded", "operators": [source, cycle]}, catalogue)
