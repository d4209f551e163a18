"""Which versions of a topology can go on from a checkpoint of another one, and with what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec import structs

from domain.topology import Topology
from domain.topology.continuation import EVERY_COLUMN, KEYLESS, continuation
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec


class Kinds:
    """`window` has state that depends on `size`, by `key`; `top` some that depends on nothing, and is of no
    key; `pairs` keeps rows of each input, `own` something that cannot be divided. Others keep none, and
    `filter` leaves rows as they are."""

    def state_params(self, kind: str, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if kind == "window":
            return {"size": params.get("size")}
        return {} if kind in ("top", "pairs", "own") else None

    def state_columns(self, kind: str, params: Mapping[str, Any]) -> Sequence[str]:
        return {"window": ("key",), "top": (KEYLESS,), "pairs": (EVERY_COLUMN,)}.get(kind, ())

    def state_by_input(self, kind: str) -> bool:
        return kind == "pairs"

    def carries(self, kind: str, params: Mapping[str, Any], column: str) -> str:
        if kind == "window":
            return "key" if column == "key" else ""
        return column if kind == "filter" else ""


def operator(name: str, kind: str, inputs: str = "", **fields: Any) -> OperatorSpec:
    streams = tuple(InputSpec(source=source) for source in inputs.split())
    return OperatorSpec(name=name, kind=kind, inputs=streams, **{"deterministic": True, **fields})


FIRST = (
    operator("S", "source", params={"rate": 10, "origin": "2026-01-01T00:00:00+00:00"}, parallelism=2),
    operator("F", "filter", "S", params={"value": 1}, parallelism=2),
    operator("W", "window", "F", params={"size": 10}, parallelism=2),
    operator("T", "top", "W", params={"k": 5}, output=True),
    operator("U", "filter", "F", output=True),
)


def topology(operators: tuple[OperatorSpec, ...] = FIRST, **fields: Any) -> Topology:
    return Topology(TopologySpec(name="t", operators=operators, **fields))


def changed(name: str, **fields: Any) -> Topology:
    return topology(tuple(structs.replace(o, **fields) if o.name == name else o for o in FIRST))


def without(name: str) -> Topology:
    return topology(tuple(o for o in FIRST if o.name != name))


def test_the_same_goes_on_with_everything() -> None:
    found = continuation(topology(), topology(), Kinds())
    assert (found.problems, found.added, found.removed, found.changed) == ((), (), (), ())
    assert found.same_rows


@pytest.mark.parametrize(
    "fields",
    [
        {"description": "other words"},
        {"checkpoint_interval": 60.0},
        {"checkpoint_mode": "synchronous"},
        {"max_epoch_tuples": 7},
        {"catch_up_epochs": 2},
    ],
)
def test_what_says_how_and_not_what_changes_no_rows(fields: dict[str, Any]) -> None:
    assert continuation(topology(), topology(**fields), Kinds()).same_rows
    priorities = changed("T", priority=9, cpu_request=0.5, description="first")
    assert continuation(topology(), priorities, Kinds()).same_rows


def test_an_operator_that_is_new_begins_without_state() -> None:
    after = topology((*FIRST, operator("V", "window", "F", params={"size": 60}, parallelism=2, output=True)))
    found = continuation(topology(), after, Kinds())
    assert (found.problems, found.added, found.removed) == ((), ("V[0]", "V[1]"), ())
    assert found.changed == ("V",)


def test_what_is_gone_takes_its_state_along() -> None:
    found = continuation(topology(), without("T"), Kinds())
    assert (found.problems, found.added, found.removed, found.changed) == ((), (), ("T[0]",), ())
    assert found.same_rows


def test_what_keeps_nothing_may_be_another_one_and_changes_what_is_below() -> None:
    other = continuation(topology(), changed("F", params={"value": 2}), Kinds())
    assert (other.problems, other.changed) == ((), ("F", "W", "U", "T"))
    wider = continuation(topology(), changed("F", parallelism=3), Kinds())
    assert (wider.problems, wider.added, wider.changed) == ((), ("F[2]",), ("F", "W", "U", "T"))
    narrower = continuation(topology(), changed("F", parallelism=1), Kinds())
    assert (narrower.problems, narrower.removed) == ((), ("F[1]",))


def test_parameters_that_the_state_does_not_depend_on_may_be_others() -> None:
    found = continuation(topology(), changed("T", params={"k": 50}), Kinds())
    assert (found.problems, found.changed) == ((), ("T",))


@pytest.mark.parametrize(
    ("fields", "path", "words"),
    [
        ({"params": {"size": 20}}, "operators[2].params", "its params were other ones"),
        ({"kind": "top"}, "operators[2].kind", "it is that of a window, not of a top"),
        ({"inputs": (InputSpec(source="S"),)}, "operators[2].inputs", "its inputs were other ones"),
        (
            {"inputs": (InputSpec(source="F", key="word"),)},
            "operators[2].inputs",
            "in other partitions, and its rows are spread by 'word', which its state does not have",
        ),
    ],
)
def test_state_that_does_not_fit_is_named(fields: dict[str, Any], path: str, words: str) -> None:
    (problem,) = continuation(topology(), changed("W", **fields), Kinds()).problems
    assert problem.path == path
    assert "the state of operator 'W' does not fit" in problem.message
    assert words in problem.message
    assert "Give it another name" in problem.message


def test_an_operator_under_another_name_begins_anew() -> None:
    operators = tuple(
        structs.replace(o, name="W2", params={"size": 20}) if o.name == "W" else o for o in FIRST
    )
    renamed = tuple(
        structs.replace(o, name="T2", inputs=(InputSpec(source="W2"),)) if o.name == "T" else o
        for o in operators
    )
    found = continuation(topology(), topology(renamed), Kinds())
    assert found.problems == ()
    assert set(found.added) == {"W2[0]", "W2[1]", "T2[0]"}
    assert set(found.removed) == {"W[0]", "W[1]", "T[0]"}


@pytest.mark.parametrize(
    ("after", "path"),
    [
        (changed("S", params={"rate": 20, "origin": "2026-01-01T00:00:00+00:00"}), "operators[0].params"),
        (changed("S", parallelism=4), "operators[0].parallelism"),
        (topology((*FIRST, operator("R", "source"))), "operators[5]"),
        (topology(epoch_interval=2.0), "epoch_interval"),
        (changed("U", deterministic=False), "operators"),
    ],
)
def test_epochs_that_would_mean_another_input_are_refused(after: Topology, path: str) -> None:
    problems = continuation(topology(), after, Kinds()).problems
    assert [problem.path for problem in problems] == [path]
    assert "first tuple" in problems[0].message


def test_a_source_that_is_missing_is_refused() -> None:
    two = topology((*FIRST, operator("R", "source"), operator("Q", "filter", "R", output=True)))
    problems = continuation(two, topology(), Kinds()).problems
    assert [problem.path for problem in problems] == ["operators"]
    assert "'R'" in problems[0].message


def test_output_that_begins_later_is_no_output_of_all_epochs() -> None:
    assert continuation(topology(), changed("W", output=True), Kinds()).changed == ("W", "T")


def test_what_is_in_transit_on_a_feedback_stream_is_state() -> None:
    back = InputSpec(source="U", feedback=True)
    cyclic = changed("F", inputs=(InputSpec(source="S"), back))
    begun = continuation(topology(), cyclic, Kinds())
    assert [problem.path for problem in begun.problems] == ["operators[4].name"]
    ended = continuation(cyclic, topology(), Kinds())
    assert [problem.path for problem in ended.problems] == ["operators[4].name"]
    same = continuation(cyclic, cyclic, Kinds())
    assert (same.problems, same.changed) == ((), ())


def test_what_is_in_transit_goes_to_other_partitions_if_any_may_send_it() -> None:
    back = InputSpec(source="U", feedback=True)
    cyclic = changed("F", inputs=(InputSpec(source="S"), back))

    def wider(stream: InputSpec) -> Topology:
        fields: dict[str, dict[str, Any]] = {
            "F": {"inputs": (InputSpec(source="S"), stream)},
            "U": {"parallelism": 2},
        }
        return topology(tuple(structs.replace(o, **fields.get(o.name, {})) for o in cyclic.spec.operators))

    found = continuation(cyclic, wider(back), Kinds())
    assert (found.problems, found.divided, found.added) == ((), ("U",), ())
    fixed = structs.replace(back, partitioning="one_to_one")
    (problem,) = continuation(cyclic, wider(fixed), Kinds()).problems
    assert problem.path == "operators[4].parallelism"
    assert "what is in transit on its feedback stream is not sent by key" in problem.message


@pytest.mark.parametrize("parallelism", [1, 3, 4])
def test_state_by_key_is_divided_among_other_partitions(parallelism: int) -> None:
    found = continuation(topology(), changed("W", parallelism=parallelism), Kinds())
    assert (found.problems, found.added, found.removed) == ((), (), ())
    assert (found.divided, found.changed) == (("W",), ("W", "T"))


def after_window(*streams: InputSpec, parallelism: int, **fields: Any) -> tuple[OperatorSpec, ...]:
    """The first operators, where T has these inputs."""
    kind = fields.pop("kind", "window")
    last = OperatorSpec(
        name="T",
        kind=kind,
        inputs=streams,
        parallelism=parallelism,
        output=True,
        deterministic=True,
        **fields,
    )
    return tuple(last if o.name == "T" else o for o in FIRST)


def widened(operators: tuple[OperatorSpec, ...], parallelism: int, *names: str) -> Topology:
    return topology(
        tuple(structs.replace(o, parallelism=parallelism) if o.name in names else o for o in operators)
    )


def test_the_key_is_followed_through_what_leaves_it_where_it_is() -> None:
    chain = after_window(InputSpec(source="W", partitioning="one_to_one"), parallelism=2)
    found = continuation(topology(chain), widened(chain, 4, "W", "T"), Kinds())
    assert (found.problems, found.divided) == ((), ("W", "T"))
    merged = after_window(InputSpec(source="W", partitioning="merge"), parallelism=2)
    found = continuation(widened(merged, 4, "W"), widened(merged, 6, "W"), Kinds())
    assert (found.problems, found.divided) == ((), ("W", "T")), "T has as many partitions, of other keys"


def test_what_no_key_says_is_not_divided() -> None:
    """Rows of a source, and of code, are in its partitions for no reason that a row tells."""
    by_slice = after_window(InputSpec(source="F", partitioning="merge"), parallelism=1)
    assert continuation(topology(by_slice), topology(by_slice), Kinds()).problems == ()
    chained = tuple(
        structs.replace(o, inputs=(InputSpec(source="S", partitioning="one_to_one"),)) if o.name == "F" else o
        for o in by_slice
    )
    (problem,) = continuation(topology(chained), widened(chained, 2, "T"), Kinds()).problems
    assert problem.path == "operators[3].parallelism"
    assert "not of 2, and its rows are spread by no key" in problem.message
    own = after_window(InputSpec(source="F"), parallelism=2, kind="own")
    (problem,) = continuation(topology(own), widened(own, 3, "T"), Kinds()).problems
    assert "a own does not say how its state is divided by key" in problem.message
    newest = after_window(InputSpec(source="F", partitioning="one_to_one"), parallelism=2, kind="top")
    assert continuation(topology(newest), widened(newest, 2, "T"), Kinds()).divided == ()
    merged = after_window(InputSpec(source="F", partitioning="merge"), parallelism=1, kind="top")
    assert continuation(topology(merged), widened(merged, 2, "T"), Kinds()).divided == ("T",)


def test_inputs_may_be_spread_in_different_ways_where_each_has_its_own_state() -> None:
    both = (InputSpec(source="F", key="key"), InputSpec(source="W", key="to"))
    joined = after_window(*both, parallelism=2, kind="pairs")
    assert continuation(topology(joined), widened(joined, 3, "T"), Kinds()).divided == ("T",)
    alike = (InputSpec(source="F"), InputSpec(source="W", partitioning="one_to_one"))
    counted = after_window(*alike, parallelism=2)
    assert continuation(topology(counted), widened(counted, 3, "T", "W"), Kinds()).divided == ("W", "T")
    halves = (InputSpec(source="F"), InputSpec(source="W", partitioning="merge"))
    mixed = after_window(*halves, parallelism=2)
    (problem,) = continuation(widened(mixed, 4, "W"), widened(mixed, 6, "W"), Kinds()).problems
    assert problem.path == "operators[3].inputs"
    assert "its inputs are spread in different ways" in problem.message


def test_a_state_that_stays_is_not_divided_because_what_is_before_it_changed() -> None:
    """A hash of the key says where a row is, whatever sends it."""
    found = continuation(topology(), changed("F", kind="code", parallelism=5), Kinds())
    assert (found.problems, found.divided) == ((), ())
