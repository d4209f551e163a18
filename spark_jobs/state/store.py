"""A partition's state on a node's local disk: one manifest per epoch over immutable, named Arrow files.

Applying epoch e writes only what changed and then manifest e, atomically (temporary file, rename). Hence a
task may be retried at any moment, rollback means opening an older manifest, and a snapshot is a manifest.

Files survive the death of a process. They are not forced to disk, so a host that crashes may leave some of
them empty or old; each has a checksum, and one that fails it counts as missing, like all that is lost with a
node: the partition is restored from a checkpoint.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec
import pyarrow as pa

from host.durable import remove_abandoned, write_or_remove
from spark_jobs.state.chunks import Chunk, ChunkEntry, TableState, one_dictionary_each
from spark_jobs.state.opened import OpenedFiles
from spark_jobs.state.sealed import UNREADABLE, DamagedError, checksum_of, file_checksum, seal, unseal
from spark_jobs.state.tables import StateTables


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one partition after `epoch`. `generation` is that of the plan it was computed under."""

    epoch: int
    generation: int
    values: dict[str, Any] = {}
    maps: dict[str, dict[str, Any]] = {}
    tables: dict[str, list[ChunkEntry]] = {}

    def files(self) -> list[ChunkEntry]:
        return [entry for chunks in self.tables.values() for entry in chunks]

    @property
    def bytes(self) -> int:
        return sum(entry.bytes for entry in self.files())


class StateVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest and the content of those of its files that the receiver does not have, by name."""

    manifest: Manifest
    files: dict[str, bytes]


class StateMissingError(LookupError):
    """The node does not hold, or not whole, the state asked for: the partition has to be restored first."""


_manifests = msgspec.json.Decoder(Manifest)
state_versions = msgspec.msgpack.Decoder(StateVersion)
"""Made here, before there are threads (docs/decisions/0013)."""

_MANIFEST = re.compile(r"(\d+)(?:\.(\d+))?\.manifest")
EMPTY = Manifest(epoch=0, generation=0)
_opened = OpenedFiles()
LONGEST_NAME = 180
"""Bytes; file systems take 255, of which checksums and temporary names need some."""


def decode_manifest(body: bytes, where: str, *, epoch: int) -> Manifest:
    """A manifest that was read from `where`. Raises `DamagedError` if it is none, of another epoch, or names
    files outside its directory."""
    try:
        manifest = _manifests.decode(body)
    except UNREADABLE as error:
        raise DamagedError(f"{where} is damaged: {error}", where) from error
    if manifest.epoch != epoch:
        raise DamagedError(f"{where} is the state of epoch {manifest.epoch}, not of {epoch}", where)
    for entry in manifest.files():
        if not plain_name(entry.name):
            raise DamagedError(f"{where} names {entry.name!r}, which is not the name of a state file", where)
    return manifest


def plain_name(name: str, longest: int = LONGEST_NAME) -> bool:
    """Whether a stored name stays in the directory that it is looked for in."""
    return (
        0 < len(name.encode(errors="replace")) <= longest
        and not name.startswith(".")
        and name.isprintable()
        and not set("/\\").intersection(name)
    )


class StateStore:
    """State directory of one partition: `<epoch>.manifest` files and the Arrow files they name.

    attempt: where an epoch computed again comes out otherwise, a number that grows with every time; 0 where
    it does not. Then manifests are `<epoch>.<attempt>.manifest`, the highest attempt counts and removes those
    below it: what a task writes late that was given up, in a history that was undone, is never read.
    """

    def __init__(self, directory: Path, attempt: int = 0) -> None:
        self.directory = directory
        self.attempt = attempt

    @property
    def used(self) -> bool:
        """Whether there is a state, of whichever epoch."""
        return bool(self._attempts())

    def _path(self, epoch: int) -> Path:
        """Where the state after an epoch is, or would be."""
        attempts = self._attempts().get(epoch, ()) if self.attempt else ()
        return self._named(epoch, max(attempts, default=self.attempt))

    def _named(self, epoch: int, attempt: int) -> Path:
        return self.directory / (f"{epoch}.{attempt}.manifest" if attempt else f"{epoch}.manifest")

    def _attempts(self) -> dict[int, list[int]]:
        """Epoch -> the attempts at it that have left a manifest."""
        found: dict[int, list[int]] = {}
        if self.directory.is_dir():
            for entry in os.scandir(self.directory):
                if name := _MANIFEST.fullmatch(entry.name):
                    found.setdefault(int(name[1]), []).append(int(name[2] or 0))
        return found

    def manifest(self, epoch: int) -> Manifest:
        """The manifest of an epoch (0 is empty); raises `StateMissingError`."""
        if epoch == 0:
            return EMPTY
        path = self._path(epoch)
        try:
            return decode_manifest(unseal(path.read_bytes(), str(path)), str(path), epoch=epoch)
        except FileNotFoundError as error:
            raise StateMissingError(f"no state of epoch {epoch} in {self.directory}") from error
        except DamagedError as error:
            raise StateMissingError(str(error)) from error

    def open(self, manifest: Manifest) -> StateTables:
        """The state a manifest names; tables are memory-mapped when first read."""
        tables = {
            name: TableState([Chunk(entry.note, entry=entry, load=self._load) for entry in chunks])
            for name, chunks in manifest.tables.items()
        }
        # A copy, because the operator changes it and the manifest must stay what it was.
        values, maps = msgspec.json.decode(msgspec.json.encode((manifest.values, manifest.maps)))
        return StateTables(values, maps, tables)

    def _load(self, entry: ChunkEntry) -> pa.Table:
        path = self.directory / entry.name

        def check(content: memoryview) -> None:
            if problem := _difference(entry, content.nbytes, lambda: checksum_of(content)):
                raise StateMissingError(f"{path} is damaged: {problem}")

        try:
            return _opened.table(path, entry, check)
        except FileNotFoundError as error:
            raise StateMissingError(f"{path} is missing") from error
        except pa.ArrowInvalid as error:
            raise StateMissingError(f"{path} is damaged: {error}") from error

    def lacks(self, entry: ChunkEntry) -> bool:
        """Whether a file is not here as it was written, or cannot be read."""
        try:
            return difference(entry, self.directory / entry.name) != ""
        except OSError:
            return True

    def bring(self, entry: ChunkEntry, fetch: Callable[[Path], object]) -> bool:
        """See to it that a file is here, as it was written; returns whether it had to be fetched. fetch:
        writes it to a path."""
        if not self.lacks(entry):
            return False
        self.directory.mkdir(parents=True, exist_ok=True)
        temporary = self.directory / f".{entry.name}.{os.getpid()}"
        try:
            fetch(temporary)
            temporary.rename(self.directory / entry.name)
        finally:
            temporary.unlink(missing_ok=True)
        return True

    def commit(self, state: StateTables, *, epoch: int, generation: int) -> Manifest:
        """Write the new chunks, then the manifest."""
        manifest = self.write(state, epoch=epoch, generation=generation)
        self.install(manifest)
        return manifest

    def write(self, state: StateTables, *, epoch: int, generation: int) -> Manifest:
        """Write the new chunks; returns the manifest that names them. Repeating it gives the same files if it
        computes the same; otherwise their names must not be taken for those of another time, here or in
        storage."""
        state.settle()
        self.directory.mkdir(parents=True, exist_ok=True)
        tables: dict[str, list[ChunkEntry]] = {}
        prefix = f"{epoch}.{generation}.{token_hex(4)}" if self.attempt else f"{epoch}.{generation}"
        for name, table in state.tables.items():
            entries: list[ChunkEntry] = []
            for position, chunk in enumerate(table):
                if chunk.entry is None:
                    chunk.entry = self._write(f"{prefix}.{name}.{position}.arrow", chunk)
                entries.append(chunk.entry)
            if entries:
                tables[name] = entries
        return Manifest(
            epoch=epoch, generation=generation, values=state.values, maps=state.maps, tables=tables
        )

    def _write(self, name: str, chunk: Chunk) -> ChunkEntry:
        if not plain_name(name):
            raise ValueError(
                f"{name!r} cannot be the name of a file: give the table of the state another one"
            )
        if not all(type(value) is int for value in chunk.note.values()):
            raise ValueError(f"the note {chunk.note!r} of a chunk of the state must have whole numbers only")
        # Several processes may write the same name after a retry; each renames its own complete file.
        temporary = self.directory / f".{name}.{os.getpid()}"
        sink = pa.BufferOutputStream()
        table = one_dictionary_each(chunk.table)
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        content = memoryview(sink.getvalue())
        checksum = checksum_of(content)
        write_or_remove(temporary, content)
        _opened.wrote(self.directory / name, temporary, checksum)
        temporary.rename(self.directory / name)
        return ChunkEntry(
            name=name, rows=table.num_rows, bytes=content.nbytes, note=chunk.note, checksum=checksum
        )

    def install(self, manifest: Manifest) -> None:
        """Make a manifest visible; its files must be there."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self._named(manifest.epoch, self.attempt)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        write_or_remove(temporary, seal(msgspec.json.encode(manifest)))
        temporary.rename(path)
        if self.attempt:
            older = [one for one in self._attempts().get(manifest.epoch, ()) if one < self.attempt]
            self._forget(manifest.epoch, older)

    def versions(self, *, after: int, last: int) -> Iterator[StateVersion]:
        """The states of the epochs after+1..last, for a store that has the state of `after`. Raises
        `StateMissingError` if one of them is not here."""
        sent = {entry.name for entry in self.manifest(after).files()}
        for epoch in range(after + 1, last + 1):
            manifest = self.manifest(epoch)
            new = {entry.name for entry in manifest.files()} - sent
            sent |= new
            files = {entry.name: self._read(entry) for entry in manifest.files() if entry.name in new}
            yield StateVersion(manifest=manifest, files=files)

    def version(self, epoch: int) -> StateVersion:
        """The state of an epoch, whole, for a store that has none of it. Raises `StateMissingError`."""
        manifest = self.manifest(epoch)
        files = {entry.name: self._read(entry) for entry in manifest.files()}
        return StateVersion(manifest=manifest, files=files)

    def _read(self, entry: ChunkEntry) -> bytes:
        content = (self.directory / entry.name).read_bytes()
        if problem := _difference(entry, len(content), lambda: checksum_of(content)):
            raise StateMissingError(f"{self.directory / entry.name} is damaged: {problem}")
        return content

    def receive(self, version: StateVersion) -> None:
        """Take over a state that another node has sent; repeatable."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for name, content in version.files.items():
            if not plain_name(name):
                raise StateMissingError(f"what was handed over names {name!r}, which is no state file")
            temporary = self.directory / f".{name}.{os.getpid()}"
            write_or_remove(temporary, content)
            temporary.rename(self.directory / name)
        self.install(version.manifest)

    def begin_from(self, other: StateStore, epoch: int) -> None:
        """Have the state that another directory of this disk holds after an epoch, and no other; files are
        linked. Raises `StateMissingError`."""
        manifest = other.manifest(epoch)
        self.remove()
        self.directory.mkdir(parents=True, exist_ok=True)
        for entry in manifest.files():
            try:
                os.link(other.directory / entry.name, self.directory / entry.name)
            except FileNotFoundError as error:
                raise StateMissingError(f"{other.directory / entry.name} is missing") from error
        if epoch:
            self.install(manifest)

    def remove(self) -> None:
        """Leave nothing."""
        if self.directory.is_dir():
            shutil.rmtree(self.directory, ignore_errors=True)

    def rollback(self, epoch: int) -> None:
        """Forget everything after `epoch` but later attempts, if this one was given up and does not know."""
        for later, attempts in self._attempts().items():
            if later > epoch:
                self._forget(later, [one for one in attempts if not self.attempt or one <= self.attempt])

    def _forget(self, epoch: int, attempts: Iterable[int]) -> None:
        for attempt in attempts:
            self._named(epoch, attempt).unlink(missing_ok=True)

    def trim(self, *, below: int, keep: Iterable[int] = ()) -> None:
        """Delete manifests of epochs below `below` except those in `keep`, then files no manifest names, and
        what tasks that were killed had begun to write."""
        kept_epochs = set(keep)
        named: set[str] = set()
        for epoch, attempts in self._attempts().items():
            if (epoch < below and epoch not in kept_epochs) or not (self.attempt or 0 in attempts):
                self._forget(epoch, attempts)
                continue
            try:
                named.update(entry.name for entry in self.manifest(epoch).files())
            except StateMissingError:  # damaged: of no use to any epoch that would start from it
                self._forget(epoch, attempts)
        if self.directory.is_dir():
            for entry in os.scandir(self.directory):
                if entry.name.endswith(".arrow") and entry.name not in named:
                    Path(entry.path).unlink(missing_ok=True)
        remove_abandoned(self.directory)


def difference(entry: ChunkEntry, path: Path) -> str:
    """In which respect a file is not the one of the entry; empty if it is."""
    try:
        return _difference(entry, path.stat().st_size, lambda: file_checksum(path))
    except FileNotFoundError:
        return "it is missing"


def _difference(entry: ChunkEntry, size: int, checksum: Callable[[], str]) -> str:
    if size != entry.bytes:
        return f"it has {size} bytes, not {entry.bytes}"
    if entry.checksum and checksum() != entry.checksum:
        return "its checksum is not the one that it was written with"
    return ""
