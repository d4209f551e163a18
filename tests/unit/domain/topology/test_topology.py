"""Specifications of users: each mistake is named with its path; valid ones give the right graph."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from domain.replication import FidelityModel, equal_rates
from domain.replication.losses import what_is_left
from domain.topology import FieldProblem, TopologyError, lines_told, load_topology, load_yaml
from domain.values import LONGEST_CYCLE
from spark_jobs.operators.catalogue import catalogue
from tests.unit.domain.topology.bombs import merge_keys


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
    (specification(epoch_interval=0), "epoch_interval", "must be more than 0, not 0"),
    (specification(colour="red"), "colour", "no such field; known: name, operators"),
    (with_operator(name="1A"), "operators[1].name", "starts with a letter"),
    (with_operator(name="S"), "operators[1].name", "already operators[0]"),
    (with_operator(kind="magic"), "operators[1].kind", "unknown operator kind 'magic'"),
    (with_operator(kind="tumbling-window"), "operators[1].kind", "did you mean tumbling_window?"),
    (with_operator(paralelism=2), "operators[1].paralelism", "did you mean parallelism?"),
    (with_operator(inputs=[{"from": "s"}]), "operators[1].inputs[0].from", "did you mean S?"),
    (specification(name="a\n"), "name", "'a\\n' is not possible"),
    (with_operator(name="A\n"), "operators[1].name", "'A\\n' is not possible"),
    (specification(name="a" * 64), "name", "64 characters are too many: a name has at most 63"),
    (with_operator(name="A" * 65), "operators[1].name", "65 characters are too many: a name has at most 64"),
    (with_operator(output="yes"), "operators[1].output", "must be true or false, not 'yes'"),
    (with_operator(priority=2.5), "operators[1].priority", "must be a whole number, not 2.5"),
    (
        with_operator(inputs=[{"from": "S", "partitioning": "one-to-one"}]),
        "operators[1].inputs[0].partitioning",
        "none of one_to_one, split, merge, full; did you mean one_to_one?",
    ),
    (specification(checkpoint_interval="1 fortnight"), "checkpoint_interval", "is no duration: write "),
    (specification(checkpoint_mode="sync"), "checkpoint_mode", "asynchronous, synchronous"),
    (specification(checkpoints_at_once=11), "checkpoints_at_once", "must be at most 10, not 11"),
    (
        specification(checkpoints_at_once=2, checkpoint_mode="synchronous"),
        "checkpoints_at_once",
        "must be 1 where",
    ),
    (specification(checkpoints_at_once=2, checkpoint_pause=1), "checkpoints_at_once", "must be 1 where"),
    (specification(epoch_interval="2d"), "epoch_interval", "must be at most 86400, not '2d'"),
    (with_operator(params={"size_s": "soon"}), "operators[1].params", "such as 30, 15m or 1h, not 'soon'"),
    (with_operator(parallelism=0), "operators[1].parallelism", "must be at least 1, not 0"),
    (with_operator(priority=11), "operators[1].priority", "must be at most 10, not 11"),
    (with_operator(output=False), "operators", "no operator has `output: true`"),
    (with_operator(inputs=[]), "operators[1].inputs", "needs at least one input"),
    (with_operator(kind="windowed_join"), "operators[1].inputs", "(windowed_join) takes 2 inputs, not 1"),
    (
        with_operator(kind="sliding_window", params={"size_s": 5, "slide_s": None}),
        "operators[1].params",
        "None",
    ),
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
        "it closes no cycle: nothing that 'A' sends reaches 'S'",
    ),
    (
        with_operator(inputs=[{"from": "A", "partitioning": "one_to_one", "feedback": True}]),
        "operators[1].inputs",
        "'A' reads feedback streams only",
    ),
    (
        with_operator(inputs=[{"from": "S"}, {"from": "A", "partitioning": "one_to_one"}]),
        "operators",
        "mark the one from A to A (operators[1].inputs[1]) with `feedback: true`",
    ),
]


# Each line expands to nine times as many values as the line before.
_BOMB = "\n".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]" for before, name in pairwise("abcdefgh")
)


@pytest.mark.parametrize(("data", "path", "message"), CASES)
def test_a_mistake_is_named_with_its_path(data: dict[str, Any], path: str, message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        load_topology(data, catalogue)
    assert any(problem.path == path and message in problem.message for problem in caught.value.problems), (
        caught.value.problems
    )


@pytest.mark.parametrize(
    ("params", "cycle"),
    [({"size_s": 5}, 5.0), ({"size_s": "1h"}, LONGEST_CYCLE), ({"size_s": 60, "slide_s": 20}, 20.0)],
)
def test_windows_end_once_in_a_cycle(params: dict[str, Any], cycle: float) -> None:
    kind = "sliding_window" if "slide_s" in params else "tumbling_window"
    topology = load_topology(with_operator(kind=kind, params=params), catalogue)
    assert topology.window_cycle == cycle
    without = load_topology(with_operator(kind="flat_map_regex", params={"pattern": "a"}), catalogue)
    assert without.window_cycle == 0.0


def test_durations_have_units() -> None:
    data = specification(epoch_interval="500ms", checkpoint_interval="1 h")
    data["operators"][1]["params"] = {"size_s": "15m"}
    spec = load_topology(data, catalogue).spec
    assert (spec.epoch_interval, spec.checkpoint_interval) == (0.5, 3600.0)
    assert spec.operators[1].params == {"size_s": 900}


TEXT = """\
name: demo
operators:
  - name: S
    kind: source
    params: {path: x.csv}
  - name: A
    kind: tumbling-window
    inputs:
      - from: S
      - partitioning: full
    priority: 11
    output: true
