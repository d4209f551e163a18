"""The state of an operator, divided anew: what goes on with it gives the rows that one partition gives."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.topology.routing import SINGLE, Routing
from spark_jobs.executor.division import Share, alike
from spark_jobs.executor.exchange import key_buckets
from spark_jobs.operators.base import EpochContext, Operator
from spark_jobs.operators.catalogue import catalogue
from spark_jobs.operators.problems import OperatorError
from spark_jobs.state.chunks import Chunk, TableState
from spark_jobs.state.late import leave_out, left_out
from spark_jobs.state.tables import StateTables
from tests.examples import examples

SECOND: Final = 1_000_000
EPOCHS: Final = 24
Rows = list[tuple[object, ...]]


def made(kind: str, params: Mapping[str, Any], inputs: Sequence[str]) -> Operator:
    return catalogue.create(kind, params, inputs)


def tweets(dice: random.Random, epoch: int) -> pa.Table:
    """Some rows of an epoch of one second, the keys of which come again. In most runs there are few, so that
    partitions have not seen the same times; the watermark allows them to be up to three seconds apart."""
    count = dice.choice([0, 0, 0, 0, 1, dice.choice([1, 2, 12])])
    times = [(epoch + dice.randrange(3)) * SECOND + dice.randrange(SECOND) for _ in range(count)]
    keys = [f"k{dice.randrange(9)}" for _ in range(count)]
    values = pa.array([dice.randrange(5) for _ in range(count)], pa.int64())
    return pa.table({"ts": pa.array(times, pa.int64()), "key": pa.array(keys, pa.string()), "value": values})


def windows(dice: random.Random, epoch: int) -> pa.Table | None:
    """What an aggregate gives: each key once in each window, and a window every third epoch. Few keys are
    missing, because a partition that no row of a window reaches does not know of it."""
    if epoch % 3:
        return None
    keys = sorted(dice.sample([f"k{n}" for n in range(60)], dice.randint(57, 60)))
    ends = pa.array([epoch * SECOND] * len(keys), pa.int64())
    counts = pa.array([dice.randint(1, 3) for _ in keys], pa.int64())
    starts = pa.array([(epoch - 3) * SECOND] * len(keys), pa.int64())
    return pa.table(
        {"window_start": starts, "window_end": ends, "key": pa.array(keys, pa.string()), "count": counts}
    )


def edges(dice: random.Random, epoch: int) -> pa.Table:
    """Labels and edges of a graph, as far as `least` looks at them."""
    count = dice.randint(0, 6)
    keys, labels = ([f"{name}{dice.randrange(9)}" for _ in range(count)] for name in "kl")
    return pa.table({"key": pa.array(keys, pa.string()), "label": pa.array(labels, pa.string())})


KINDS: Final[dict[str, tuple[str, dict[str, Any], tuple[str, ...], Any]]] = {
    "windows": ("sliding_window", {"size_s": 6, "slide_s": 2}, ("A", "B"), tweets),
    "averages": ("window_average", {"value": "value", "size_s": 4, "slide_s": 2}, ("A",), tweets),
    "first": ("distinct", {"columns": ["key", "value"], "size_s": 5}, ("A",), tweets),
    "ever": ("distinct", {}, ("A",), tweets),
    "pairs": ("windowed_join", {"size_s": 3}, ("A", "B"), tweets),
    "views": ("latest", {}, ("A", "B"), windows),
    "least": ("least", {}, ("A",), edges),
}


class Parallel:
    """Partitions of an operator, with rows spread over them by key."""

    def __init__(self, kind: str, count: int, states: Sequence[StateTables] = ()) -> None:
        name, params, self.inputs, self.rows = KINDS[kind]
        self.operators = [made(name, params, self.inputs) for _ in range(count)]
        self.count = count
        self.states = list(states) or [StateTables({}, {}, {}) for _ in range(count)]

    def epoch(self, number: int, tables: Mapping[str, pa.Table | None]) -> Rows:
        final = number == EPOCHS - 1
        marks = [epoch * SECOND for epoch in (number, number + 1)]
        context = EpochContext(number, marks[1], marks[0], final=final)
        found: Rows = []
        for index, (operator, state) in enumerate(zip(self.operators, self.states, strict=True)):
            given = {
                name: [] if table is None else [table.filter(pa.array(self._here(table) == index))]
                for name, table in tables.items()
            }
            out = operator.process(context, given, state)
            if out is not None:
                names = sorted(out.column_names)
                found += zip(*(out.column(name).to_pylist() for name in names), strict=True)
        self.states = [settled(state) for state in self.states]
        return found

    def _here(self, table: pa.Table) -> Any:
        return key_buckets(table.column("key"), self.count)

    def divided(self, kind: str, count: int) -> Parallel:
        earlier, later = (Routing((n,), "key") if n > 1 else SINGLE for n in (self.count, count))
        routings = dict.fromkeys(self.inputs, later)
        step = alike([earlier], [later])
        states = []
        for index in range(count):
            mine = {n: one for n, one in enumerate(self.states) if n % step == index % step}
            states.append(Share(made(*KINDS[kind][:3]), routings, index, count).of(mine))
        return Parallel(kind, count, states)


def settled(state: StateTables) -> StateTables:
    """As it is read from its files in the next epoch."""
    state.settle()
    tables = {
        name: TableState([Chunk(one.note, table=one.table) for one in table.chunks])
        for name, table in state.tables.items()
    }
    return StateTables(state.values, state.maps, tables)


def course(kind: str, seed: int, changes: Mapping[int, int], first: int) -> Rows:
    """The rows of a run whose parallelism changes before some epochs."""
    dice = random.Random(seed)
    parallel = Parallel(kind, first)
    found: Rows = []
    for number in range(EPOCHS):
        if number in changes:
            parallel = parallel.divided(kind, changes[number])
        found += parallel.epoch(number, {name: parallel.rows(dice, number) for name in parallel.inputs})
    return sorted(found, key=repr)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(80), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    first=st.integers(1, 5),
    changes=st.dictionaries(st.integers(1, EPOCHS - 1), st.integers(1, 6), min_size=1, max_size=4),
)
def test_the_rows_are_those_of_one_partition(
    kind: str, seed: int, first: int, changes: dict[int, int]
) -> None:
    assert course(kind, seed, changes, first) == course(kind, seed, {}, 1)


def test_a_window_that_only_one_partition_has_still_closes() -> None:
    """The others have seen no time as early."""
    assert course("windows", 479, {1: 1}, 3) == course("windows", 479, {}, 1)


def test_every_kind_that_can_be_divided_is_tried() -> None:
    tried = {name for name, *_ in KINDS.values()} | {
        *("tumbling_window", "components", "top_k"),
        "page_rank",  # tests/unit/spark_jobs/operators/test_page_rank.py
    }
    kinds = set(catalogue.kinds()) - {"source", "python", "map"}
    assert {kind for kind in kinds if catalogue.state_columns(kind, {})} == tried


def test_components_keep_labels_and_edges_by_node() -> None:
    state = StateTables({}, {"other": {"a": 1, "b": 2, "c": 3}}, {})
    names = pa.array(["a", "b", "c"], pa.string())
    state.keyed("labels", ["key"]).put(pa.table({"key": names, "label": pa.array(["a", "a", "c"])}))
    state.table("edges").append(pa.table({"key": names, "to": pa.array(["b", "a", "d"], pa.string())}))
    routings = dict.fromkeys("EC", Routing((3,), "key"))
    shares = [Share(made("components", {}, ["E", "C"]), routings, n, 3).of({0: state}) for n in range(3)]
    wanted = key_buckets(pa.chunked_array([names]), 3).tolist()
    for index, share in enumerate(shares):
        mine = [name for name, at in zip("abc", wanted, strict=True) if at == index]
        labels = share.keyed("labels", ["key"]).read()
        assert (sorted(labels.column("key").to_pylist()) if labels is not None else []) == mine
        assert sorted(share.map("other")) == mine
        edges = share.table("edges").read()
        assert (edges.column("key").to_pylist() if edges is not None else []) == mine


def test_what_is_in_transit_and_what_was_left_out_stay_once() -> None:
    states = [StateTables({}, {}, {}) for _ in range(5)]
    for number, state in enumerate(states):
        leave_out(state, number)
        state.send_back(pa.table({"key": pa.array([f"r{number}"], pa.string())}))
    operator = made("sliding_window", {"size_s": 2}, ["A"])
    shares = [
        Share(operator, {"A": Routing((2,), "key")}, n, 2).of(dict(enumerate(states))) for n in range(2)
    ]
    assert [left_out(share) for share in shares] == [6, 4]
    sent = [share.sent_back for share in shares]
    assert [one.column("key").to_pylist() for one in sent if one is not None] == [
        ["r0", "r2", "r4"],
        ["r1", "r3"],
    ]


def test_cuts_are_those_of_streams_that_merge() -> None:
    keys = pa.chunked_array([[f"key {n}" for n in range(200)]], pa.string())
    wide = key_buckets(keys, 6)
    assert key_buckets(keys, 6, 6).tolist() == wide.tolist()
    assert key_buckets(keys, 6, 3, 2).tolist() == (wide * 3 // 6 * 2 // 3).tolist()


def test_only_partitions_that_may_have_the_keys_are_read() -> None:
    def by(column: str, *cuts: int) -> Routing:
        return Routing(cuts, column)

    assert alike([by("key", 4)], [by("key", 8)]) == 4
    assert alike([by("key", 6), by("to", 6)], [by("key", 4), by("to", 4)]) == 2
    assert alike([by("key", 4)], [by("to", 8)]) == 1
    assert alike([by("key", 8, 4)], [by("key", 8)]) == 1
    assert alike([SINGLE], [by("key", 8)]) == 1


def test_rows_without_a_key_go_where_further_ones_are_sent() -> None:
    state = StateTables({}, {}, {"seen": TableState([])})
    state.keyed("seen", ["key"]).put(pa.table({"key": pa.array(["a", None], pa.string())}))
    shares = [
        Share(made("distinct", {}, ["A"]), {"A": Routing((2,), "key")}, one, 2).of({0: state})
        for one in (0, 1)
    ]
    has = [sum(chunk.table.column("key").null_count for chunk in share.table("seen")) for share in shares]
    (target,) = key_buckets(pa.chunked_array([[None]], pa.string()), 2)
    assert has == [int(target == 0), int(target == 1)]


def test_a_state_without_the_column_of_its_key_is_told() -> None:
    state = StateTables({}, {}, {"seen": TableState([])})
    state.keyed("seen", ["key"]).put(pa.table({"key": pa.array(["a", None], pa.string())}))
    operator = made("distinct", {}, ["A"])
    with pytest.raises(OperatorError, match="has no column 'word'"):
        Share(operator, {"A": Routing((2,), "word")}, 0, 2).of({0: state})
    (whole,) = [Share(operator, {"A": SINGLE}, 0, 1).of({0: state})]
    rows = whole.table("seen").read()
    assert rows is not None
    assert rows.num_rows == 2
