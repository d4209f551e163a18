"""Putting a partition back to a global checkpoint."""

from __future__ import annotations

import os
import posixpath
from typing import Any

import fsspec

from domain.execution.job import Layout
from domain.topology import partition_directory
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
    root = posixpath.join(layout.checkpoints, layout.spec.name)
    directory = partition_directory(partition)
    where = posixpath.join(root, "manifests", str(checkpoint), f"{directory}.json")
    try:
        filesystem, path = fsspec.core.url_to_fs(where)
        manifest = manifests.decode(filesystem.cat_file(path))
        if _has(store, manifest):
            return
        base = posixpath.join(fsspec.core.url_to_fs(root)[1], "files", directory)
        store.directory.mkdir(parents=True, exist_ok=True)
        for entry in manifest.files():
            _fetch(filesystem, posixpath.join(base, entry.name), store, entry.name, entry.bytes)
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


def _fetch(filesystem: Any, source: str, store: StateStore, name: str, size: int) -> None:
    target = store.directory / name
    if target.exists() and target.stat().st_size == size:
        return
    temporary = store.directory / f".{name}.{os.getpid()}"
    filesystem.get_file(source, str(temporary))
    if temporary.stat().st_size != size:
        raise OSError(f"{source} has {temporary.stat().st_size} bytes, its manifest says {size}")
    temporary.rename(target)
