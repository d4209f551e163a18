"""Specifications from outside: each mistake is named with its path; good ones give the right graph."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.domain.topology import TopologyError, load_topology, load_yaml
from spark_jobs.operators.catalogue import catalogue


def specification(**changes: Any) -> dict[str, Any]:
    return {
        "name": "demo",
        "operators": [
            {"name": "S", "kind": "source", "parallelism": 2, "params": {"path": "x.csv"}},
            {
                "name": "A",
                "kind": "tumbling_window",
                "parallelism": 2,
                "inputs": [{"from": "S", "partitioning": "one_to_one"}],
                "params": {"size_s": 5},
                "output": True,
            },
        ],
        **changes,
    }


def with_operator(**changes: Any) -> dict[str, Any]:
    data = specification()
    data["operators"][1] |= changes
    return data


CASES: list[tuple[dict[str, Any], str, str]] = [
    (specification(name="Demo!"), "name", "small letter"),
    (specification(operators=[]), "operators", "at least one operator"),
    (specification(epoch_interval=0), "epoch_interval", "> 0.0"),
    (specification(colour="red"), "", "unknown field `colour`"),
    (with_operator(name="1A"), "operators[1].name", "starts with a letter"),
    (with_operator(name="S"), "operators[1].name", "already operators[0]"),
    (with_operator(kind="magic"), "operators[1].kind", "unknown operator kind 'magic'"),
    (with_operator(parallelism=0), "operators[1].parallelism", ">= 1"),
    (with_operator(priority=11), "operators[1].priority", "<= 10"),
    (with_operator(output=False), "operators", "no operator has `output: true`"),
    (with_operator(inputs=[]), "operators[1].inputs", "needs at least one input"),
    (with_operator(inputs=[{"from": "X"}]), "operators[1].inputs[0].from", "no operator 'X'"),
    (with_operator(parallelism=3), "operators[1].inputs[0].partitioning", "same parallelism"),
    (with_operator(inputs=[{"from": "S"}, {"from": "S"}]), "operators[1].inputs[1].from", "twice"),
    (
        with_operator(inputs=[{"from": "S"}, {"from": "A", "partitioning": "one_to_one"}]),
        "operators",
        "cycle without a `feedback` stream: A -> A",
    ),
    (with_operator(params={"size_s": -1}), "operators[1].params", "size_s"),
    (
        with_operator(inputs=[{"from": "S", "feedback": True}]),
        "operators[1].inputs[0].feedback",
        "not run by this version",
    ),
]


@pytest.mark.parametrize(("data", "path", "message"), CASES)
def test_a_mistake_is_named_with_its_path(data: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        load_topology(data, catalogue)
    assert any(problem.path == path and message in problem.message for problem in caught.value.problems), (
        caught.value.problems
    )


def test_all_mistakes_come_at_once() -> None:
    data = with_operator(kind="magic", inputs=[{"from": "X"}])
    with pytest.raises(TopologyError) as caught:
        load_topology(data, catalogue)
    assert {problem.path for problem in caught.value.problems} == {
        "operators[1].kind",
        "operators[1].inputs[0].from",
    }


@pytest.mark.parametrize("text", ["a: [1", "- just\n- a list", "name: &x"])
def test_what_is_no_mapping_is_refused(text: str) -> None:
    with pytest.raises(TopologyError):
        load_topology(load_yaml(text), catalogue)


def test_queries_are_output_partitions_with_everything_upstream() -> None:
    topology = load_topology(specification(), catalogue)
    assert topology.partitions == ["S[0]", "S[1]", "A[0]", "A[1]"]
    assert topology.query_partitions == {"A[0]": {"A[0]", "S[0]"}, "A[1]": {"A[1]", "S[1]"}}
    assert topology.sharing["S[0]"] == {"A[0]"}
    assert topology.failed_queries(["S[1]"]) == ["A[1]"]


@pytest.mark.parametrize(
    ("partitioning", "source", "target", "expected"),
    [
        ("full", 2, 3, {0: [0, 1, 2], 1: [0, 1, 2]}),
        ("split", 2, 4, {0: [0, 1], 1: [2, 3]}),
        ("merge", 4, 2, {0: [0], 1: [0], 2: [1], 3: [1]}),
        ("one_to_one", 2, 2, {0: [0], 1: [1]}),
    ],
)
def test_partitionings(partitioning: str, source: int, target: int, expected: dict[int, list[int]]) -> None:
    data = with_operator(parallelism=target, inputs=[{"from": "S", "partitioning": partitioning}])
    data["operators"][0]["parallelism"] = source
    topology = load_topology(data, catalogue)
    operator = topology.by_name["A"]
    found = {i: list(topology.targets(operator.inputs[0], operator, i)) for i in range(source)}
    assert found == expected
