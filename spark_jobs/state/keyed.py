"""State by key that may be larger than memory: the newest row of each key, in files of which few are written.

A log-structured merge tree over the immutable chunks of a table. Every row has the hash of its key, by
which each chunk is sorted. An epoch adds one chunk with the keys that it changed; what it leaves behind is
merged a little in each epoch (`keyed_merging`), so that none takes long. A checkpoint stores what changed
since the one before, and what was merged meanwhile.

Chunks are in the order of age, so the last one that has a key says what it is. A key that was removed is
kept as gone. Lookups read the pages of mapped files that they need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.state.chunks import Chunk, TableState
from spark_jobs.state.key_hash import Words
from spark_jobs.state.keyed_merging import Merging, put_in_order
from spark_jobs.state.keyed_rows import (
    GONE,
    HASH,
    Positions,
    equal_keys,
    hashes_of,
    newest_rows,
    own_hashes,
    span,
)

Numbers = np.ndarray[Any, np.dtype[Any]]


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

    def added_to(self, numbers: Numbers, column: str) -> Numbers:
        """`numbers`, one for each key, each with what its row has in this column."""
        sums = numbers.copy()
        there = np.flatnonzero(~self.missing)
        if len(there):
            sums[there] += self.rows.column(column).to_numpy()[self.at[there]]
        return sums

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
        put_in_order(table)

    def find(self, keys: pa.Table) -> Found:
        """The rows of these keys; columns of other names are ignored."""
        wanted = keys.select(self._keys).combine_chunks()
        hashes = hashes_of(wanted)
        answer = self._of_hashes(wanted, hashes)
        hits, rows = answer if answer is not None else self._of_keys(wanted, hashes)
        if rows is None:
            return Found(np.full(len(hashes), -1, np.int64), wanted.slice(0, 0))
        gone = rows.column(GONE).to_numpy()
        if gone.any():
            hits, rows = hits[~gone], rows.filter(pa.array(~gone))
        at = np.full(len(hashes), -1, np.int64)
        at[hits] = np.arange(len(hits))
        return Found(at, rows.drop_columns([HASH, GONE]))

    def put(self, rows: pa.Table) -> None:
        """Set the rows of their keys; of a key that comes twice the last row counts."""
        self._add(rows, gone=False)

    def remove(self, keys: pa.Table) -> None:
        """Forget these keys."""
        self._add(keys.select(self._keys), gone=True)

    def read(self) -> pa.Table | None:
        """The rows of all keys, in the order of their hashes; None if there are none."""
        chunks = [chunk.table for chunk in self._table.chunks]
        rows = newest_rows(chunks, self._keys) if chunks else None
        if rows is None:
            return None
        rows = rows.filter(pc.invert(rows.column(GONE))).drop_columns([HASH, GONE])
        return rows if rows.num_rows else None

    def settle(self) -> None:
        """At the end of an epoch: one chunk of what changed, and the merging that is due."""
        Merging(self._table, self._keys).settle()

    def _add(self, rows: pa.Table, *, gone: bool) -> None:
        if not rows.num_rows:
            return
        flags = pa.repeat(pa.scalar(gone), rows.num_rows)
        hashes = pa.array(hashes_of(rows.select(self._keys)))
        marked = rows.append_column(HASH, hashes).append_column(GONE, flags)
        self._table.chunks.append(Chunk({"tier": 0, "fresh": 1}, table=newest_rows([marked], self._keys)))

    def _of_hashes(self, wanted: pa.Table, hashes: Words) -> tuple[Positions, pa.Table | None] | None:
        """Which of the keys have a row, and these rows, the newest ones, also of keys that are gone. None if
        several keys have one hash."""
        left = np.argsort(hashes, kind="stable")
        hashes = hashes[left]  # of those that are left, ascending, as those of each chunk are
        hits, pieces = [np.empty(0, np.int64)], list[pa.Table]()
        for chunk in reversed(self._table.chunks):
            begin, end = 0, len(left)
            if "bits" in chunk.note:
                begin, end = span(hashes, chunk.note["bits"], chunk.note["range"])
            if begin == end:
                continue
            own, asked = own_hashes(chunk), hashes[begin:end]
            places = np.searchsorted(own, asked)
            known = np.flatnonzero(own.take(places, mode="clip") == asked)
            if not len(known):
                continue
            places = places[known]
            again = np.flatnonzero(places + 1 < len(own))
            if (own[places[again]] == own[places[again] + 1]).any():
                return None
            hits.append(left[begin + known])
            pieces.append(chunk.table.take(pa.array(places)))
            others = np.ones(len(left), dtype=bool)
            others[begin + known] = False
            left, hashes = left[others], hashes[others]
        found, rows = np.concatenate(hits), _together(pieces)
        if rows is not None and not equal_keys(wanted.take(pa.array(found)), rows, self._keys).all():
            return None
        return found, rows

    def _of_keys(self, wanted: pa.Table, hashes: Words) -> tuple[Positions, pa.Table | None]:
        """The same, with each key compared before its row counts."""
        left = np.arange(len(hashes))
        found, pieces = [np.empty(0, np.int64)], list[pa.Table]()
        for chunk in reversed(self._table.chunks):
            hits, places = self._hits(chunk, wanted, hashes, left)
            if len(hits):
                found.append(hits)
                pieces.append(chunk.table.take(pa.array(places)))
                left = np.setdiff1d(left, hits, assume_unique=True)
        return np.concatenate(found), _together(pieces)

    def _hits(
        self, chunk: Chunk, wanted: pa.Table, hashes: Words, left: Positions
    ) -> tuple[Positions, Positions]:
        """Which of the keys `left` a chunk has, and where."""
        own = own_hashes(chunk)
        first = np.searchsorted(own, hashes[left], "left")
        behind = np.searchsorted(own, hashes[left], "right")
        hits, places = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for further in range(int((behind - first).max(initial=0))):  # more than one: hashes of several keys
            tried = np.flatnonzero(first + further < behind)
            place = first[tried] + further
            asked, rows = wanted.take(pa.array(left[tried])), chunk.table.take(pa.array(place))
            alike = equal_keys(asked, rows, self._keys)
            hits.append(left[tried[alike]])
            places.append(place[alike])
        return np.concatenate(hits), np.concatenate(places)


def _together(pieces: Sequence[pa.Table]) -> pa.Table | None:
    return pa.concat_tables(pieces, promote_options="permissive") if pieces else None