"""


def test_a_mistake_in_a_text_has_its_line() -> None:
    with pytest.raises(TopologyError) as caught:
        load_topology(load_yaml(TEXT), catalogue)
    found = {problem.path: problem.line for problem in lines_told(TEXT, caught.value.problems)}
    assert found == {
        "operators[1].kind": 7,
        "operators[1].inputs[1].from": 10,  # what is missing has the line of what misses it
        "operators[1].priority": 11,
    }


@pytest.mark.parametrize("text", ["a: [", "[" * 500, "1", ""])
def test_a_text_that_cannot_be_read_has_no_lines(text: str) -> None:
    problems = [FieldProblem("line 1, column 5", "not YAML")]
    assert lines_told(text, problems) == problems


def test_all_mistakes_come_at_once() -> None:
    data = with_operator(kind="magic", inputs=[{"from": "X"}])
    with pytest.raises(TopologyError) as caught:
        load_topology(data, catalogue)
    assert {problem.path for problem in caught.value.problems} == {
        "operators[1].kind",
        "operators[1].inputs[0].from",
    }


def test_mistakes_of_shape_and_of_meaning_come_together_and_nothing_follows_from_them() -> None:
    data = specification(epoch_interval="soon", colour="red")
    data["operators"] += [
        {"name": "B", "kind": "magic", "inputs": [{"from": "S", "partitioning": "sideways"}, "A"]},
        {"kind": "union", "parallelism": "two", "inputs": {"from": "S"}},
        "an operator",
        {"name": "9", "kind": "union", "parallelism": 0, "inputs": [{"from": "S", "partitioning": "split"}]},
        {"name": "C", "kind": "union", "output": "yes", "inputs": [{"from": "Missing"}, {"key": "x"}]},
        {"name": "D", "kind": "union", "priority": None, "inputs": [{"from": "9", "colour": 1}]},
    ]
    with pytest.raises(TopologyError) as caught:
        load_topology(data, catalogue)
    assert {problem.path for problem in caught.value.problems} == {
        "epoch_interval",
        "colour",
        "operators[2].kind",
        "operators[2].inputs[0].partitioning",
        "operators[2].inputs[1]",
        "operators[3].name",
        "operators[3].parallelism",
        "operators[3].inputs",
        "operators[4]",
        "operators[5].name",
        "operators[5].parallelism",
        "operators[6].output",
        "operators[6].inputs[0].from",
        "operators[6].inputs[1].from",
        "operators[7].priority",
        "operators[7].inputs[0].colour",
    }


@pytest.mark.parametrize(
    "data", [{}, {"operators": None}, {"name": [], "operators": "S"}, {"operators": [1]}]
)
def test_what_is_hardly_a_specification_is_still_explained(data: dict[str, Any]) -> None:
    with pytest.raises(TopologyError) as caught:
        load_topology(data, catalogue)
    paths = [problem.path for problem in caught.value.problems]
    assert "name" in paths
    assert any(path.startswith("operators") for path in paths)


def test_a_long_chain_is_no_problem() -> None:
    data = specification()
    for index in range(3000):
        before = f"U{index - 1}" if index else "A"
        data["operators"].append({"name": f"U{index}", "kind": "union", "inputs": [{"from": before}]})
    assert load_topology(data, catalogue).levels["U2999"] == 3001


@pytest.mark.parametrize(("width", "what"), [(10_000, "partitions in all"), (4_000, "channels between")])
def test_a_graph_nothing_could_hold_is_refused(width: int, what: str) -> None:
    data = specification()
    data["operators"] += [
        {"name": f"U{index}", "kind": "union", "parallelism": width, "inputs": [{"from": "A"}]}
        for index in range(20 if width == 10_000 else 1)
    ]
    data["operators"][-1]["inputs"].append({"from": "S"})
    if width < 10_000:
        data["operators"][0]["parallelism"] = data["operators"][1]["parallelism"] = width
    with pytest.raises(TopologyError, match=what):
        load_topology(data, catalogue)


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ("name: 2026-99-99", "", "not YAML"),
        ("name: a\nwhen: 2026-01-01", "when", "quote it"),
        ("name: a\n1: b", "", "key 1 is not a text"),
        ("name: a\noperators:\n- params: {x: .nan}", "operators[0].params.x", "no number"),
        ('name: a\ndescription: "\\0"', "description", "characters that no text can have"),
        ('name: "\\ud800"', "line 1, column 10", "invalid Unicode character"),
        ("name: a\nx: !!binary aGk=", "x", "not plain data"),
        ("a: &a [x, x, x, x, x, x, x, x, x]\n" + _BOMB, "", "more than 200000 values"),
        ("a: &a {b: *a}", "line 1, column 11", "the alias *a is part of what it names"),
        (merge_keys(6, 8), "", "more than 200000 values, aliases and merge keys included"),
        ("a: 1" + ":1" * 100, "line 1, column 4", "a number of more than 100 characters"),
        ('a: !!int "' + "1:" * 100 + '1"', "line 1, column 4", "a number of more than 100 characters"),
        ("a: 0x" + "f" * 90, "a", "beyond 64 bits"),
        ('a: {"b\\0": 1}', "a", "characters that no text can have"),
        ("name: !!bool maybe", "", "does not fit its tag"),
        ("name: !!int ''", "", "does not fit its tag"),
        ("name: !!timestamp soon", "", "does not fit its tag"),
        ("x: " + "[" * 50_000, "line 1, column 103", "nested more than 100 levels"),
        (
            "%TAG !a! a\n%TAG !b! b\r%TAG !c! c\u2028" * 4 + "---\na: 1",
            "",
            "more than 10 lines that begin with %",
        ),
        ("x" * 1_000_001, "", "at most 1000000 are read"),
    ],
)
def test_texts_that_are_no_plain_data_are_refused(text: str, path: str, message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        load_yaml(text)
    problem = caught.value.problems[0]
    assert problem.path == path or not message
    assert message in problem.message


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
    stream = {"from": "S", "partitioning": partitioning, "key": "text"}
    data = with_operator(parallelism=target, inputs=[stream])
    data["operators"][0]["parallelism"] = source
    topology = load_topology(data, catalogue)
    operator = topology.by_name["A"]
    found = {i: list(topology.targets(operator.inputs[0], operator, i)) for i in range(source)}
    assert found == expected


@pytest.mark.parametrize(
    ("given", "doubt", "repeatable"),
    [
        ({}, "", True),
        ({"deterministic": False}, "", False),
        ({"doubt": "made up"}, "", True),
        ({"kind": "sql", "params": {"query": "SELECT random() FROM input"}}, "random()", False),
        (
            {"kind": "sql", "params": {"query": "SELECT random() FROM input"}, "deterministic": True},
            "random()",
            True,
        ),
        ({"kind": "sql", "params": {"query": "SELECT 1 FROM input"}}, "", True),
        (
            {"kind": "map", "params": {"function": "spark_jobs.operators.columns.concatenated"}},
            "it runs Python code",
            False,
        ),
    ],
)
def test_who_says_nothing_gets_what_is_known(given: dict[str, Any], doubt: str, repeatable: bool) -> None:
    """A topology is deterministic by its author's word, else if nothing speaks against it."""
    topology = load_topology(with_operator(**given), catalogue)
    assert topology.deterministic is repeatable
    assert topology.by_name["A"].doubt.startswith(doubt)
    assert bool(topology.by_name["A"].doubt) is bool(doubt)
    assert topology.by_name["A"].deterministic is given.get("deterministic")
    assert load_topology(topology.to_data(), catalogue).deterministic is repeatable


