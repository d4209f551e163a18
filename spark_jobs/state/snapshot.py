"""A snapshot left on the node for its agent to upload: the manifest of the checkpoint's epoch."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from domain.messages import Snapshot, SnapshotFile
from domain.topology import partition_directory
from spark_jobs.state.store import Manifest

ATTEMPTS = 20


def snapshot_path(
    home: Path, topology: str, checkpoint: int, generation: int, attempt: int, partition: str
) -> Path:
    """`<node home>/snapshots/<topology>/<checkpoint>.<generation>.<attempt>/<partition directory>.json`."""
    directory = home / "snapshots" / topology / f"{checkpoint}.{generation}.{attempt}"
    return directory / f"{partition_directory(partition)}.json"


def leave_snapshot(
    home: Path, topology: str, partition: str, generation: int, manifest: Manifest, *, attempt: int = 0
) -> Path:
    """Write the snapshot atomically; the files it names stay until the driver trims them."""
    path = snapshot_path(home, topology, manifest.epoch, generation, attempt, partition)
    snapshot = Snapshot(
        topology=topology,
        partition=partition,
        checkpoint=manifest.epoch,
        generation=generation,
        attempt=attempt,
        files=[SnapshotFile(name=entry.name, bytes=entry.bytes) for entry in manifest.files()],
        manifest=msgspec.to_builtins(manifest),
    )
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    for tried in range(ATTEMPTS):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(msgspec.json.encode(snapshot))
            break
        except (FileNotFoundError, FileExistsError):
            # The agent removes directories that it finds empty: this one before the file was in it, or one
            # that was there already after it was found to be.
            if tried == ATTEMPTS - 1:
                raise
    temporary.rename(path)
    return path
