"""State by key that may be larger than memory: the newest row of each key, in files of which few are written.

A log-structured merge tree over the immutable chunks of a table. Every row has the hash of its key, by
which each chunk is sorted. An epoch adds one chunk, a *delta*, with the keys that it changed; eight
deltas of a size are merged into one of the next size, up to 64 MB. When deltas amount to half of the
rest, they are swept into the *base*: the range of hashes is cut into parts of about 16 MB, of which
each epoch merges a hundredth, so that none takes long. A checkpoint so stores what changed since the
one before, and what was merged meanwhile.

Chunks are in the order of age, so the last one that has a key says what it is: base (first what it was
before a sweep, then what the sweep has made), deltas that are swept, deltas. A key that was removed is kept
in deltas as gone. Lookups read the pages of mapped files that they need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.state.chunks import Chunk, TableState
from spark_jobs.state.key_hash import Words, hash_strings

HASH: Final = "__hash"
GONE: Final = "__gone"
TIER: Final = 8
"""Deltas of a tier that become one of the next tier, and how many times larger those of the next tier are."""
TIER_BYTES: Final = 64 << 10
"""Bytes of a delta, below eight times of which it is of tier 0."""
MERGED_MOST: Final = 64 << 20
"""Bytes of a delta that is not merged with others any more."""
RANGE: Final = 16 << 20
"""Bytes of a part of the base, about."""
SWEPT_FROM: Final = 1 << 20
"""Bytes of deltas below which nothing is swept."""
EPOCHS: Final = 128
"""In about so many a sweep is done."""
BITS: Final = 64
NULL: Final = "\0null"
SEPARATOR: Final = "\0"

Positions = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of some keys: `rows`, and of each key which of them is its row, -1 if there is none."""

    at: Positions
    rows: pa.Table

    def values(self, column: str) -> list[Any]:
        """Of each key the value of a column, None where there is no row."""
        if not self.rows.num_rows:
            return [None] * len(self.at)
        known = [*self.rows.column(column).to_pylist(), None]  # -1 is the last one
        return [known[place] for place in self.at]

    @property
    def missing(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return self.at < 0


class KeyedTable:
    """Rows of which each has another combination of the `keys` columns."""

    def __init__(self, table: TableState, keys: Sequence[str]) -> None:
        self._table = table
        self._keys = list(keys)
        for chunk in list(table.chunks):
            if not {"base", "tier"}.intersection(chunk.note):  # of a version whose tables had no keys
                table.chunks.remove(chunk)
                self.put(chunk.table)
        if not any("sweep" in chunk.note for chunk in table.chunks):
            table.chunks.sort(key=_age)  # of a state that was divided, which has chunks of several partitions

    # ---- reading and writing ---------------------------------------------------------------------

    def find(self, keys: pa.Table) -> Found:
        """The rows of these keys; columns of other names are ignored."""
        wanted = keys.select(self._keys).combine_chunks()
        hashes = _hashes(wanted)
        at = np.full(len(hashes), -1, np.int64)
        left = np.arange(len(hashes))
        pieces: list[pa.Table] = []
        count = 0
        for chunk in reversed(self._table.chunks):
            if not len(left):
                break
            hits, places = self._hits(chunk, wanted, hashes, left)
            if not len(hits):
                continue
            rows = chunk.table.take(pa.array(places))
            there = np.flatnonzero(~_flags(rows))
            at[hits[there]] = count + np.arange(len(there))
            count += len(there)
            pieces.append(rows.take(pa.array(there)).drop_columns([HASH, GONE]))
            left = np.setdiff1d(left, hits, assume_unique=True)
        rows = pa.concat_tables(pieces, promote_options="permissive") if pieces else wanted.slice(0, 0)
        return Found(at, rows)

    def put(self, rows: pa.Table) -> None:
        """Set the rows of their keys; of a key that comes twice the last row counts."""
        self._add(rows, gone=False)

    def remove(self, keys: pa.Table) -> None:
        """Forget these keys."""
        self._add(keys.select(self._keys), gone=True)

    def read(self) -> pa.Table | None:
        """The rows of all keys, in the order of their hashes; None if there are none."""
        chunks = [chunk.table for chunk in self._table.chunks]
        rows = self._newest(chunks) if chunks else None
        if rows is None:
            return None
        rows = rows.filter(pc.invert(rows.column(GONE))).drop_columns([HASH, GONE])
        return rows if rows.num_rows else None

    def _add(self, rows: pa.Table, *, gone: bool) -> None:
        if not rows.num_rows:
            return
        flags = pa.repeat(pa.scalar(gone), rows.num_rows)
        hashes = pa.array(_hashes(rows.select(self._keys)))
        marked = rows.append_column(HASH, hashes).append_column(GONE, flags)
        self._table.chunks.append(Chunk({"tier": 0, "fresh": 1}, table=self._newest([marked])))

    def _hits(
        self, chunk: Chunk, wanted: pa.Table, hashes: Words, left: Positions
    ) -> tuple[Positions, Positions]:
        """Which of the keys `left` a chunk has, and where."""
        if "bits" in chunk.note:
            shift = np.uint64(BITS - chunk.note["bits"])
            left = left[_prefix(hashes[left], shift) == chunk.note["range"]]
        own = _own_hashes(chunk)
        first = np.searchsorted(own, hashes[left], "left")
        behind = np.searchsorted(own, hashes[left], "right")
        hits, places = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for further in range(int((behind - first).max(initial=0))):  # more than one: hashes of several keys
            tried = np.flatnonzero(first + further < behind)
            place = first[tried] + further
            alike = _equal(wanted.take(pa.array(left[tried])), chunk.table.take(pa.array(place)), self._keys)
            hits.append(left[tried[alike]])
            places.append(place[alike])
        return np.concatenate(hits), np.concatenate(places)

    # ---- merging ---------------------------------------------------------------------------------

    def settle(self) -> None:
        """At the end of an epoch: one delta of what changed, and the merging that is due."""
        chunks = self._table.chunks
        fresh = [chunk for chunk in chunks if "fresh" in chunk.note]
        if fresh:
            older = [chunk for chunk in chunks if "fresh" not in chunk.note]
            tier = _tier(sum(map(_bytes, fresh)))
            # What is smaller than the new delta becomes a part of it, so older deltas are of higher tiers.
            while older and _is_delta(older[-1]) and older[-1].note["tier"] < tier:
                fresh.insert(0, older.pop())
            self._table.chunks = [*older, self._merged(fresh, tier)]
            self._merge_tiers()
        self._sweep()

    def _merge_tiers(self) -> None:
        tier = 0
        while True:
            chunks = self._table.chunks
            alike = [one for one in chunks if _is_delta(one) and one.note["tier"] == tier]
            if len(alike) >= TIER and sum(map(_bytes, alike)) <= MERGED_MOST:
                place = chunks.index(alike[0])
                rest = [one for one in chunks if one not in alike]
                self._table.chunks = [*rest[:place], self._merged(alike, tier + 1), *rest[place:]]
            elif not any(_is_delta(one) and one.note["tier"] > tier for one in chunks):
                return
            tier += 1

    def _merged(self, chunks: Sequence[Chunk], tier: int) -> Chunk:
        return Chunk({"tier": tier}, table=self._newest([chunk.table for chunk in chunks]))

    def _sweep(self) -> None:
        """Begin a sweep if one is due, and do the share of one epoch."""
        swept = [chunk for chunk in self._table.chunks if "sweep" in chunk.note]
        if not swept:
            swept = self._begin_sweep()
        if not swept:
            return
        bits, at = swept[0].note["sweep"], swept[0].note["next"]
        parts = 1 << bits
        for part in range(at, min(parts, at + max(1, parts // EPOCHS))):
            self._sweep_part(bits, part)
            at = part + 1
        if at == parts:
            new = [_noted(one, new=None) for one in self._table.chunks if "new" in one.note]
            later = [one for one in self._table.chunks if "tier" in one.note and "sweep" not in one.note]
            self._table.chunks = [*new, *later]
        else:
            place = self._table.chunks.index(swept[0])
            self._table.chunks[place] = _noted(swept[0], next=at)

    def _begin_sweep(self) -> list[Chunk]:
        deltas = [chunk for chunk in self._table.chunks if "tier" in chunk.note]
        base = [chunk for chunk in self._table.chunks if "base" in chunk.note]
        added, rest = sum(map(_bytes, deltas)), sum(map(_bytes, base))
        if added < max(SWEPT_FROM, rest // 2):
            return []
        bits = max(0, ((added + rest) // RANGE).bit_length())
        swept = [_noted(chunk, sweep=bits) for chunk in deltas]
        swept[0] = _noted(swept[0], next=0)
        self._table.chunks = [*base, *swept]
        return swept

    def _sweep_part(self, bits: int, part: int) -> None:
        """Make one part of the new base."""
        low, high = part << (BITS - bits), (part + 1) << (BITS - bits)
        old = [one for one in self._table.chunks if "sweep" in one.note or "base" in one.note]
        rows = self._newest([_between(one, low, high) for one in old if "new" not in one.note])
        rows = rows.filter(pc.invert(rows.column(GONE))).combine_chunks()
        if rows.num_rows:
            note = {"base": 1, "bits": bits, "range": part, "new": 1}
            place = next(at for at, one in enumerate(self._table.chunks) if "sweep" in one.note)
            self._table.chunks.insert(place, Chunk(note, table=rows))

    def _newest(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Of each key the last row, sorted by hash."""
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
            alike = _equal(one, other, self._keys)
            kept = np.ones(len(hashes), dtype=bool)
            kept[again[alike]] = False
            self._drop_older(rows, order, hashes, again[~alike], kept)
            order = order[kept]
        return rows.take(pa.array(order)).combine_chunks()

    def _drop_older(
        self, rows: pa.Table, order: Positions, hashes: Words, others: Positions, kept: Any
    ) -> None:
        """Of keys that have the hash of another one, which are hardly ever there."""
        if not len(others):
            return
        keys = rows.select(self._keys).take(pa.array(order[others])).to_pylist()
        seen: set[tuple[Any, ...]] = set()
        for place, key in zip(others.tolist(), keys, strict=True):
            named = (int(hashes[place]), *(repr(key[name]) for name in self._keys))
            kept[place] = named not in seen
            seen.add(named)


def note_divided(note: dict[str, int]) -> dict[str, int]:
    """That of a chunk whose rows come into a table with those of other partitions, each of which was in
    another part of a sweep: what was swept is older than other deltas."""
    if "base" in note or "sweep" in note:
        return {"base": 1}
    return note


def _age(chunk: Chunk) -> int:
    """The base is older than deltas, of which those of a higher tier are."""
    return -chunk.note["tier"] if "tier" in chunk.note else -BITS


def _is_delta(chunk: Chunk) -> bool:
    """Whether it is a delta that no sweep takes up."""
    return "tier" in chunk.note and "sweep" not in chunk.note


def _tier(size: int) -> int:
    tier = 0
    while size >= TIER_BYTES * TIER ** (tier + 1):
        tier += 1
    return tier


def _noted(chunk: Chunk, **marks: int | None) -> Chunk:
    """The same rows, in the same file, with other marks."""
    note = {name: value for name, value in {**chunk.note, **marks}.items() if value is not None}
    return chunk.noted(note)


def _bytes(chunk: Chunk) -> int:
    return chunk.entry.bytes if chunk.entry is not None else int(chunk.table.nbytes)


def _own_hashes(chunk: Chunk) -> Words:
    """Of a chunk, ascending; not copied."""
    column = chunk.table.column(HASH)
    if column.num_chunks > 1:
        column = pa.chunked_array([column.combine_chunks()])
    hashes: Words = column.chunk(0).to_numpy() if column.num_chunks else np.empty(0, np.uint64)
    return hashes


def _between(chunk: Chunk, low: int, high: int) -> pa.Table:
    """The rows whose hash is at least `low` and below `high`, which may be 2 ** 64."""
    own = _own_hashes(chunk)
    begin = int(np.searchsorted(own, np.uint64(low), "left"))
    end = len(own) if high >> BITS else int(np.searchsorted(own, np.uint64(high), "left"))
    return chunk.table.slice(begin, end - begin)


def _prefix(hashes: Words, shift: np.uint64) -> Words:
    """The highest bits; a shift by 64 is not defined."""
    return np.zeros_like(hashes) if shift == BITS else hashes >> shift


def _flags(rows: pa.Table) -> Any:
    return rows.column(GONE).to_numpy()


def _hashes(keys: pa.Table) -> Words:
    columns = [pc.fill_null(column.cast(pa.string()), NULL) for column in keys.columns]
    joined = columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, SEPARATOR)
    if isinstance(joined, pa.ChunkedArray):
        joined = joined.combine_chunks()
    return hash_strings(joined)


def _equal(one: pa.Table, other: pa.Table, names: Sequence[str]) -> Any:
    """Row by row, whether these columns are equal; null is equal to null."""
    same = np.ones(one.num_rows, dtype=bool)
    for name in names:
        mine, its = one.column(name), other.column(name)
        equal = pc.fill_null(pc.equal(mine, its), False)
        both = pc.and_(pc.is_null(mine), pc.is_null(its))
        same &= pc.or_(equal, both).to_numpy()
    return same
