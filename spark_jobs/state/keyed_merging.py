"""Merging the files of a table by key, a little in each epoch.

An epoch adds one chunk, a *delta*, with the keys that it changed; eight deltas of a size are merged into one
of the next size, up to 64 MB. When deltas amount to half of the rest, they are swept into the *base*. What
is large is done in parts: the range of hashes is cut into parts of at most 8 MB, of which an epoch merges
one, and at most another one in a sweep, or a 128th of the whole, if that is more. A sweep goes on with what
is added, so that it is done when half of what begins the next one is there.

Chunks are in the order of age, so the last one that has a key says what it is: base (first what it was
before a sweep, then what the sweep has made), deltas that are swept, deltas. Among deltas, those that a
merge takes come before the parts that it has made, which hold the same rows. All that is needed to go on is
in the notes of the chunks:

    tier            a delta, and its size
    fresh           a delta of the present epoch
    base            a part of the base
    bits, range     the hashes that it has: those with this prefix of so many bits
    delta           number of the delta of which it is a part
    merge           of a delta that is being merged: bits of the parts; the first one has `into`, the number
                    of the new delta, and `made`, how many parts of it there are
    sweep           of a delta that is swept: bits of the parts; the first one has `next`, the next part, and
                    `age`, the epochs since the sweep began
    new             a part of the base that the present sweep has made
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.state.chunks import Chunk, TableState
from spark_jobs.state.keyed_rows import BITS, GONE, newest_rows, rows_between

TIER: Final = 8
"""Deltas of a tier that become one of the next tier, and how many times larger those of the next tier are."""
TIER_BYTES: Final = 64 << 10
"""Bytes of a delta, below eight times of which it is of tier 0."""
MERGED_MOST: Final = 64 << 20
"""Bytes of a delta that is not merged with others any more."""
RANGE: Final = 8 << 20
"""Bytes of a part of the base, or of a delta that is merged."""
MOST_BITS: Final = 8
"""Of the number of a part: more of them would not make an epoch of a sweep shorter, and each is a file."""
SWEPT_FROM: Final = 1 << 20
"""Bytes of deltas below which nothing is swept."""
EPOCHS: Final = 128
"""In about so many a sweep is done where much is added."""
SLOWEST: Final = 8
"""Epochs in which a sweep makes one part at least."""
DONE_AT: Final = 0.5
"""Of the bytes of deltas with which the next sweep begins: by then this one is done. A slower sweep would
spread better what it writes, but a state in the middle of it is larger."""


class Merging:
    """Of one table with these `keys` columns, at the end of an epoch."""

    def __init__(self, table: TableState, keys: Sequence[str]) -> None:
        self._table = table
        self._keys = keys

    def settle(self) -> None:
        """One delta of what changed, and the merging that is due."""
        chunks = self._table.chunks
        fresh = [chunk for chunk in chunks if "fresh" in chunk.note]
        if fresh:
            older = [chunk for chunk in chunks if "fresh" not in chunk.note]
            tier = _tier(sum(map(_bytes, fresh)))
            # What is smaller than the new delta becomes a part of it, so older deltas are of higher tiers.
            while older and _is_delta(older[-1]) and older[-1].note["tier"] < tier:
                fresh.insert(0, older.pop())
            self._table.chunks = [*older, self._merged(fresh, tier)]
        self._merge_part()
        self._sweep()  # before another merge begins: it waits for one that has begun
        if fresh:
            self._merge_tiers()

    # ---- deltas ----------------------------------------------------------------------------------

    def _merge_tiers(self) -> None:
        """Merge what is small at once, or begin to merge it in parts."""
        tier = 0
        while any(_is_delta(chunk) and chunk.note["tier"] >= tier for chunk in self._table.chunks):
            if self._under_way():
                return  # one at a time: what is newer must stay behind its parts
            alike = [one for one in self._table.chunks if _is_delta(one) and one.note["tier"] == tier]
            size = sum(map(_bytes, alike))
            if _count(alike) >= TIER and size <= MERGED_MOST:
                if size <= RANGE:
                    self._merge_at_once(alike, tier + 1)
                else:
                    self._begin_merge(alike, size)
            tier += 1

    def _merge_at_once(self, alike: Sequence[Chunk], tier: int) -> None:
        place = self._table.chunks.index(alike[0])
        rest = [one for one in self._table.chunks if one not in alike]
        self._table.chunks = [*rest[:place], self._merged(alike, tier), *rest[place:]]

    def _under_way(self) -> list[Chunk]:
        """The deltas that are merged in parts."""
        return [chunk for chunk in self._table.chunks if "merge" in chunk.note]

    def _begin_merge(self, alike: Sequence[Chunk], size: int) -> None:
        number = 1 + max(chunk.note.get("delta", 0) for chunk in self._table.chunks)
        for chunk in alike:
            first = {"into": number, "made": 0} if chunk is alike[0] else {}
            place = self._table.chunks.index(chunk)
            self._table.chunks[place] = _noted(chunk, merge=(size // RANGE).bit_length(), **first)

    def _merge_part(self) -> None:
        """Make the next part of the delta that is under way."""
        merged = self._under_way()
        if not merged:
            return
        chunks, first = self._table.chunks, merged[0].note
        bits, number, part = first["merge"], first["into"], first["made"]
        rows = self._part(merged, bits, part)
        if rows.num_rows:
            note = {"tier": first["tier"] + 1, "delta": number, "bits": bits, "range": part}
            last = max(at for at, one in enumerate(chunks) if _is_of_merge(one, number))
            chunks.insert(last + 1, Chunk(note, table=rows))
        if part + 1 == 1 << bits:
            self._table.chunks = [chunk for chunk in chunks if "merge" not in chunk.note]
        else:
            chunks[chunks.index(merged[0])] = _noted(merged[0], made=part + 1)

    def _merged(self, chunks: Sequence[Chunk], tier: int) -> Chunk:
        return Chunk({"tier": tier}, table=newest_rows([chunk.table for chunk in chunks], self._keys))

    def _part(self, chunks: Sequence[Chunk], bits: int, part: int) -> pa.Table:
        """The newest rows of these chunks in a part of the hashes."""
        read = [chunk for chunk in chunks if overlaps(chunk, bits, part)] or chunks[:1]
        return newest_rows([rows_between(chunk, bits, part) for chunk in read], self._keys)

    # ---- the base --------------------------------------------------------------------------------

    def _sweep(self) -> None:
        """Begin a sweep if one is due, and do the share of one epoch."""
        swept = [chunk for chunk in self._table.chunks if "sweep" in chunk.note]
        if not swept and not self._under_way():
            swept = self._begin_sweep()
        if not swept:
            return
        first = swept[0].note
        bits, at, age = first["sweep"], first["next"], first.get("age", 0)
        parts = 1 << bits
        due = min(parts, max(self._due(parts), 1 + age // SLOWEST))
        for part in range(at, min(due, at + max(1, parts // EPOCHS))):
            self._sweep_part(bits, part)
            at = part + 1
            self._table.chunks = [one for one in self._table.chunks if not _is_swept(one, bits, at)]
        if at == parts:
            new = [_noted(one, new=None) for one in self._table.chunks if "new" in one.note]
            later = [one for one in self._table.chunks if "tier" in one.note and "sweep" not in one.note]
            self._table.chunks = [*new, *later]
        else:
            place = self._table.chunks.index(swept[0])
            self._table.chunks[place] = _noted(swept[0], next=at, age=age + 1)

    def _begin_sweep(self) -> list[Chunk]:
        deltas = [chunk for chunk in self._table.chunks if "tier" in chunk.note]
        base = [chunk for chunk in self._table.chunks if "base" in chunk.note]
        added, rest = sum(map(_bytes, deltas)), sum(map(_bytes, base))
        if added < max(SWEPT_FROM, rest // 2):
            return []
        bits = min(MOST_BITS, ((added + rest) // RANGE).bit_length())
        swept = [_noted(chunk, sweep=bits) for chunk in deltas]
        swept[0] = _noted(swept[0], next=0)
        self._table.chunks = [*base, *swept]
        return swept

    def _due(self, parts: int) -> int:
        """How many parts of a sweep are to be made by now, by what was added since it began: all of them well
        before the next one."""
        added = sum(_bytes(one) for one in self._table.chunks if _is_delta(one))
        rest = sum(_bytes(one) for one in self._table.chunks if "base" in one.note)
        return 1 + math.ceil(parts * added / max(1, rest // 2 * DONE_AT))

    def _sweep_part(self, bits: int, part: int) -> None:
        """Make one part of the new base."""
        old = [one for one in self._table.chunks if "sweep" in one.note or "base" in one.note]
        rows = self._part([one for one in old if "new" not in one.note], bits, part)
        rows = rows.filter(pc.invert(rows.column(GONE))).combine_chunks()
        if rows.num_rows:
            note = {"base": 1, "bits": bits, "range": part, "new": 1}
            place = next(at for at, one in enumerate(self._table.chunks) if "sweep" in one.note)
            self._table.chunks.insert(place, Chunk(note, table=rows))


def put_in_order(table: TableState) -> None:
    """Of a state that was divided, which has chunks of several partitions: the base is older than deltas, of
    which those of a higher tier are. Of all others this changes nothing."""
    if not any("sweep" in chunk.note for chunk in table.chunks):
        table.chunks.sort(key=lambda chunk: -_tier_noted(chunk) if "tier" in chunk.note else -BITS)


def note_divided(note: dict[str, int]) -> dict[str, int]:
    """That of a chunk whose rows come into a table with those of other partitions, each of which was in
    another part of a sweep or merge: what was swept is older than other deltas."""
    if "base" in note or "sweep" in note:
        return {"base": 1}
    return {"tier": note["tier"] + ("merge" in note)} if "tier" in note else note


def _tier_noted(chunk: Chunk) -> int:
    """What is being merged is as old as the next tier, of which it becomes a part."""
    return chunk.note["tier"] + ("merge" in chunk.note)


def _is_delta(chunk: Chunk) -> bool:
    """Whether it is a delta that no sweep takes up."""
    return "tier" in chunk.note and "sweep" not in chunk.note


def _is_of_merge(chunk: Chunk, number: int) -> bool:
    return "merge" in chunk.note or ("sweep" not in chunk.note and chunk.note.get("delta") == number)


def _is_swept(chunk: Chunk, bits: int, made: int) -> bool:
    """Whether a chunk is of the old base, and of hashes that so many new parts have."""
    own, its = chunk.note.get("bits", 0), chunk.note.get("range", 0)
    return "base" in chunk.note and "new" not in chunk.note and (its + 1) << bits <= made << own


def _count(deltas: Sequence[Chunk]) -> int:
    """Of which some are in parts."""
    parts = [chunk.note["delta"] for chunk in deltas if "delta" in chunk.note]
    return len(deltas) - len(parts) + len(set(parts))


def overlaps(chunk: Chunk, bits: int, part: int) -> bool:
    """Whether a chunk may have rows of this part."""
    own, its = chunk.note.get("bits", 0), chunk.note.get("range", 0)
    return its >> (own - bits) == part if own >= bits else part >> (bits - own) == its


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
