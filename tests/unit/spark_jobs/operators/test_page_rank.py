"""`page_rank` by itself: however its keys are divided among partitions, and the input into epochs, the ranks
are the same."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.verification.graph_operators import page_ranks
from domain.execution.job import NO_WATERMARK
from domain.topology.routing import SINGLE, Routing
from spark_jobs.executor.division import Share, alike
from spark_jobs.executor.exchange import key_buckets
from spark_jobs.operators.base import EpochContext
from spark_jobs.operators.catalogue import catalogue
from spark_jobs.state.late import left_out
from spark_jobs.state.tables import StateTables
from tests.examples import examples
from tests.unit.spark_jobs.executor.test_division import settled

SECOND = 1_000_000
PARAMS: dict[str, Any] = {"size_s": 4, "rounds": 3}
INPUTS = ("Steps", "Shares")
Step = tuple[int, str, str]


def steps_of(dice: random.Random, seconds: int) -> list[Step]:
    """Many of them at the very end of a window."""
    names = [f"n{number}" for number in range(7)]
    times = (moment(dice, seconds) for _ in range(seconds * 3))
    return sorted((at, dice.choice(names), dice.choice(names)) for at in times)


def moment(dice: random.Random, seconds: int) -> int:
    return dice.choice([dice.randrange(seconds * SECOND), dice.randrange(seconds) * SECOND])


def table_of(steps: list[Step]) -> pa.Table:
    columns = list(zip(*steps, strict=True)) or [(), (), ()]
    types = (pa.int64(), pa.string(), pa.string())
    return pa.table(
        [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)],
        names=["ts", "key", "to"],
    )


class Cycle:
    """Some partitions of `page_rank`, whose rows come back in the next epoch, and `ranks` behind them."""

    def __init__(self, count: int, params: Mapping[str, Any] = PARAMS, mark: int = 0) -> None:
        self.count, self.params, self.mark, self.number = count, params, mark, 0
        self.states = [StateTables({}, {}, {}) for _ in range(count)]
        self.sent: list[pa.Table] = []
        self.found: list[tuple[int, str, int]] = []

    def divided(self, count: int) -> None:
        earlier, later = (Routing((n,), "key") if n > 1 else SINGLE for n in (self.count, count))
        step, operator = alike([earlier], [later]), catalogue.create("page_rank", self.params, INPUTS)
        self.states = [
            Share(operator, dict.fromkeys(INPUTS, later), index, count).of(
                {n: one for n, one in enumerate(self.states) if n % step == index % step}
            )
            for index in range(count)
        ]
        self.count = count

    def epoch(self, steps: list[Step], mark: int) -> bool:
        """Whether something goes round."""
        self.number += 1
        context = EpochContext(self.number, mark, self.mark)
        inputs = {"Steps": [table_of(steps)], "Shares": self.sent}
        given = []
        for index, state in enumerate(self.states):
            mine = {name: [self._of(index, table) for table in tables] for name, tables in inputs.items()}
            operator = catalogue.create("page_rank", self.params, INPUTS)
            given.append(operator.process(context, mine, state))
        self.states = [settled(state) for state in self.states]
        self.sent, self.mark = [table for table in given if table is not None], mark
        ranks = catalogue.create("ranks", {}, ["Shares"])
        for index in range(self.count):
            rows = ranks.process(
                context, {"Shares": [self._of(index, table) for table in self.sent]}, StateTables({}, {}, {})
            )
            if rows is not None:
                self.found += list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
        return bool(self.sent)

    def _of(self, index: int, table: pa.Table) -> pa.Table:
        return table.filter(pa.array(key_buckets(table.column("key"), self.count) == index))


@settings(max_examples=examples(120), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    seconds=st.integers(1, 30),
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=4),
)
def test_ranks_are_the_same_however_the_input_is_cut(seed: int, seconds: int, counts: list[int]) -> None:
    dice = random.Random(seed)
    steps = steps_of(dice, seconds)
    cuts = sorted({moment(dice, seconds) for _ in range(dice.randrange(12))} | {seconds * SECOND})
    cycle = Cycle(counts[0])
    before = 0
    for cut in cuts:
        if dice.random() < 0.2:
            cycle.divided(dice.choice(counts))
        cycle.epoch([step for step in steps if before <= step[0] < cut], cut)
        before = cut
    while cycle.epoch([], before):
        if dice.random() < 0.1:
            cycle.divided(dice.choice(counts))
    expected = page_ranks(steps, size=4 * SECOND, rounds=3, last=before // (4 * SECOND) * 4 * SECOND)
    assert sorted(cycle.found) == sorted(expected)
    assert sum(left_out(state) for state in cycle.states) == 0


def test_edges_of_a_closed_window_are_left_out() -> None:
    cycle = Cycle(1, {"size_s": 1, "rounds": 1})
    cycle.epoch([(0, "a", "b")], 2 * SECOND)
    cycle.epoch([(SECOND, "a", "c"), (2 * SECOND, "a", "d")], 3 * SECOND)
    while cycle.epoch([], 3 * SECOND):
        pass
    assert {key for _, key, _ in cycle.found} == {"b", "d"}
    assert left_out(cycle.states[0]) == 1


@pytest.mark.parametrize("count", [1, 3])
def test_without_a_watermark_edges_wait_for_the_first_one(count: int) -> None:
    """As with a reader of one's own: its first rows tell the time."""
    now = 1_700_000_000 * SECOND
    cycle = Cycle(count, {"size_s": 4, "rounds": 1}, NO_WATERMARK)
    assert not cycle.epoch([], NO_WATERMARK)
    assert not cycle.epoch([(now, "a", "b"), (now + 3 * SECOND, "b", "c")], NO_WATERMARK)
    cycle.epoch([(now + 4 * SECOND, "c", "d")], now + 5 * SECOND)
    while cycle.epoch([], now + 8 * SECOND):
        pass
    assert sorted((end - now, key) for end, key, _ in cycle.found) == [
        (4 * SECOND, "b"), (4 * SECOND, "c"), (8 * SECOND, "b"), (8 * SECOND, "c"), (8 * SECOND, "d"),
    ]  # fmt: skip
    assert sum(left_out(state) for state in cycle.states) == 0


