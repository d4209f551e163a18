"""States of single keys: taken out of the state of an operator, stored, fetched and put together, they are
what they were."""

from __future__ import annotations

import random
from typing import Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.operators.base import EpochContext
from spark_jobs.operators.keyed_operator import KeyedOperator
from spark_jobs.state.chunks import Chunk, TableState
from spark_jobs.state.key_states import KeySet, decoded, encoded, key_texts, taken
from spark_jobs.state.sealed import DamagedError
from spark_jobs.state.tables import StateTables
from tests.examples import examples
from tests.unit.spark_jobs.executor.test_division import EPOCHS, KINDS, Parallel, Rows, made, settled

KEYS: Final = 61
"""The keys of the kinds are k0 to k60."""


def keyed(kind: str) -> KeyedOperator:
    """As it is where rows of all inputs are spread by `key`."""
    name, params, inputs, _ = KINDS[kind]
    found = object.__new__(KeyedOperator)
    found.operator, found.columns, found.kind = made(name, params, inputs), dict.fromkeys(inputs, "key"), name
    return found


def apart(kind: str, state: StateTables, dice: random.Random) -> StateTables:
    """The same state, put together from what was taken out of it for some keys at a time, and taken out of
    that again."""
    operator = keyed(kind)
    names = [f"k{number}" for number in range(KEYS)]
    dice.shuffle(names)
    cuts = sorted(dice.sample(range(KEYS), 3))
    groups = [names[low:high] for low, high in zip([0, *cuts], [*cuts, KEYS], strict=True)]
    states = []
    for group in groups:
        mine = operator.take(state, pa.array(group, pa.string()))
        mine = decoded(encoded(mine), "here")
        part = pa.array(group[: len(group) // 2], pa.string())
        rest = pa.array(group[len(group) // 2 :], pa.string())
        states += [operator.take(mine, keys) for keys in (part, rest)]
    return settled(operator.join(states))


def course(kind: str, seed: int, at: set[int]) -> Rows:
    """The rows of a run whose state is taken apart and put together before some epochs."""
    dice, cuts = random.Random(seed), random.Random(seed + 1)
    parallel = Parallel(kind, 1)
    found: Rows = []
    for number in range(EPOCHS):
        if number in at:
            parallel = Parallel(kind, 1, [apart(kind, parallel.states[0], cuts)])
        found += parallel.epoch(number, {name: parallel.rows(dice, number) for name in parallel.inputs})
    return sorted(found, key=repr)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 2**32), at=st.sets(st.integers(1, EPOCHS - 1), min_size=1, max_size=4))
def test_the_rows_are_those_of_a_state_that_stayed_whole(kind: str, seed: int, at: set[int]) -> None:
    assert course(kind, seed, at) == course(kind, seed, set())


def windows_with(**values: int) -> StateTables:
    state = StateTables(dict(values), {}, {})
    panes = pa.table(
        {
            "pane": pa.array([0, 2_000_000, 8_000_000], pa.int64()),
            "key": pa.array(["a", "b", "a"], pa.string()),
            "count": pa.array([1, 2, 3], pa.int64()),
        }
    )
    for at in range(3):
        pane = panes.slice(at, 1)
        low = pane.column("pane")[0].as_py()
        state.table("panes").append(pane, {"low": low, "high": low})
    return state


def test_a_window_that_was_closed_meanwhile_does_not_close_again() -> None:
    """Its partition was lost at 9 s, and goes on at 20 s."""
    window = made("sliding_window", {"size_s": 4, "slide_s": 2}, ["A"])
    saved = windows_with(next_end=10_000_000, passed=9_000_000, last_pane=8_000_000)
    state = StateTables({}, {}, {})
    window.restore(EpochContext(21, 21_000_000, 20_000_000), state, saved)
    out = window.process(EpochContext(21, 21_000_000, 20_000_000), {"A": []}, state)
    assert out is None or not out.num_rows
    assert state.table("panes").chunks == []


def test_a_window_that_is_still_open_closes_with_what_was_stored() -> None:
    window = made("sliding_window", {"size_s": 4, "slide_s": 2}, ["A"])
    saved = windows_with(next_end=10_000_000, passed=9_000_000, last_pane=8_000_000)
    state = StateTables({}, {}, {})
    context = EpochContext(10, 10_000_000, 9_000_000)
    window.restore(context, state, saved)
    out = window.process(context, {"A": []}, state)
    assert out is not None
    assert out.to_pylist() == [{"window_start": 6_000_000, "window_end": 10_000_000, "key": "a", "count": 3}]


def joined(state: StateTables, epoch: int, watermark: int, left: list[int], right: list[int]) -> Rows:
    """What a join gives in an epoch, in seconds; the watermark was a second less before it."""
    operator = made("windowed_join", {"size_s": 10}, ["A", "B"])
    context = EpochContext(epoch, watermark * 1_000_000, (watermark - 1) * 1_000_000)
    sides = [
        pa.table({"ts": pa.array([at * 1_000_000 for at in times], pa.int64()), "key": ["k"] * len(times)})
        for times in (left, right)
    ]
    found = operator.process(context, {"A": [sides[0]], "B": [sides[1]]}, state)
    return [] if found is None else [tuple(row.values())[2:] for row in found.to_pylist()]


@pytest.mark.parametrize("epochs_before", [0, 1])
def test_a_join_closes_no_window_again_that_was_closed_meanwhile(epochs_before: int) -> None:
    """Its partition was lost at 12 s, and fetches the key's state in the first or a later epoch."""
    before, operator = StateTables({}, {}, {}), made("windowed_join", {"size_s": 10}, ["A", "B"])
    joined(before, 1, 5, [6, 11], [7])
    saved = operator.serialise(before, KeySet(pa.array(["k"]), lambda name: "key"))
    assert joined(before, 2, 12, [], []) == [("k", 6_000_000, 7_000_000)]
    state = StateTables({}, {}, {})
    for number in range(epochs_before):
        assert joined(state, 3 + number, 13 + number, [], []) == []
    now = 13 + epochs_before
    operator.restore(EpochContext(4, now * 1_000_000, (now - 1) * 1_000_000), state, saved)
    assert joined(state, 4, now, [], [14]) == []
    assert joined(state, 5, 20, [], []) == [("k", 11_000_000, 14_000_000)], "of what was stored, and came"


def test_maps_and_null_keys_are_taken_by_key() -> None:
    table = pa.table({"key": pa.array(["a", None, "b"], pa.string()), "n": pa.array([1, 2, 3])})
    state = StateTables({"end": 5, "__own": 1}, {"seen": {"a": 1, "b": 2}}, {})
    state.table("rows").append(table)
    state.table("__own").append(table)
    keys = pa.array(["a", key_texts(pa.chunked_array([[None]], pa.string()))[0].as_py()], pa.string())
    found = taken(state, KeySet(keys, lambda name: "key"))
    assert found.values == {"end": 5}
    assert found.maps == {"seen": {"a": 1}}
    assert list(found.tables) == ["rows"]
    assert found.table("rows").chunks[0].table.column("n").to_pylist() == [1, 2]


def test_a_state_without_keys_is_taken_whole() -> None:
    state = StateTables({"newest A": 7}, {}, {})
    state.tables["rows"] = TableState([Chunk({}, table=pa.table({"x": pa.array([1, 2])}))])
    found = taken(state, KeySet(None, str))
    assert found.values == {"newest A": 7}
    assert np.array_equal(KeySet(None, str).mask(pa.chunked_array([["q"]])), [True])
    assert found.table("rows").read() == pa.table({"x": pa.array([1, 2])})


@pytest.mark.parametrize("cut", [0, 4, 11, -1])
def test_what_is_damaged_is_told(cut: int) -> None:
    content = encoded(windows_with(passed=3))
    with pytest.raises(DamagedError, match="the piece is damaged"):
        decoded(content[:cut], "the piece")
    with pytest.raises(DamagedError, match="the piece is damaged"):
        decoded(content + b"x", "the piece")
