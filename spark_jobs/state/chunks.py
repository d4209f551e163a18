"""Tables as lists of immutable chunks, each of them a file once it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
import pyarrow as pa


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

    def noted(self, note: dict[str, int]) -> Chunk:
        """The same rows, in the same file, with another note."""
        entry = msgspec.structs.replace(self.entry, note=note) if self.entry is not None else None
        return Chunk(note, self._table, entry, self._load)


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
        return rows_of(self.chunks)


def rows_of(chunks: Sequence[Chunk]) -> pa.Table:
    """The rows of one or more chunks in their order, columns matched by name: from epoch to epoch they may be
    in another order or of wider types."""
    return pa.concat_tables([chunk.table for chunk in chunks], promote_options="permissive")


def one_dictionary_each(table: pa.Table) -> pa.Table:
    """As files take it: no column has several dictionaries, such as those of rows from several partitions."""
    try:
        return table.unify_dictionaries()
    except pa.ArrowInvalid:  # the values are too many for the numbers that stand for them
        fields = [
            field.with_type(pa.dictionary(pa.int32(), field.type.value_type, field.type.ordered))
            if pa.types.is_dictionary(field.type)
            else field
            for field in table.schema
        ]
        return table.cast(pa.schema(fields)).unify_dictionaries()
