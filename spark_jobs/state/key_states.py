"""The states of single keys, taken out of the state of a partition and put into that of another.

They are `StateTables` themselves, with the rows and entries of these keys, so that what is taken out can be
divided again and put together. On their way they are one Arrow file in memory for each chunk, behind a header
in JSON.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.state.chunks import TableState
from spark_jobs.state.keyed_rows import GONE, HASH
from spark_jobs.state.sealed import UNREADABLE, DamagedError
from spark_jobs.state.tables import StateTables

NULL_KEY = "\0null"
OWN = "__"
"""What the names of tables and values begin with that the engine keeps beside those of an operator."""
WHOLE = ""
"""The key of a state that cannot be told apart by key."""
_LENGTH = struct.Struct("<Q")

Mask = np.ndarray[Any, np.dtype[np.bool_]]


def key_texts(column: pa.ChunkedArray) -> pa.Array:
    """Keys as text, in the order of the rows."""
    texts = pc.fill_null(column.cast(pa.string()), NULL_KEY)
    return texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts


def in_one_form(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """With the same text for keys that are equal: numbers in the form of whole ones where they are, and times
    of any kind in that of microseconds. Different keys may have the same."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        if pa.types.is_timestamp(kind):
            column = column.cast(pa.timestamp(kind.unit))
        return column.cast(pa.timestamp("us"), safe=False)
    if pa.types.is_decimal(kind):
        shorter = pc.replace_substring_regex(column.cast(pa.string()), r"(\.[0-9]*?)0+(E|$)", r"\1\2")
        shorter = pc.replace_substring_regex(shorter, r"\.(E|$)", r"\1")
        return pc.replace_substring_regex(shorter, r"^0E.*", "0")
    if pa.types.is_floating(kind):
        numbers = column.cast(pa.float64())
        whole = pc.and_(pc.equal(pc.floor(numbers), numbers), pc.less(pc.abs(numbers), 2.0**63))
        digits = pc.if_else(whole, numbers, None).cast(pa.int64(), safe=False).cast(pa.string())
        return pc.coalesce(digits, column.cast(pa.string()))
    return column


class KeySet:
    """Some keys of a state. `keys`: as text, each once; None: all there are. column: of a table of the state,
    which of its columns has the key."""

    def __init__(self, keys: pa.Array | None, column: Callable[[str], str]) -> None:
        self.keys = keys
        self._column = column

    def mask(self, keys: pa.ChunkedArray) -> Mask:
        """Which of these are in the set."""
        if self.keys is None:
            return np.ones(len(keys), dtype=np.bool_)
        found: Mask = pc.is_in(key_texts(keys), value_set=self.keys).to_numpy(zero_copy_only=False)
        return found

    def rows(self, name: str, table: pa.Table) -> pa.Table:
        """Those of a table of the state that belong to the keys."""
        if self.keys is None:
            return table
        return table.filter(pa.array(self.mask(table.column(self._column(name)))))


def taken(state: StateTables, keys: KeySet) -> StateTables:
    """The state of these keys alone, and all `values`, which belong to no key."""
    values = {name: value for name, value in state.values.items() if not name.startswith(OWN)}
    maps: dict[str, dict[str, Any]] = {}
    for name, entries in state.maps.items():
        names = list(entries)
        mask = keys.mask(pa.chunked_array([names], pa.string()))
        maps[name] = {names[at]: entries[names[at]] for at in np.flatnonzero(mask)}
    tables: dict[str, TableState] = {}
    for name, table in state.tables.items():
        if name.startswith(OWN):
            continue
        if any(HASH in chunk.table.column_names for chunk in table):
            tables[name] = TableState([])
            rows = _newest(keys, name, table)
            tables[name].append(rows)
            continue
        tables[name] = TableState([])
        for chunk in table:
            tables[name].append(keys.rows(name, chunk.table), chunk.note)
    return StateTables(values, maps, tables)


def _newest(keys: KeySet, name: str, table: TableState) -> pa.Table:
    """Of a table by key, whose chunks are in the order of age: of each key the newest row, as it was put."""
    parts = [keys.rows(name, chunk.table) for chunk in table]
    columns = [one for one in parts[0].column_names if one not in (HASH, GONE)]
    rows = pa.concat_tables(parts, promote_options="permissive").combine_chunks()
    hashes = rows.column(HASH).to_numpy()
    _, last = np.unique(hashes[::-1], return_index=True)
    rows = rows.take(pa.array(np.sort(len(hashes) - 1 - last)))
    return rows.filter(pc.invert(rows.column(GONE))).select(columns)


def put_together(state: StateTables, saved: StateTables, values: dict[str, Any]) -> None:
    """Add the states of keys that `state` does not have. values: what the values of both come to."""
    state.values.update(values)
    for name, entries in saved.maps.items():
        state.map(name).update(entries)
    for name, table in saved.tables.items():
        mine = state.table(name)
        for chunk in table:
            mine.append(chunk.table, chunk.note)


class _Part(msgspec.Struct, frozen=True):
    table: str
    note: dict[str, int]
    bytes: int


class _Header(msgspec.Struct, frozen=True):
    values: dict[str, Any]
    maps: dict[str, dict[str, Any]]
    parts: list[_Part]


_headers = msgspec.json.Decoder(_Header)


def encoded(state: StateTables) -> bytes:
    """As it is stored: the length of the header, the header, the chunks."""
    parts: list[_Part] = []
    chunks: list[bytes] = []
    for name, table in state.tables.items():
        for chunk in table:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, chunk.table.schema) as writer:
                writer.write_table(chunk.table)
            content = sink.getvalue().to_pybytes()
            parts.append(_Part(name, chunk.note, len(content)))
            chunks.append(content)
    header = msgspec.json.encode(_Header(state.values, state.maps, parts))
    return b"".join([_LENGTH.pack(len(header)), header, *chunks])


def decoded(content: bytes, where: str) -> StateTables:
    """Raises `DamagedError`."""
    try:
        (length,) = _LENGTH.unpack_from(content)
        header = _headers.decode(content[_LENGTH.size : _LENGTH.size + length])
        state = StateTables(header.values, header.maps, {})
        at = _LENGTH.size + length
        for part in header.parts:
            with pa.ipc.open_stream(pa.py_buffer(content[at : at + part.bytes])) as reader:
                state.table(part.table).append(reader.read_all(), part.note)
            at += part.bytes
    except (struct.error, pa.ArrowInvalid, *UNREADABLE) as error:
        raise DamagedError(f"{where} is damaged: {error}", where) from error
    if at != len(content):
        raise DamagedError(f"{where} is damaged: it has {len(content)} bytes, not {at}", where)
    return state
