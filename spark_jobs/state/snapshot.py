"""A snapshot left on the node for its agent to upload: the manifest of the checkpoint's epoch."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from domain.messages import Snapshot, SnapshotFile
from domain.topology import partition_directory
from host.durable import write_or_remove
from spark_jobs.state.sealed import seal
from spark_jobs.state.store import Manifest

ATTEMPTS = 20


def snapshot_path(home: Path, snapshot: Snapshot) -> Path:
    """`<node home>/snapshots/<topology>/<numbers>/<partition directory>.json`; numbers: checkpoint,
    generation, attempt and deployment, with dots between them."""
    numbers = (snapshot.checkpoint, snapshot.generation, snapshot.attempt, snapshot.deployed)
    directory = home / "snapshots" / snapshot.topology / ".".join(map(str, numbers))
    return directory / f"{partition_directory(snapshot.partition)}.json"


def leave_snapshot(
    home: Path,
    topology: str,
    partition: str,
    generation: int,
    manifest: Manifest,
    *,
    attempt: int = 0,
    deployed: int = 0,
    spread: float = 0.0,
) -> Path:
    """Write the snapshot atomically; the files it names stay until the driver trims them."""
    snapshot = Snapshot(
        topology=topology,
        partition=partition,
        checkpoint=manifest.epoch,
        generation=generation,
        attempt=attempt,
        deployed=deployed,
        spread=spread,
        files=[
            SnapshotFile(name=entry.name, bytes=entry.bytes, checksum=entry.checksum)
            for entry in manifest.files()
        ],
        manifest=msgspec.to_builtins(manifest),
    )
    path = snapshot_path(home, snapshot)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    for tried in range(ATTEMPTS):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_or_remove(temporary, seal(msgspec.json.encode(snapshot)))
            break
        except (FileNotFoundError, FileExistsError):
            # The agent removes directories that it finds empty: this one before the file was in it, or one
            # that was there already after it was found to be.
            if tried == ATTEMPTS - 1:
                raise
    temporary.rename(path)
    return path
