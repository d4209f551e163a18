"""Putting a partition back to a global checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from domain.execution.job import Layout
from host.scratch import empty_directory
from spark_jobs.executor.division import SCRATCH, divided_manifest, division_sources, is_divided
from spark_jobs.state.checkpoint_storage import CheckpointStorage, Deployment, Found
from spark_jobs.state.chunks import ChunkEntry
from spark_jobs.state.records import CheckpointRecord
from spark_jobs.state.sealed import DamagedError, file_checksum
from spark_jobs.state.state_storage import StorageError
from spark_jobs.state.store import Manifest, StateStore

Result = TypeVar("Result")


class RestoreError(RuntimeError):
    """The checkpoint of a partition cannot be read; the message says which file and why. damaged: it is of no
    use, so that an older one has to do; otherwise the storage cannot be reached, and it may do later."""

    def __init__(self, message: str, hint: str, *, damaged: bool) -> None:
        super().__init__(message)
        self.hint = hint
        self.damaged = damaged


def restore_partition(store: StateStore, layout: Layout, partition: str, checkpoint: int) -> None:
    """Install cp(P_k), k = `checkpoint` (0: empty), and forget everything after it. Repeatable.

    What is stored decides, not what the node may still have on its disk: that can stem from a run that was
    rolled back, or from an earlier deployment. Every file is checked by size and checksum; those that the
    node has already are not fetched again.
    """
    bring_partition(store, layout, partition, checkpoint)
    store.rollback(checkpoint)


def bring_partition(store: StateStore, layout: Layout, partition: str, checkpoint: int) -> None:
    """Install cp(P_k), k = `checkpoint` (0: empty), and leave everything else as it is. Repeatable."""
    if checkpoint:
        with _reading(layout, partition, checkpoint) as stored:
            store.directory.mkdir(parents=True, exist_ok=True)
            if is_divided(layout, partition, checkpoint):
                manifest = divided_manifest(store, layout, partition, stored.record(), stored.bring_all)
            else:
                manifest = stored.bring(partition, store)
        store.install(manifest)


def whole_in_storage(store: StateStore, layout: Layout, partition: str, checkpoint: int) -> bool:
    """Whether a partition could be put back to this checkpoint. What could not be is set aside."""
    try:
        if checkpoint:
            with _reading(layout, partition, checkpoint) as stored:
                store.directory.mkdir(parents=True, exist_ok=True)
                if not is_divided(layout, partition, checkpoint):
                    stored.bring(partition, store)
                    return True
                for source in division_sources(layout, partition, stored.record()):
                    with empty_directory(store.directory / SCRATCH) as scratch:
                        stored.bring_all(source, scratch)
    except RestoreError:
        return False
    return True


class _Stored:
    """A checkpoint in storage. Raises `DamagedError` and `StorageError`."""

    def __init__(self, storage: CheckpointStorage, deployment: Deployment, checkpoint: int) -> None:
        self._storage = storage
        self._deployment = deployment
        self._checkpoint = checkpoint

    def record(self) -> CheckpointRecord:
        return _twice(lambda: self._storage.record(self._deployment, self._checkpoint))

    def bring(self, partition: str, store: StateStore) -> Manifest:
        """The manifest of a partition, whose files are in a store then; those that it has are not fetched."""
        found = _twice(lambda: self._storage.find(self._deployment, self._checkpoint, partition))
        files = found.manifest.files()
        entries = {entry.name: _bring(store, self._storage, found, entry) for entry in files}
        tables = {
            name: [entries[entry.name] for entry in chunks] for name, chunks in found.manifest.tables.items()
        }
        return msgspec.structs.replace(found.manifest, tables=tables)

    def bring_all(self, partition: str, directory: Path) -> Manifest:
        """The same into a directory that has nothing yet."""
        return self.bring(partition, StateStore(directory))


@contextmanager
def _reading(layout: Layout, partition: str, checkpoint: int) -> Iterator[_Stored]:
    """The checkpoint in storage, and what goes wrong as a `RestoreError`. What is damaged is set aside."""
    deployment = Deployment(layout.spec.name, layout.deployed)
    try:
        with closing(CheckpointStorage(layout.checkpoints)) as storage:
            try:
                yield _Stored(storage, deployment, checkpoint)
            except DamagedError as error:
                storage.set_aside(error.paths)
                raise
    except DamagedError as error:
        raise RestoreError(
            f"checkpoint {checkpoint} of {partition} cannot be restored: {error}",
            "All partitions start again from the newest checkpoint before it that is whole; nothing is lost. "
            "If there is none, this is tried again: bring the file back from a backup, or deploy the "
            "topology again to start from its first tuple.",
            damaged=True,
        ) from error
    except (StorageError, OSError) as error:
        raise RestoreError(
            f"checkpoint {checkpoint} of {partition} cannot be read: {error}",
            "Make the checkpoint storage readable, or restore the topology to another checkpoint.",
            damaged=False,
        ) from error


def _bring(store: StateStore, storage: CheckpointStorage, found: Found, entry: ChunkEntry) -> ChunkEntry:
    """See to it that a file is on the node's disk; returns its entry with a checksum."""
    store.bring(entry, lambda target: _twice(lambda: storage.fetch(found, entry, target)))
    if entry.checksum:
        return entry
    return msgspec.structs.replace(entry, checksum=file_checksum(store.directory / entry.name))


def _twice(read: Callable[[], Result]) -> Result:
    """What is damaged may have been so on its way."""
    try:
        return read()
    except DamagedError:
        return read()