@pytest.mark.parametrize(
    ("kind", "given", "joins"),
    [
        ("windowed_join", {"params": {"size_s": 10, "column": "text"}}, True),
        ("windowed_join", {"params": {"size_s": 10, "column": "text"}, "correlated": False}, True),
        ("union", {}, False),
        ("union", {"correlated": True}, True),
    ],
)
def test_a_join_is_correlated_whether_or_not_that_is_said(
    kind: str, given: dict[str, Any], joins: bool
) -> None:
    """Else replicas and tentative output would be planned as if one input were enough."""
    inputs = [{"from": name, "key": "text"} for name in ("S", "T")]
    data = with_operator(kind=kind, inputs=inputs, **{"params": {}, **given})
    data["operators"].append({**data["operators"][0], "name": "T"})
    topology = load_topology(data, catalogue)
    assert topology.by_name["A"].correlated is joins
    model = FidelityModel(topology, equal_rates(topology))
    left = what_is_left(model, [one for one in topology.partitions if not one.startswith("T")])
    assert {one.outcome for one in left.queries} == {"stops" if joins else "lacks_input"}


SPREAD = [
    (
        {"inputs": [{"from": "S"}]},
        "have no column 'key' to be spread by over the 2 partitions of 'A'",
    ),
    ({"inputs": [{"from": "S", "key": "user"}]}, "only ts, text; name one of these, or another partitioning"),
    (
        {"inputs": [{"from": "S", "partitioning": "split"}], "parallelism": 4},
        "another partitioning than split",
    ),
]


@pytest.mark.parametrize(("changes", "message"), SPREAD)
def test_rows_are_spread_by_a_column_that_they_have(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        load_topology(with_operator(**changes), catalogue)
    (problem,) = caught.value.problems
    assert problem.path == "operators[1].inputs[0].key"
    assert message in problem.message


@pytest.mark.parametrize(
    "changes",
    [
        {"inputs": [{"from": "S", "key": "text"}]},
        {"inputs": [{"from": "S"}], "parallelism": 1},
        {"inputs": [{"from": "S", "partitioning": "split"}]},
    ],
)
def test_other_streams_are_no_problem(changes: dict[str, Any]) -> None:
    assert load_topology(with_operator(**changes), catalogue)


def test_what_code_gives_may_have_any_column() -> None:
    data = with_operator(inputs=[{"from": "Q", "key": "user"}])
    data["operators"].append(
        {"name": "Q", "kind": "sql", "inputs": [{"from": "S"}], "params": {"query": "SELECT 1 AS user"}}
    )
    assert load_topology(data, catalogue)