def test_times_before_1970_are_like_others() -> None:
    begin = -1_000 * SECOND
    cycle = Cycle(1, {"size_s": 4, "rounds": 1}, begin)
    cycle.epoch([(begin, "a", "b"), (begin + 5 * SECOND, "b", "c")], begin + 9 * SECOND)
    while cycle.epoch([], begin + 9 * SECOND):
        pass
    assert [(end - begin, key) for end, key, _ in cycle.found] == [
        (4 * SECOND, "b"), (8 * SECOND, "b"), (8 * SECOND, "c"),
    ]  # fmt: skip
    assert left_out(cycle.states[0]) == 0


def test_edges_without_a_node_or_a_time_are_none() -> None:
    cycle = Cycle(1, {"size_s": 1, "rounds": 1})
    incomplete: list[Any] = [(0, "a", "b"), (0, None, "c"), (0, "a", None), (None, "a", "d")]
    cycle.epoch(incomplete, SECOND)
    assert [key for _, key, _ in cycle.found] == ["b"]
    assert left_out(cycle.states[0]) == 0


def test_large_numbers_are_exact() -> None:
    state = StateTables({"ranked": 0, "round": 1}, {}, {})
    rank, weight = 10**14, 3 * 10**9
    state.keyed("edges", ["key", "to"]).put(
        pa.table({"key": ["a", "a"], "to": ["b", "c"], "weight": [weight, 1]})
    )
    arrived = pa.table({"key": ["a"], "amount": [rank - 150_000]})
    operator = catalogue.create("page_rank", {"size_s": 1, "rounds": 3}, INPUTS)
    passed = operator.process(EpochContext(1, 0, 0), {"Shares": [arrived]}, state)
    assert passed is not None
    amounts = dict(zip(passed.column("key").to_pylist(), passed.column("amount").to_pylist(), strict=True))
    assert amounts == {
        "b": 17 * rank * weight // (20 * (weight + 1)),
        "c": 17 * rank // (20 * (weight + 1)),
    }
    assert pc.all(pc.equal(passed.column("round"), 2)).as_py()


@pytest.mark.parametrize(
    ("params", "what"),
    [
        ({}, "size_s must be"),
        ({"size_s": 0}, "size_s must be"),
        ({"size_s": True}, "size_s must be"),
        ({"size_s": 5, "rounds": 0}, "rounds must be"),
        ({"size_s": 5, "rounds": 101}, "rounds must be"),
        ({"size_s": 5, "rounds": 2.5}, "rounds must be"),
        ({"size_s": 5, "damping": 1}, "unknown parameter 'damping'"),
    ],
)
def test_what_is_wrong_is_said(params: dict[str, Any], what: str) -> None:
    (problem,) = catalogue.problems("page_rank", params)
    assert what in problem
