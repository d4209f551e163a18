"""Which columns the rows of each operator have, as far as the specification says it.

What Python code, SQL or a reader of one's own gives is known only from its rows. Loads neither Arrow nor
DuckDB: a web process asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from domain.topology.graph import Topology
from domain.topology.spec import OperatorSpec, TopologySpec
from spark_jobs.sources.built_in import FILE, TRAFFIC, reader_of

ColumnType = Literal["text", "number", "boolean", "time", ""]
"""Empty: not known."""
Origin = Literal["kind", "inputs", "unknown"]


@dataclass(frozen=True, slots=True)
class RowColumn:
    name: str
    type: ColumnType


@dataclass(frozen=True, slots=True)
class KnownColumns:
    """origin: every operator of the kind has these columns; they follow from those of its inputs; or they are
    not known. note: the same in a sentence."""

    columns: tuple[RowColumn, ...]
    origin: Origin
    note: str


_TIME: Final = RowColumn("ts", "time")
_KEY: Final = RowColumn("key", "text")
_LOCATIONS: Final = (_TIME, _KEY, RowColumn("user_id", "number"), RowColumn("speed", "number"))
_WINDOW: Final = (RowColumn("window_start", "time"), RowColumn("window_end", "time"))
_COUNTS: Final = (*_WINDOW, _KEY, RowColumn("count", "number"))
_AVERAGES: Final = (*_WINDOW, _KEY, RowColumn("average", "number"), RowColumn("count", "number"))
_FIXED: Final[Mapping[str, tuple[RowColumn, ...]]] = {
    "flat_map_regex": (_TIME, _KEY),
    **dict.fromkeys(("sliding_window", "tumbling_window", "latest", "top_k"), _COUNTS),
    "window_average": _AVERAGES,
    "transitions": (_TIME, _KEY, RowColumn("to", "text")),
    "components": (_KEY, RowColumn("to", "text"), RowColumn("label", "text")),
    "least": (_KEY, RowColumn("label", "text")),
    "page_rank": (
        RowColumn("window_end", "time"),
        RowColumn("round", "number"),
        _KEY,
        RowColumn("amount", "number"),
        RowColumn("last", "boolean"),
    ),
    "ranks": (RowColumn("window_end", "time"), _KEY, RowColumn("rank", "number")),
}
_SAME: Final = ("filter", "union", "distinct")
_FROM_CODE: Final[Mapping[str, str]] = {
    "source": "Its reader is not the built-in one, so its columns are known only from its rows.",
    "sql": "Its query decides, so its columns are known only from its rows.",
    "map": "Its function decides, so its columns are known only from its rows.",
    "python": "Its class decides, so its columns are known only from its rows.",
}
_NO_INPUTS_KNOWN: Final = "They follow from the columns of its inputs, which are known only from their rows."


def columns_known(spec: TopologySpec) -> dict[str, KnownColumns]:
    """Operator name -> what is known of the columns of its rows."""
    found: dict[str, KnownColumns] = {}
    for operator in Topology(spec).operators:
        inputs = [found[stream.source] for stream in operator.inputs if not stream.feedback]
        found[operator.name] = _of(operator, inputs)
    return found


def _of(operator: OperatorSpec, inputs: Sequence[KnownColumns]) -> KnownColumns:
    if operator.kind == "source" and reader_of(operator.params) == TRAFFIC:
        locations = operator.params.get("stream") == "locations"
        note = "Every source of traffic of this stream gives these columns."
        return KnownColumns(_LOCATIONS if locations else _LOCATIONS[:3], "kind", note)
    if operator.kind == "source" and reader_of(operator.params) == FILE:
        note = "Every source that reads a file gives these columns."
        return KnownColumns((_TIME, RowColumn("text", "text")), "kind", note)
    if operator.kind in _FIXED:
        note = f"Every operator of the kind {operator.kind} gives these columns."
        return KnownColumns(_FIXED[operator.kind], "kind", note)
    if operator.kind in _FROM_CODE:
        return _unknown(_FROM_CODE[operator.kind])
    if operator.kind == "project":
        return _projected(operator.params.get("columns"), inputs)
    if operator.kind == "windowed_join":
        of_windows = operator.params.get("size_s") is None
        return _joined(str(operator.params.get("column", "key")), inputs, of_windows)
    if operator.kind in _SAME:
        known = next((one for one in inputs if one.columns), None)
        if known is not None:
            return KnownColumns(known.columns, "inputs", "The same columns as its inputs have.")
    return _unknown(_NO_INPUTS_KNOWN)


def _projected(chosen: Any, inputs: Sequence[KnownColumns]) -> KnownColumns:
    """The parameter names the columns; their types are those of its inputs."""
    types = {column.name: column.type for one in inputs for column in one.columns}
    names = dict(chosen) if isinstance(chosen, Mapping) else {name: name for name in chosen or ()}
    columns = tuple(RowColumn(new, types.get(old, "")) for new, old in names.items())
    return KnownColumns(columns, "inputs", "Those that its parameter `columns` names, of its inputs.")


def _joined(on: str, inputs: Sequence[KnownColumns], of_windows: bool) -> KnownColumns:
    if len(inputs) != 2 or not all(one.columns for one in inputs):
        return _unknown(_NO_INPUTS_KNOWN)
    sides = {
        f"{side}_{column.name}": column.type
        for side, one in zip(("left", "right"), inputs, strict=True)
        for column in one.columns
        if column.name != on and not (of_windows and column in _WINDOW)
    }
    kind: ColumnType = next((column.type for column in inputs[0].columns if column.name == on), "")
    columns = (*_WINDOW, RowColumn(on, kind), *(RowColumn(name, of) for name, of in sides.items()))
    return KnownColumns(columns, "inputs", f"The window, `{on}`, and the other columns of both inputs.")


def _unknown(note: str) -> KnownColumns:
    return KnownColumns((), "unknown", note)
