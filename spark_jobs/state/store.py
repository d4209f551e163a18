"""A partition's state on a node's local disk: one manifest per epoch over immutable, named Arrow files.

Applying epoch e writes only what changed and then manifest e, atomically (temporary file, rename). Hence a
task may be retried at any moment, rollback means opening an older manifest, and a snapshot is a manifest.
Files survive the death of a process, not the loss of the node: that is what checkpoints are for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec
import pyarrow as pa

from spark_jobs.state.tables import Chunk, ChunkEntry, PartitionState, TableState


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


class StateMissingError(LookupError):
    """The node holds no manifest for the epoch asked for: the partition cannot run here."""


_decoder = msgspec.json.Decoder(Manifest)
EMPTY = Manifest(epoch=0, generation=0)


class StateStore:
    """State directory of one partition: `<epoch>.manifest` files and the Arrow files they name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def _path(self, epoch: int) -> Path:
        return self.directory / f"{epoch}.manifest"

    def has(self, epoch: int) -> bool:
        return epoch == 0 or self._path(epoch).exists()

    def manifest(self, epoch: int) -> Manifest:
        """The manifest of an epoch (0 is empty); raises `StateMissingError`, ValueError if damaged."""
        if epoch == 0:
            return EMPTY
        try:
            data = self._path(epoch).read_bytes()
        except FileNotFoundError as error:
            raise StateMissingError(f"no state of epoch {epoch} in {self.directory}") from error
        return _decoder.decode(data)

    def open(self, manifest: Manifest) -> PartitionState:
        """The state a manifest names; tables are memory-mapped when first read."""
        tables = {
            name: TableState([Chunk(entry.note, entry=entry, load=self._load) for entry in chunks])
            for name, chunks in manifest.tables.items()
        }
        # A copy, because the operator changes it and the manifest must stay what it was.
        values, maps = msgspec.json.decode(msgspec.json.encode((manifest.values, manifest.maps)))
        return PartitionState(values, maps, tables)

    def _load(self, name: str) -> pa.Table:
        with pa.memory_map(str(self.directory / name)) as source:
            return pa.ipc.open_file(source).read_all()

    def commit(
        self, state: PartitionState, *, epoch: int, generation: int, deterministic: bool = True
    ) -> Manifest:
        """Write the new chunks, then the manifest. Repeating it gives the same files if it computes the same;
        otherwise their names must not be taken for those of another attempt, here or in storage."""
        self.directory.mkdir(parents=True, exist_ok=True)
        tables: dict[str, list[ChunkEntry]] = {}
        attempt = f"{epoch}.{generation}" if deterministic else f"{epoch}.{generation}.{token_hex(4)}"
        for name, table in state.tables.items():
            entries: list[ChunkEntry] = []
            for position, chunk in enumerate(table):
                if chunk.entry is None:
                    chunk.entry = self._write(f"{attempt}.{name}.{position}.arrow", chunk)
                entries.append(chunk.entry)
            if entries:
                tables[name] = entries
        manifest = Manifest(
            epoch=epoch, generation=generation, values=state.values, maps=state.maps, tables=tables
        )
        self.install(manifest)
        return manifest

    def _write(self, name: str, chunk: Chunk) -> ChunkEntry:
        # Several processes may write the same name after a retry; each renames its own complete file.
        temporary = self.directory / f".{name}.{os.getpid()}"
        with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, chunk.table.schema) as writer:
            writer.write_table(chunk.table)
        size = temporary.stat().st_size
        temporary.rename(self.directory / name)
        return ChunkEntry(name=name, rows=chunk.table.num_rows, bytes=size, note=chunk.note)

    def install(self, manifest: Manifest) -> None:
        """Make a manifest visible; its files must be there."""
        self.directory.mkdir(parents=True, exist_ok=True)
        temporary = self.directory / f".{manifest.epoch}.manifest.{os.getpid()}"
        temporary.write_bytes(msgspec.json.encode(manifest))
        temporary.rename(self._path(manifest.epoch))

    def epochs(self) -> list[int]:
        """Epochs with a manifest, ascending."""
        if not self.directory.is_dir():
            return []
        names = (entry.name for entry in os.scandir(self.directory))
        return sorted(int(name.removesuffix(".manifest")) for name in names if _is_manifest(name))

    def rollback(self, epoch: int) -> None:
        """Forget everything after `epoch`."""
        for later in self.epochs():
            if later > epoch:
                self._path(later).unlink(missing_ok=True)

    def trim(self, *, below: int, keep: Iterable[int] = ()) -> None:
        """Delete manifests of epochs below `below` except those in `keep`, then files no manifest names."""
        kept_epochs = set(keep)
        named: set[str] = set()
        for epoch in self.epochs():
            if epoch < below and epoch not in kept_epochs:
                self._path(epoch).unlink(missing_ok=True)
            else:
                named.update(entry.name for entry in self.manifest(epoch).files())
        if not self.directory.is_dir():
            return
        for entry in os.scandir(self.directory):
            if entry.name.endswith(".arrow") and entry.name not in named:
                Path(entry.path).unlink(missing_ok=True)


def _is_manifest(name: str) -> bool:
    return name.endswith(".manifest") and not name.startswith(".")
