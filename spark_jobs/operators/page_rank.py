"""PageRank of a graph that grows, in a cycle: what nodes pass on goes round a feedback stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from domain.execution.job import NO_WATERMARK
from spark_jobs.operators.base import EpochContext, Operator, unknown_params
from spark_jobs.operators.problems import column_of, duration_problems, times_of
from spark_jobs.operators.window import SECOND
from spark_jobs.state.late import leave_out
from spark_jobs.state.tables import StateTables

UNIT: Final = 1_000_000
"""A rank of 1, which is the mean where every node has an edge that leaves it."""
DAMPING: Final = (17, 20)
BASE: Final = UNIT - UNIT * DAMPING[0] // DAMPING[1]
"""The rank of a node that no edge leads to."""
MOST_ROUNDS: Final = 100
LARGEST: Final = 2**62
PASSED_ON: Final = pa.schema(
    [
        ("window_end", pa.int64()),
        ("round", pa.int64()),
        ("key", pa.string()),
        ("amount", pa.int64()),
        ("last", pa.bool_()),
    ]
)
RANKS: Final = pa.schema([("key", pa.string()), ("rank", pa.int64())])
EDGES: Final = pa.schema([("ts", pa.int64()), ("key", pa.string()), ("to", pa.string())])


class PageRank(Operator):
    """Params: `size_s`, `rounds` (default 10). Its inputs are edges (`ts`, `key`, `to`) and, on a feedback
    stream, its own rows, both by `key`. Edges add up: one that came three times has three times the weight.

    After each window of `size_s` seconds (aligned to the Unix epoch) the ranks of the nodes follow the graph
    as it is then, from those after the window before, in so many rounds of

        rank(v) = 0.15 + 0.85 * sum over u of rank(u) * weight(u, v) / weight of all edges that leave u

    A round takes an epoch: what nodes pass on (`key` gets `amount`, in millionths, rounded down for each
    edge) comes back in the next one; `last` marks that of the last round of a window. Ranks do not depend on
    how the input is cut into epochs. Windows that end while another one is ranked wait for it, so a window
    should take more epochs than `rounds`. Edges of a window that the watermark had closed before they came
    are left out and counted, and those without a node or a time are none. (Brin and Page 1998, section 2.1.1,
    whose formula is not normalised either.)
    """

    kind = "page_rank"
    takes = ("size_s", "rounds")

    def __init__(self, params: Mapping[str, Any], inputs: Sequence[str]) -> None:
        super().__init__(params, inputs)
        self.size = round(params["size_s"] * SECOND)
        self.rounds = int(params.get("rounds", 10))

    @classmethod
    def problems(cls, params: Mapping[str, Any]) -> list[str]:
        found = unknown_params(params, cls.takes)
        found += duration_problems("size_s", params.get("size_s"))
        rounds = params.get("rounds", 10)
        if isinstance(rounds, bool) or not isinstance(rounds, int) or not 1 <= rounds <= MOST_ROUNDS:
            found.append(f"rounds must be a whole number from 1 to {MOST_ROUNDS}, not {rounds!r}")
        return found

    @classmethod
    def state_columns(cls, params: Mapping[str, Any]) -> Sequence[str]:
        return ("key",)

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        """The round, and the window that is ranked, follow from epochs and watermarks alone, which are the
        same for all partitions."""
        values = state.values
        tables = [table for table in self.tables(inputs) if table.num_rows]
        self._wait(context, [table for table in tables if "amount" not in table.column_names], state)
        if "ranked" not in values:
            if context.watermark == NO_WATERMARK:
                return None
            values["ranked"] = self._begin(context)
        if values.get("round"):
            received = [table for table in tables if "amount" in table.column_names]
            state.table("ranks").replace(_ranks(received))
            if values["round"] == self.rounds:
                values["round"] = 0
        if not values.get("round"):
            end = values["ranked"] + self.size
            if end > context.watermark:
                return None
            self._add(end, state)
            values["ranked"] = end
        values["round"] = values.get("round", 0) + 1
        return self._pass_on(state)

    def _begin(self, context: EpochContext) -> int:
        """The end of the last window before those that are ranked. Where no time is known before the first
        edges, the first of these is the one that ends by the first watermark, with all edges before it."""
        if context.previous_watermark == NO_WATERMARK:
            return self._closed(context.watermark) - self.size
        return self._closed(context.previous_watermark)

    def _closed(self, watermark: int) -> int:
        """The end of the last window that is closed."""
        return watermark - watermark % self.size

    def _wait(self, context: EpochContext, tables: Sequence[pa.Table], state: StateTables) -> None:
        """New edges count when their window has ended."""
        closed = self._closed(context.previous_watermark)
        closed = max(closed, state.values.get("ranked", closed))
        for table in tables:
            nodes = (column_of(table, name, self.kind) for name in ("key", "to"))
            rows = pa.table([times_of(table, "ts", self.kind), *nodes], names=EDGES.names)
            rows = rows.cast(EDGES).drop_null()
            timely = rows.filter(pc.greater_equal(rows.column("ts"), closed))
            leave_out(state, rows.num_rows - timely.num_rows)
            if timely.num_rows:
                state.table("waiting").append(timely)

    def _add(self, end: int, state: StateTables) -> None:
        """Add the edges of the window that ends then."""
        waiting = state.table("waiting").read()
        if waiting is None:
            return
        due = pc.less(waiting.column("ts"), end)
        state.table("waiting").replace(waiting.filter(pc.invert(due)))
        groups = waiting.filter(due).group_by(["key", "to"], use_threads=False).aggregate([([], "count_all")])
        groups = groups.rename_columns(["key", "to", "weight"])
        if not groups.num_rows:
            return
        edges = state.keyed("edges", ["key", "to"])
        weights = edges.find(groups).added_to(groups.column("weight").to_numpy(), "weight")
        edges.put(groups.set_column(2, "weight", pa.array(weights)))

    def _pass_on(self, state: StateTables) -> pa.Table | None:
        edges = state.keyed("edges", ["key", "to"]).read()
        if edges is None:
            return None
        nodes = edges.column("key").combine_chunks().dictionary_encode()
        at, weight = nodes.indices.to_numpy(), edges.column("weight").to_numpy()
        leaving = np.zeros(len(nodes.dictionary), np.int64)
        np.add.at(leaving, at, weight)
        rank = _rank_of(nodes.dictionary, state.table("ranks").read())
        if int(rank.max()) * int(weight.max()) * DAMPING[0] > LARGEST:
            rank, weight = rank.astype(object), weight.astype(object)  # numbers of any size
        amount = rank[at] * weight * DAMPING[0] // (leaving[at] * DAMPING[1])
        passed = pa.table({"key": edges.column("to"), "amount": pa.array(amount.astype(np.int64))})
        sums = passed.group_by("key", use_threads=False).aggregate([("amount", "sum")]).sort_by("key")
        count, now = sums.num_rows, state.values["round"]
        return pa.table(
            [
                pa.repeat(pa.scalar(state.values["ranked"], pa.int64()), count),
                pa.repeat(pa.scalar(now, pa.int64()), count),
                sums.column("key"),
                sums.column("amount_sum"),
                pa.repeat(pa.scalar(now == self.rounds), count),
            ],
            schema=PASSED_ON,
        )


class Ranks(Operator):
    """Behind `page_rank`: after each window the `rank` of each `key` that an edge leads to, in millionths, in
    the order of the keys."""

    kind = "ranks"
    takes = ()
    keeps_state = False

    @classmethod
    def problems(cls, params: Mapping[str, Any]) -> list[str]:
        return unknown_params(params, cls.takes)

    @classmethod
    def carries(cls, params: Mapping[str, Any], column: str) -> str:
        return "key" if column == "key" else ""

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        tables = self.tables(inputs)
        last = [table.filter(column_of(table, "last", self.kind)) for table in tables]
        given = [table for table in last if table.num_rows]
        if not given:
            return None
        end = given[0].column("window_end")[0]
        found = _ranks(given)
        return found.add_column(0, "window_end", pa.repeat(end, found.num_rows))


def _ranks(passed_on: Sequence[pa.Table]) -> pa.Table:
    """Of the nodes that were passed something, in the order of their keys."""
    if not passed_on:
        return RANKS.empty_table()
    rows = pa.concat_tables(passed_on).select(["key", "amount"])
    sums = rows.group_by("key", use_threads=False).aggregate([("amount", "sum")]).sort_by("key")
    ranks = pc.add(sums.column("amount_sum"), pa.scalar(BASE, pa.int64()))
    return pa.table([sums.column("key"), ranks], schema=RANKS)


def _rank_of(nodes: pa.Array, ranks: pa.Table | None) -> np.ndarray[Any, Any]:
    """Of each node."""
    found = np.full(len(nodes), BASE, np.int64)
    if ranks is not None and ranks.num_rows:
        at = pc.index_in(nodes, value_set=ranks.column("key").combine_chunks())
        known = at.is_valid().to_numpy(zero_copy_only=False)
        found[known] = ranks.column("rank").to_numpy()[at.drop_null().to_numpy()]
    return found
