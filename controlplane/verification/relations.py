"""The relations that a verification builds in one DuckDB database: streams of rows, and closed windows.

Row streams carry, besides their columns, `_n` (number of the source tuple) and `_pos` (position within it),
which together are their order. Window tables hold the windows that are closed.
"""

# Queries are put together from names that the specification has validated and that are quoted here.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from controlplane.verification.extent import Extent
from controlplane.verification.problems import NotExpressibleError, VerificationError
from domain.topology import Topology
from domain.topology.spec import OperatorSpec

SECOND = 1_000_000
WINDOW_COLUMNS = ("window_start", "window_end", "key", "count")
EVENT_TIMES = frozenset({"ts", "window_end"})
"""Of sources (whose files are read with an exact watermark) and of windows, which are sent as they close."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A relation in the database: `ordered` row streams have `_n` and `_pos`; `texts` names the columns that
    hold a file's text unchanged: matches are then searched once per row of the file, not once per repetition
    (`_row` is the row of the file). `times` names the columns that are never behind the watermark."""

    relation: str
    columns: tuple[str, ...]
    ordered: bool = False
    texts: Mapping[str, str] = field(default_factory=dict)
    times: frozenset[str] = EVENT_TIMES


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return "'" + str(value).replace("'", "''") + "'"


def floor(time: str, size: int) -> str:
    """The last multiple of `size` that is not after `time`, before 1970 too."""
    return f"({time} - ({time} % {size} + {size}) % {size})"


def period(times: list[int]) -> int:
    """By how much event times move from one pass over the file to the next: its time span plus one mean
    step."""
    span = max(times) - min(times)
    return span + max(1, span // max(1, len(times) - 1))


class Relations:
    """The streams built so far, by operator, and what is needed to build more."""

    def __init__(self, database: duckdb.DuckDBPyConnection, topology: Topology, extent: Extent) -> None:
        self.database = database
        self.topology = topology
        self.extent = extent
        self.built: dict[str, Stream | NotExpressibleError] = {}

    def stream(self, name: str) -> Stream:
        """An operator's stream; raises `NotExpressibleError` if it has none."""
        found = self.built[name]
        if isinstance(found, NotExpressibleError):
            raise found
        return found

    def add_source(
        self, operator: OperatorSpec, texts: list[str | None], times: list[int] | None, rate: int
    ) -> None:
        """The first tuples of a source: row n modulo the number of rows, with its event time."""
        rows = len(texts)
        self._require_watermark(operator, times, rows, rate)
        table, view = f"file_{operator.name}", f"s_{operator.name}"
        number = self.extent.tuples.get(operator.name, 0)
        used = min(rows, number)
        content = pa.table(
            {
                "_row": pa.array(range(used), pa.int64()),
                "text": pa.array(texts[:used], pa.string()),
                "ts": pa.array((times or [0] * rows)[:used], pa.int64()),
            }
        )
        self.database.register("arriving", content)
        self.database.execute(f"CREATE TABLE {table} AS SELECT * FROM arriving")
        self.database.unregister("arriving")
        event_time = f"{self.extent.origin_us} + (n * {SECOND}) // {rate}"
        if times:
            event_time = f"f.ts + (n // {rows}) * {period(times)}"
        self.view(
            view,
            f"SELECT n AS _n, 0::BIGINT AS _pos, f._row, {event_time} AS ts, f.text"
            f" FROM (SELECT range AS n FROM range({number}))"
            f" JOIN {table} f ON f._row = n % {rows}",
        )
        self.built[operator.name] = Stream(view, ("ts", "text"), True, {"text": table})

    def _require_watermark(
        self, operator: OperatorSpec, times: list[int] | None, rows: int, rate: int
    ) -> None:
        """A tuple still to come that is earlier than the watermark would be missing from a closed window."""
        number, watermark = self.extent.tuples.get(operator.name, 0), self.extent.watermark
        left = (operator.params.get("limit") or number + rows) - number
        if watermark is None or self.extent.final or left <= 0:
            return
        earliest = self.extent.origin_us + number * SECOND // rate
        if times:
            turn, row = divmod(number, rows)
            earliest = min(times[row : row + left]) + turn * period(times)
        if earliest < watermark:
            raise VerificationError(
                where=f"epoch {self.extent.epoch}, source {operator.name}",
                what=f"the watermark {watermark} is later than a tuple still to come, at {earliest} us",
                hint="Windows were closed too early; this is a fault of the engine, please report it.",
            )

    def closed(self, end: str) -> str:
        """Whether a window with this end has been emitted."""
        if self.extent.final:
            return "true"
        return "false" if self.extent.watermark is None else f"{end} <= {self.extent.watermark}"

    def row_input(self, operator: OperatorSpec) -> Stream:
        given = self.stream(self.only_input(operator))
        if not given.ordered:
            raise NotExpressibleError(
                f"operator {operator.name} ({operator.kind}) depends on the order of its input, which "
                "is not defined"
            )
        return given

    def only_input(self, operator: OperatorSpec) -> str:
        if len(operator.inputs) != 1:
            raise NotExpressibleError(
                f"operator {operator.name} ({operator.kind}) has {len(operator.inputs)} inputs;"
                " put a union before it"
            )
        return operator.inputs[0].source

    def need(self, operator: OperatorSpec, stream: Stream, *columns: str) -> None:
        for column in columns:
            if column not in stream.columns:
                raise NotExpressibleError(
                    f"operator {operator.name} ({operator.kind}) needs a column {column!r};"
                    f" its input has {', '.join(stream.columns)}"
                )

    def need_time(self, operator: OperatorSpec, stream: Stream, column: str) -> None:
        """The engine leaves out rows of windows that are closed already."""
        self.need(operator, stream, column)
        if column not in stream.times:
            raise NotExpressibleError(
                f"operator {operator.name} ({operator.kind}) goes by {column!r}, which may be behind the"
                " watermark; what it leaves out then depends on the epochs"
            )

    def same_key_same_partition(self, operator: OperatorSpec, columns: list[str]) -> None:
        """Several partitions give the result of one only if equal values always go to the same partition."""
        for given in operator.inputs:
            alone = operator.parallelism == 1
            spread = given.partitioning == "full" or self.topology.by_name[given.source].parallelism == 1
            if not alone and not (spread and given.key in columns):
                raise NotExpressibleError(
                    f"the partitions of operator {operator.name} ({operator.kind}) share values"
                )

    def row_view(self, operator: OperatorSpec, query: str, columns: tuple[str, ...], given: Stream) -> Stream:
        texts = given.texts if columns == given.columns else {}
        view = self.view(f"s_{operator.name}", query)
        return Stream(view, columns, given.ordered, texts, given.times)

    def view(self, name: str, query: str) -> str:
        self.database.execute(f"CREATE VIEW {quoted(name)} AS {query}")
        return quoted(name)

    def table(self, operator: OperatorSpec, query: str, columns: tuple[str, ...]) -> Stream:
        name = quoted(f"s_{operator.name}")
        self.database.execute(f"CREATE TABLE {name} AS {query}")
        return Stream(name, columns)
