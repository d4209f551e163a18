"""Under which names the states of keys are kept, one by one, in any storage that keeps objects by name.

    <url>/<topology>/<deployed>/keys/<partition directory>/<generation>.<epoch>.<number>.<checksum>.piece
                                    the states of some keys of a partition after an epoch
    <url>/<topology>/<deployed>/keys/<partition directory>/<generation>.<epoch>.<checksum>.index
                                    which keys were stored then, and in which piece each is

What one request stores is a *segment*: its pieces, and then its index. An object is written once. Of a key
the segment with the greatest generation and epoch counts: a node that was taken for lost, and goes on
storing, is of an earlier generation. When a partition has many segments, those of about one size become one,
so that a fetch looks at few and what was stored again goes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from domain.topology import partition_directory
from spark_jobs.state.key_states import decoded, encoded
from spark_jobs.state.sealed import DamagedError, checksum_of
from spark_jobs.state.state_storage import NotThereError, StateStorage
from spark_jobs.state.tables import StateTables

PIECE_KEYS: Final = 4_096
"""Keys whose states are one object."""
MERGED_FROM: Final = 16
"""Segments of a partition from which the newer ones of about a size become one."""
_PIECE = re.compile(r"(\d+)\.(\d+)\.\d+\.[0-9a-f]+\.piece")
_NOT_WHOLE: Final = (DamagedError, NotThereError)
_INDEX = re.compile(r"(\d+)\.(\d+)\.([0-9a-f]+)\.index")

Take = Callable[[StateTables, pa.Array], StateTables]
"""The state of some keys alone, taken out of one with more."""
Join = Callable[[Sequence[StateTables]], StateTables]
"""The states of different keys in one."""


@dataclass(frozen=True, slots=True)
class Segment:
    """generation, epoch: of the state it was taken out of. name: of its index, which has so many bytes."""

    generation: int
    epoch: int
    name: str
    bytes: int

    @property
    def age(self) -> tuple[int, int]:
        return self.generation, self.epoch


class Index:
    """Which keys a segment has: a table of `key`, `piece` (a number) and the names of the pieces."""

    def __init__(self, keys: pa.Array, piece: pa.Array, pieces: Sequence[str]) -> None:
        self.keys, self.piece, self.pieces = keys, piece, list(pieces)

    def places(self, keys: pa.Array) -> list[tuple[int, pa.Array]]:
        """The pieces that have some of these keys, each with these."""
        place = pc.index_in(keys, value_set=self.keys)
        here = pc.is_valid(place)
        mine, at = keys.filter(here), self.piece.take(place.filter(here))
        return [(number, mine.filter(pc.equal(at, number))) for number in sorted(pc.unique(at).to_pylist())]

    def encoded(self) -> bytes:
        table = pa.table({"key": self.keys, "piece": self.piece})
        table = table.replace_schema_metadata({"pieces": "\n".join(self.pieces)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()

    @classmethod
    def decoded(cls, content: bytes, where: str) -> Index:
        """Raises `DamagedError`."""
        try:
            with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
                table = reader.read_all().combine_chunks()
            pieces = (table.schema.metadata or {})[b"pieces"].decode().split("\n")
            keys, piece = (table.column(name).combine_chunks() for name in ("key", "piece"))
            if not all(map(_PIECE.fullmatch, pieces)):
                raise DamagedError(f"{where} names something that is no piece", where)
            if len(piece) and not 0 <= pc.min(piece).as_py() <= pc.max(piece).as_py() < len(pieces):
                raise DamagedError(f"{where} names pieces that there are none of", where)
            return cls(keys, piece, pieces)
        except (pa.ArrowInvalid, KeyError, UnicodeDecodeError) as error:
            raise DamagedError(f"{where} is damaged: {error}", where) from error


class SavedKeys:
    """Those of one partition in one deployment. Raises `StorageError` of the kind that the storage raises,
    and `DamagedError`. The states that it is given and gives are those of `Operator.serialise`."""

    def __init__(self, storage: StateStorage, topology: str, deployed: int, partition: str) -> None:
        self._storage = storage
        self._directory = f"{topology}/{deployed}/keys/{partition_directory(partition)}"

    def store(self, generation: int, epoch: int, states: Iterable[tuple[pa.Array, bytes]]) -> int:
        """Store a segment, of which each of the encoded `states` is a piece, with its keys; returns the
        bytes."""
        return self._put(generation, epoch, states)[1]

    def _put(self, generation: int, epoch: int, states: Iterable[tuple[pa.Array, bytes]]) -> tuple[str, int]:
        """The same; returns the name of the index as well. All of it was looked at then."""
        pieces: list[str] = []
        numbers: list[pa.Array] = []
        keys: list[pa.Array] = []
        sizes: dict[str, int] = {}
        with TemporaryDirectory(prefix="keys-") as scratch:
            files: dict[str, Path] = {}
            for number, (mine, content) in enumerate(states):
                name = f"{generation}.{epoch}.{number}.{checksum_of(content)}.piece"
                files[self._path(name)] = path = Path(scratch) / str(number)
                path.write_bytes(content)
                pieces.append(name)
                keys.append(mine)
                numbers.append(pa.repeat(pa.scalar(number, pa.int32()), len(mine)))
                sizes[self._path(name)] = len(content)
            if not pieces:
                return "", 0
            index = Index(pa.concat_arrays(keys), pa.concat_arrays(numbers), pieces).encoded()
            name = f"{generation}.{epoch}.{checksum_of(index)}.index"
            sizes[self._path(name)] = len(index)
            self._storage.put(files, {self._path(name): index})
        self._storage.look_at(sizes, self._storage.delete)
        return name, sum(sizes.values())

    def segments(self) -> list[Segment]:
        """The newest first."""
        found = [
            Segment(int(name[1]), int(name[2]), name[0], size or 0)
            for entry, size in self._storage.entries(self._directory).items()
            if (name := _INDEX.fullmatch(entry))
        ]
        return sorted(found, key=lambda one: (one.age, one.name), reverse=True)

    def index(self, segment: Segment) -> Index:
        return Index.decoded(self._read(segment.name), self._storage.where(self._path(segment.name)))

    def piece(self, name: str) -> StateTables:
        return decoded(self._read(name), self._storage.where(self._path(name)))

    def find(
        self, keys: pa.Array, index: Callable[[Segment], Index], take: Take
    ) -> tuple[list[StateTables], int]:
        """The newest states of these keys that are whole, and of how many there are any. index: reads that of
        a segment."""
        try:
            return self._find(keys, index, take, (DamagedError,))
        except NotThereError:  # segments have become one since they were listed
            return self._find(keys, self.index, take, _NOT_WHOLE)

    def _find(
        self,
        keys: pa.Array,
        index: Callable[[Segment], Index],
        take: Take,
        without: tuple[type[Exception], ...],
    ) -> tuple[list[StateTables], int]:
        """without: what is wrong with a segment that is left out."""
        wanted, states, found = keys, list[StateTables](), 0
        for segment in self.segments():
            if not len(wanted):
                break
            try:
                held = index(segment)
            except without:
                continue
            for number, mine in held.places(wanted):
                try:
                    states.append(take(self.piece(held.pieces[number]), mine))
                except without:
                    continue
                found += len(mine)
                wanted = wanted.filter(pc.invert(pc.is_in(wanted, value_set=mine)))
        return states, found

    def merge(self, take: Take, join: Join) -> int:
        """Make one of the newest segments that are of about a size, if there are many; returns how many it
        was made of. Only the node that has the partition calls it, while it stores nothing of it."""
        segments = self.segments()
        if len(segments) < MERGED_FROM:
            return 0
        run = segments[: MERGED_FROM // 2]
        size = sum(one.bytes for one in run)
        for older in segments[len(run) :]:
            if older.bytes > size:
                break
            size += older.bytes
            run.append(older)
        left: list[pa.Array] = []
        parts: list[tuple[pa.Array, StateTables]] = []
        for segment in run:
            try:
                held = self.index(segment)
            except _NOT_WHOLE:
                continue  # which keys it has is not known any more
            fresh = held.keys
            for before in left:
                fresh = fresh.filter(pc.invert(pc.is_in(fresh, value_set=before)))
            taken = []
            for number, mine in held.places(fresh):
                try:
                    parts.append((mine, take(self.piece(held.pieces[number]), mine)))
                except _NOT_WHOLE:
                    continue  # an older state of these keys has to do
                taken.append(mine)
            left += taken
        newest = run[0]
        made, _ = self._put(newest.generation, newest.epoch, _joined(parts, join))
        self._sweep(newest, [one.name for one in run if one.name != made], made)
        return len(run)

    def _sweep(self, newest: Segment, gone: Sequence[str], made: str) -> None:
        """Delete what became one, and pieces up to then that no segment names; of a segment whose index is
        damaged they stay. gone, made: indices."""
        now = self.segments()
        if not any(one.name == made for one in now):
            return  # what was stored is not listed yet
        self._storage.delete(map(self._path, gone))
        named, unknown = set[str](), set[tuple[int, int]]()
        for one in now:
            if one.name in gone:
                continue
            try:
                named.update(self.index(one).pieces)
            except _NOT_WHOLE:
                unknown.add(one.age)
        old = [
            entry
            for entry in self._storage.entries(self._directory)
            if (piece := _PIECE.fullmatch(entry))
            and (age := (int(piece[1]), int(piece[2]))) <= newest.age
            and age not in unknown
            and entry not in named
        ]
        self._storage.delete(map(self._path, old))
        self._storage.tidy(self._directory)

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _read(self, name: str) -> bytes:
        content = self._storage.get(self._path(name))
        if checksum_of(content) != name.split(".")[-2]:
            where = self._storage.where(self._path(name))
            raise DamagedError(f"{where} is damaged: its checksum is not the one in its name", where)
        return content


def _joined(parts: Sequence[tuple[pa.Array, StateTables]], join: Join) -> Iterator[tuple[pa.Array, bytes]]:
    """In pieces of about the size that pieces have."""
    keys: list[pa.Array] = []
    states: list[StateTables] = []
    for mine, state in parts:
        keys.append(mine)
        states.append(state)
        if sum(map(len, keys)) >= PIECE_KEYS:
            yield pa.concat_arrays(keys), encoded(join(states))
            keys, states = [], []
    if keys:
        yield pa.concat_arrays(keys), encoded(join(states))
