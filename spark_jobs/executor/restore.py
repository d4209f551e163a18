"""Putting a partition back to a global checkpoint."""

from __future__ import annotations

import os

from domain.execution.job import Layout
from domain.topology import partition_directory
from spark_jobs.state.checkpoint_storage import CheckpointStorage
from spark_jobs.state.store import Manifest, StateMissingError, StateStore, manifests


class RestoreError(RuntimeError):
    """The checkpoint of a partition cannot be read; the message says which file and why."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def restore_partition(store: StateStore, layout: Layout, partition: str, checkpoint: int) -> None:
    """Install cp(P_k), k = `checkpoint` (0: empty), and forget everything after it. Repeatable.

    What is stored decides, not what the node may still have on its disk: that can stem from a run that was
    rolled back, or from an earlier deployment. Files it has already are not fetched again.
    """
    if checkpoint:
        _install(store, layout, partition, checkpoint)
    store.rollback(checkpoint)


def _install(store: StateStore, layout: Layout, partition: str, checkpoint: int) -> None:
    topology, directory = layout.spec.name, partition_directory(partition)
    where = layout.checkpoints
    try:
        storage = CheckpointStorage(layout.checkpoints)
        where = storage.manifest_path(topology, checkpoint, directory)
        manifest = manifests.decode(storage.read_manifest(topology, checkpoint, directory))
        if _has(store, manifest):
            return
        store.directory.mkdir(parents=True, exist_ok=True)
        for entry in manifest.files():
            target = store.directory / entry.name
            if target.exists() and target.stat().st_size == entry.bytes:
                continue
            temporary = store.directory / f".{entry.name}.{os.getpid()}"
            storage.fetch_file(topology, directory, entry.name, temporary)
            if (size := temporary.stat().st_size) != entry.bytes:
                raise OSError(f"{entry.name} has {size} bytes, its manifest says {entry.bytes}")
            temporary.rename(target)
    except (OSError, ValueError) as error:
        raise RestoreError(
            f"checkpoint {checkpoint} of {partition} cannot be read from {where}: {error}",
            "Make the checkpoint storage readable, or restore the topology to another checkpoint.",
        ) from error
    store.install(manifest)


def _has(store: StateStore, manifest: Manifest) -> bool:
    """Whether the node's own disk holds this very state."""
    try:
        return store.manifest(manifest.epoch) == manifest
    except (StateMissingError, ValueError):
        return False
