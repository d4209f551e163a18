"""The relations that a verification builds in one DuckDB database: streams of rows, and closed windows.

Row streams carry, besides their columns, `_n` (number of the source tuple) and `_pos` (position within it),
which together are their order. Window tables hold the windows that are closed.
"""

# Queries are put together from names that the specification has validated and that are quoted here.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from operator import truediv
from typing import Any

import duckdb
import pyarrow as pa

from controlplane.verification.extent import Extent
from controlplane.verification.original import Original
from controlplane.verification.problems import NotExpressibleError, VerificationError
from controlplane.verification.rates import Rates
from domain.topology import Topology
from domain.topology.spec import InputSpec, OperatorSpec

SECOND = 1_000_000
DEFAULT_RATE = 1_000
WINDOW_COLUMNS = ("window_start", "window_end", "key", "count")
MEAN = "nearest_mean"
"""Function of the database: the fraction nearest to a sum of any size divided by its count."""
EVENT_TIMES = frozenset({"ts", "window_end"})
"""Of sources (whose files are read with an exact watermark) and of windows, which are sent as they close."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A relation in the database: `ordered` row streams have `_n` and `_pos`; `texts` names the columns that
    hold a file's text unchanged: matches are then searched once per row of the file, not once per repetition
    (`_row` is the row of the file). `times` names the columns that are never behind the watermark. `parted`:
    the relation has `_part`, the partition of the operator that gives the row. `hashed` names the columns
    whose hash decides which partition that is. `waits`: windows after the newest that was given may be
    given later."""

    relation: str
    columns: tuple[str, ...]
    ordered: bool = False
    texts: Mapping[str, str] = field(default_factory=dict)
    times: frozenset[str] = EVENT_TIMES
    parted: bool = False
    hashed: frozenset[str] = frozenset()
    waits: bool = False


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
        with suppress(duckdb.NotImplementedException):  # it is there already
            database.create_function(MEAN, truediv, ["HUGEINT", "BIGINT"], "DOUBLE")

    def stream(self, name: str) -> Stream:
        """An operator's stream; raises `NotExpressibleError` if it has none."""
        found = self.built[name]
        if isinstance(found, NotExpressibleError):
            raise found
        return found

    def add_source(self, operator: OperatorSpec, original: Original, rates: Rates) -> None:
        """The first tuples of a source: row n modulo the number of rows, with its event time."""
        texts, times = original.texts, original.times
        rows = len(texts)
        self.require_watermark(operator, times, rows, rates)
        table, view = f"file_{operator.name}", f"s_{operator.name}"
        number = self.extent.tuples.get(operator.name, 0)
        used = min(rows, number)
        parts = _dealt_out(original.parts, operator.parallelism)
        content = {
            "_row": pa.array(range(used), pa.int64()),
            "_part": pa.array((parts or [0] * rows)[:used], pa.int64()),
            "text": pa.array(texts[:used], pa.string()),
            "ts": pa.array((times or [0] * rows)[:used], pa.int64()),
        }
        self.rows_table(table, content)
        event_time, numbers = f"{self.extent.origin_us} + us", rates.times(number)
        if times:
            event_time = f"f.ts + (n // {rows}) * {period(times)}"
            numbers = f"SELECT range AS n FROM range({number})"
        self.view(
            view,
            f"SELECT n AS _n, 0::BIGINT AS _pos, f._row, f._part, {event_time} AS ts, f.text"
            f" FROM ({numbers}) JOIN {table} f ON f._row = n % {rows}",
        )
        # The rows of several servers come one server partition after the other, epoch by epoch.
        ordered = parts is None or operator.parallelism == 1
        self.built[operator.name] = Stream(
            view, ("ts", "text"), ordered, {"text": table}, parted=parts is not None
        )

    def require_watermark(
        self, operator: OperatorSpec, times: list[int] | None, rows: int, rates: Rates
    ) -> None:
        """A tuple still to come that is earlier than the watermark would be missing from a closed window."""
        number, watermark = self.extent.tuples.get(operator.name, 0), self.extent.watermark
        left = (operator.params.get("limit") or number + rows) - number
        if watermark is None or self.extent.final or left <= 0:
            return
        earliest = self.extent.origin_us + rates.time(number)
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
            if operator.parallelism > 1 and not self._hashed(given).intersection(columns):
                raise NotExpressibleError(
                    f"the partitions of operator {operator.name} ({operator.kind}) share values"
                )

    def hashed(self, operator: OperatorSpec) -> frozenset[str]:
        """The columns whose hash decides to which of the partitions a row comes."""
        return frozenset[str].intersection(*(self._hashed(given) for given in operator.inputs))

    def _hashed(self, given: InputSpec) -> frozenset[str]:
        if given.partitioning == "full" or self.topology.by_name[given.source].parallelism == 1:
            return frozenset({given.key})
        return self.stream(given.source).hashed if given.partitioning == "one_to_one" else frozenset()

    def parts(self, operator: OperatorSpec, columns: list[str]) -> list[str] | None:
        """Where the partitions of an operator give what one would give: None. Where equal values go to
        several of them: which partition has a row, as an expression for each input; raises
        `NotExpressibleError` if that is not known."""
        try:
            self.same_key_same_partition(operator, columns)
        except NotExpressibleError:
            found = [self._part(operator, given) for given in operator.inputs]
            if None in found:
                raise
            return [part for part in found if part is not None]
        return None

    def _part(self, operator: OperatorSpec, given: InputSpec) -> str | None:
        if not self.stream(given.source).parted:
            return None
        before = self.topology.by_name[given.source].parallelism
        named = {"one_to_one": "_part", "merge": f"(_part * {operator.parallelism} // {before})"}
        return named.get(given.partitioning)

    def keeps_parts(self, operator: OperatorSpec, given: Stream) -> bool:
        """Whether a row stays in the partition with the number of the one that it comes from."""
        return given.parted and all(one.partitioning == "one_to_one" for one in operator.inputs)

    def row_view(self, operator: OperatorSpec, query: str, columns: tuple[str, ...], given: Stream) -> Stream:
        texts = given.texts if columns == given.columns else {}
        view = self.view(f"s_{operator.name}", query)
        return Stream(view, columns, given.ordered, texts, given.times, self.keeps_parts(operator, given))

    def view(self, name: str, query: str) -> str:
        self.database.execute(f"CREATE VIEW {quoted(name)} AS {query}")
        return quoted(name)

    def rows_table(self, name: str, columns: Mapping[str, Any]) -> None:
        """A table of these values."""
        self.database.register("arriving", pa.table(dict(columns)))
        self.database.execute(f"CREATE TABLE {name} AS SELECT * FROM arriving")
        self.database.unregister("arriving")

    def table(
        self, operator: OperatorSpec, query: str, columns: tuple[str, ...], *, parted: bool = False
    ) -> Stream:
        name = quoted(f"s_{operator.name}")
        self.database.execute(f"CREATE TABLE {name} AS {query}")
        return Stream(name, columns, parted=parted)


def _dealt_out(values: list[str | None] | None, parallelism: int) -> list[int] | None:
    """The partition of each row: the values, in order, are dealt out to the partitions in turn."""
    if values is None:
        return None
    places = {value: place for place, value in enumerate(sorted({v for v in values if v is not None}))}
    return [0 if value is None else places[value] % parallelism for value in values]
