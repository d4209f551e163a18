"""Graphs from streams: which value follows which, and which of them hang together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.operators.base import EpochContext, Operator, unknown_params
from spark_jobs.operators.columns import concatenated
from spark_jobs.operators.problems import column_of, column_problems
from spark_jobs.state.chunks import TableState
from spark_jobs.state.keyed import KeyedTable
from spark_jobs.state.tables import StateTables

EDGES: Final = pa.schema([("key", pa.string()), ("to", pa.string())])
MESSAGES: Final = pa.schema([("key", pa.string()), ("to", pa.string()), ("label", pa.string())])
MERGE_FROM: Final = 64
"""Chunks of edges before they are merged into one."""
KEY: Final = pa.schema([("key", pa.string())])
LABELS: Final = pa.schema([("key", pa.string()), ("label", pa.string())])
LEAST: Final = pa.schema([*LABELS, ("given", pa.string())])
"""`given`: the label that was given at the end of the input, null before."""


class Transitions(Operator):
    """Params: `column` (default `key`). For each row of a partition but the first, the text of that column in
    the row before (`key`) and in this one (`to`), with the time of this one (`ts`)."""

    kind = "transitions"
    takes = ("column",)

    @classmethod
    def problems(cls, params: Mapping[str, Any]) -> list[str]:
        found = unknown_params(params, cls.takes)
        return found + column_problems("column", params.get("column", "key"))

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        rows = concatenated(self.tables(inputs), self.kind)
        if rows is None or not rows.num_rows:
            return None
        texts = column_of(rows, self.params.get("column", "key"), self.kind).cast(pa.string())
        reached = pa.table({"ts": column_of(rows, "ts", self.kind), "to": texts})
        left = texts.slice(0, len(texts) - 1)
        if "last" in state.values:
            first = pa.array([state.values["last"]], pa.string())
            left = pa.chunked_array([first, *left.chunks], pa.string())
        else:
            reached = reached.slice(1)
        state.values["last"] = texts[-1].as_py()
        made = reached.add_column(1, "key", left)
        return made.filter(pc.and_(pc.is_valid(made.column("key")), pc.is_valid(made.column("to"))))


class Components(Operator):
    """The connected components of a graph, by the least name that reaches each node (label propagation). Its
    inputs are edges (`key`, `to`) and what it sends itself, both by `key`: its own rows come back on a
    feedback stream. They are messages to `key`: its neighbour `to` has this `label`. A node that has a new
    label tells all its neighbours and itself; one that has not tells those that are new or have a greater
    one. Labels only become less, so a graph that stays as it is comes to rest. Edges that lack a
    node are none.

    How many messages there are depends on epochs; the least label of each key at the end does not.
    """

    kind = "components"
    takes = ()

    @classmethod
    def problems(cls, params: Mapping[str, Any]) -> list[str]:
        return unknown_params(params, cls.takes)

    @classmethod
    def state_columns(cls, params: Mapping[str, Any]) -> Sequence[str]:
        return ("key",)

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        heard = self._heard(inputs)
        nodes, edges = sorted(heard), state.table("edges")
        keyed = _by_key(state, "labels", LABELS)
        before = keyed.find(_table([(node,) for node in nodes], KEY)).values("label")
        labels = dict(zip(nodes, before, strict=True))
        known = _neighbours(edges, nodes)
        changed: list[tuple[str, str]] = []
        new: list[tuple[str, str]] = []
        sent: list[tuple[str, str, str]] = []
        for node in nodes:
            told, near = heard[node], known.get(node, set())
            label = min([labels[node] or node, *told.values()])
            added = sorted(told.keys() - near)
            new += [(node, other) for other in added]
            if labels[node] != label:
                changed.append((node, label))
                reached = near | told.keys() | {node}
            else:
                reached = {other for other in told if other not in near or told[other] > label}
            sent += [(other, node, label) for other in sorted(reached)]
        keyed.put(_table(changed, LABELS))
        edges.append(_table(new, EDGES))
        if len(edges.chunks) > MERGE_FROM:
            edges.replace(edges.read())
        return _table(sent, MESSAGES)

    def _heard(self, inputs: Mapping[str, Sequence[pa.Table]]) -> dict[str, dict[str, str]]:
        """Node -> neighbour -> its least label. An edge tells that the neighbour is there, under its name."""
        found: dict[str, dict[str, str]] = {}
        for table in self.tables(inputs):
            nodes = column_of(table, "key", self.kind).to_pylist()
            others = column_of(table, "to", self.kind).to_pylist()
            labels = table.column("label").to_pylist() if "label" in table.column_names else others
            for node, other, label in zip(nodes, others, labels, strict=True):
                if node != other and None not in (node, other, label):
                    mine = found.setdefault(node, {})
                    mine[other] = min(label, mine.get(other, label))
        return found


class Least(Operator):
    """At the end of a bounded input the least `label` for each `key`, in the order of the keys; what has
    become less after that, once more. Rows without one of them do not count."""

    kind = "least"
    takes = ()

    @classmethod
    def problems(cls, params: Mapping[str, Any]) -> list[str]:
        return unknown_params(params, cls.takes)

    @classmethod
    def carries(cls, params: Mapping[str, Any], column: str) -> str:
        return "key" if column == "key" else ""

    @classmethod
    def state_columns(cls, params: Mapping[str, Any]) -> Sequence[str]:
        return ("key",)

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        heard: dict[str, str] = {}
        for table in self.tables(inputs):
            keys = column_of(table, "key", self.kind).to_pylist()
            labels = column_of(table, "label", self.kind).to_pylist()
            for key, label in zip(keys, labels, strict=True):
                if key is not None and label is not None:
                    heard[key] = min(label, heard.get(key, label))
        given = state.maps.pop("given", {})  # of a version that kept maps
        least = _by_key(state, "least", LEAST, given)
        nodes = sorted(heard)
        known = least.find(_table([(node,) for node in nodes], KEY))
        before, told = known.values("label"), known.values("given")
        changed = [
            (node, heard[node], mine)
            for node, label, mine in zip(nodes, before, told, strict=True)
            if label is None or heard[node] < label
        ]
        least.put(_table(changed, LEAST))
        return self._give(least) if context.final else None

    def _give(self, least: KeyedTable) -> pa.Table:
        """What has become less since it was given."""
        everything = least.read()
        rows = [] if everything is None else everything.to_pylist()
        less = sorted((row["key"], row["label"]) for row in rows if row["given"] != row["label"])
        least.put(_table([(key, label, label) for key, label in less], LEAST))
        return _table(less, LABELS)


def _by_key(
    state: StateTables, name: str, schema: pa.Schema, given: Mapping[str, str] | None = None
) -> KeyedTable:
    """A table by `key`; what a version before this one kept in a map of that name, with what it had `given`,
    is put into it."""
    table = state.keyed(name, ["key"])
    if name in state.maps:
        before = state.maps.pop(name)
        more = [()] * len(before) if given is None else [(given.get(key),) for key in before]
        rows = [(key, value, *other) for (key, value), other in zip(before.items(), more, strict=True)]
        table.put(_table(rows, schema))
    return table


def _neighbours(edges: TableState, nodes: list[str]) -> dict[str, set[str]]:
    """Of these nodes."""
    found: dict[str, set[str]] = {}
    wanted = pa.array(nodes, pa.string())
    for chunk in edges if nodes else ():
        mine = chunk.table.filter(pc.is_in(chunk.table.column("key"), value_set=wanted))
        for node, other in zip(mine.column("key").to_pylist(), mine.column("to").to_pylist(), strict=True):
            found.setdefault(node, set()).add(other)
    return found


def _table(rows: Sequence[tuple[str | None, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(column, pa.string()) for column in columns], schema=schema)
