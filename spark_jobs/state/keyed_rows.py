"""Rows of a table by key: the hash of each, ascending, and which of several rows of a key is the newest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.state.chunks import Chunk
from spark_jobs.state.key_hash import Words, hash_strings

HASH: Final = "__hash"
GONE: Final = "__gone"
BITS: Final = 64
NULL: Final = "\0null"
SEPARATOR: Final = "\0"

Positions = np.ndarray[Any, np.dtype[np.int64]]


def hashes_of(keys: pa.Table) -> Words:
    columns = [pc.fill_null(column.cast(pa.string()), NULL) for column in keys.columns]
    joined = columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, SEPARATOR)
    if isinstance(joined, pa.ChunkedArray):
        joined = joined.combine_chunks()
    return hash_strings(joined)


def own_hashes(chunk: Chunk) -> Words:
    """Of a chunk, ascending; not copied."""
    column = chunk.table.column(HASH)
    if column.num_chunks > 1:
        column = pa.chunked_array([column.combine_chunks()])
    hashes: Words = column.chunk(0).to_numpy() if column.num_chunks else np.empty(0, np.uint64)
    return hashes


def span(hashes: Words, bits: int, part: int) -> tuple[int, int]:
    """Where, in ascending hashes, those of one of 2 ** bits equal parts of all hashes begin and end."""
    low, high = part << (BITS - bits), (part + 1) << (BITS - bits)
    begin = int(np.searchsorted(hashes, np.uint64(low), "left"))
    end = len(hashes) if high >> BITS else int(np.searchsorted(hashes, np.uint64(high), "left"))
    return begin, end


def rows_between(chunk: Chunk, bits: int, part: int) -> pa.Table:
    """The rows whose hash is in a part."""
    begin, end = span(own_hashes(chunk), bits, part)
    return chunk.table.slice(begin, end - begin)


def equal_keys(one: pa.Table, other: pa.Table, names: Sequence[str]) -> Any:
    """Row by row, whether these columns are equal; null is equal to null, and NaN to NaN."""
    same = np.ones(one.num_rows, dtype=bool)
    for name in names:
        mine, its = one.column(name), other.column(name)
        if pa.types.is_null(mine.type) or pa.types.is_null(its.type):  # nothing is equal to another value
            equal = pa.repeat(False, one.num_rows)
        else:
            equal = pc.fill_null(pc.equal(mine, its), False)
        if mine.null_count and its.null_count:
            equal = pc.or_(equal, pc.and_(pc.is_null(mine), pc.is_null(its)))
        if pa.types.is_floating(mine.type) and pa.types.is_floating(its.type):
            equal = pc.or_(equal, pc.fill_null(pc.and_(pc.is_nan(mine), pc.is_nan(its)), False))
        same &= equal.to_numpy()
    return same


def newest_rows(tables: Sequence[pa.Table], names: Sequence[str]) -> pa.Table:
    """Of each key the last row, sorted by hash. names: the columns of the key."""
    rows = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    hashes = rows.column(HASH).to_numpy()
    order = np.lexsort((-np.arange(len(hashes)), hashes))
    hashes = hashes[order]
    begins = np.ones(len(hashes), dtype=bool)
    begins[1:] = hashes[1:] != hashes[:-1]
    again = np.flatnonzero(~begins)
    if len(again):
        heads = np.maximum.accumulate(np.where(begins, np.arange(len(hashes)), 0))[again]
        one, other = rows.take(pa.array(order[again])), rows.take(pa.array(order[heads]))
        alike = equal_keys(one, other, names)
        kept = np.ones(len(hashes), dtype=bool)
        kept[again[alike]] = False
        _drop_older(rows.select(names), order, hashes, again[~alike], kept)
        order = order[kept]
    return rows.take(pa.array(order)).combine_chunks()


def _drop_older(keys: pa.Table, order: Positions, hashes: Words, others: Positions, kept: Any) -> None:
    """Of keys that have the hash of another one, which are hardly ever there."""
    if not len(others):
        return
    seen: set[tuple[Any, ...]] = set()
    for place, key in zip(others.tolist(), keys.take(pa.array(order[others])).to_pylist(), strict=True):
        named = (int(hashes[place]), *map(repr, key.values()))
        kept[place] = named not in seen
        seen.add(named)
