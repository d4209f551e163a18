"""The state an operator sees: named tables, maps and values, with changes collected for the next manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

SENT_BACK: Final = "__sent_back"


class ChunkEntry(msgspec.Struct, frozen=True):
    """An immutable Arrow file of a table: name, rows, bytes, what its writer noted about it, and the checksum
    of its content, which is empty from versions that took none."""

    name: str
    rows: int
    bytes: int
    note: dict[str, int]
    checksum: str = ""


class Chunk:
    """Part of a table: either on disk already (loaded when asked for) or new in this epoch."""

    __slots__ = ("_load", "_table", "entry", "note")

    def __init__(
        self,
        note: dict[str, int],
        table: pa.Table | None = None,
        entry: ChunkEntry | None = None,
        load: Callable[[ChunkEntry], pa.Table] | None = None,
    ) -> None:
        self.note = note
        self.entry = entry
        self._table = table
        self._load = load

    @property
    def table(self) -> pa.Table:
        if self._table is None:
            if self._load is None or self.entry is None:
                raise ValueError("a chunk needs a table, or an entry and a way to load it")
            self._table = self._load(self.entry)
        return self._table


class TableState:
    """An ordered list of immutable chunks. Adding and dropping chunks is cheap; chunks never change."""

    def __init__(self, chunks: list[Chunk]) -> None:
        self.chunks = chunks

    def __iter__(self) -> Iterator[Chunk]:
        return iter(self.chunks)

    def append(self, table: pa.Table, note: dict[str, int] | None = None) -> None:
        """Add rows as one chunk; `note` (small integers) lets a reader skip the chunk without opening it."""
        if table.num_rows:
            self.chunks.append(Chunk(note or {}, table=table))

    def replace(self, table: pa.Table | None) -> None:
        """The whole table becomes these rows."""
        self.chunks = []
        if table is not None:
            self.append(table)

    def keep(self, predicate: Callable[[dict[str, int]], bool]) -> None:
        """Drop the chunks whose note fails the predicate."""
        self.chunks = [chunk for chunk in self.chunks if predicate(chunk.note)]

    def read(self) -> pa.Table | None:
        """All rows, oldest chunk first; None when empty."""
        if not self.chunks:
            return None
        return pa.concat_tables([chunk.table for chunk in self.chunks])


class StateTables:
    """Everything one partition remembers, at one epoch. `values` holds small JSON values (a counter, the end
    of the last window); `maps` small string-keyed dictionaries; tables take everything else."""

    def __init__(
        self, values: dict[str, Any], maps: dict[str, dict[str, Any]], tables: dict[str, TableState]
    ) -> None:
        self.values = values
        self.maps = maps
        self.tables = tables

    def table(self, name: str) -> TableState:
        return self.tables.setdefault(name, TableState([]))

    def map(self, name: str) -> dict[str, Any]:
        return self.maps.setdefault(name, {})

    @property
    def sent_back(self) -> pa.Table | None:
        """The rows on feedback streams at the end of the epoch, which are read in the next one."""
        kept = self.tables.get(SENT_BACK)
        return kept.read() if kept is not None else None

    def send_back(self, rows: pa.Table | None) -> None:
        """These rows, and none of an earlier epoch, are on feedback streams."""
        self.table(SENT_BACK).replace(rows)
