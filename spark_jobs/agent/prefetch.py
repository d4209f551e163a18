"""What a standby has on its disk before it is needed: the files of the newest checkpoint.

A standby runs nothing until a node is lost. Then partitions are put back to the newest checkpoint on it, and
what is here already, whole, is not fetched. Nothing depends on these files: each is compared with its
checksum before it counts, as any file of a node.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Container, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import structlog

from coordination.session import CoordinationUnavailableError
from domain.topology import directory_partition
from spark_jobs.state.checkpoint_storage import CheckpointStorage, Deployment, Found
from spark_jobs.state.chunks import ChunkEntry
from spark_jobs.state.node_home import STATE, deployment_home
from spark_jobs.state.store import StateStore

log = structlog.get_logger()

LOOK_INTERVAL = 2.0
"""Seconds between two looks at what the newest checkpoints are."""
KEPT_FREE = 0.1
"""Share of the disk that stays free."""


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest complete checkpoint of a topology, and whether its plan has partitions on this node."""

    deployment: Deployment
    checkpoint: int
    here: bool


class Prefetch(threading.Thread):
    """Follows the checkpoints of all topologies that have no partition here. The state of a replica that runs
    here stays as it is."""

    def __init__(self, *, node_home: Path, url: str, ask: Callable[[], Mapping[str, Newest]]) -> None:
        """ask: the newest checkpoints, by topology. Raises `CoordinationUnavailableError`."""
        super().__init__(name="prefetch", daemon=True)
        self._home = node_home
        self._url = url
        self._ask = ask
        self._have: dict[str, Newest] = {}
        # Files that were fetched or compared: nothing else writes here as long as nothing runs.
        self._whole: set[tuple[Path, str]] = set()
        self._finished = threading.Event()

    def finish(self) -> None:
        self._finished.set()
        self.join(5)

    def run(self) -> None:
        while not self._finished.wait(LOOK_INTERVAL):
            self.look()

    def look(self) -> None:
        """Once. What fails, whatever it is, is tried again with the next look: nothing depends on it."""
        try:
            newest = self._ask()
        except CoordinationUnavailableError:
            return
        except Exception as error:
            log.error("newest checkpoints not read", error=repr(error))
            return
        for name, one in sorted(newest.items()):
            if one.here or not one.checkpoint or self._have.get(name) == one:
                continue
            try:
                with closing(CheckpointStorage(self._url)) as storage:
                    files = self._fetch(storage, one)
            except Exception as error:
                # Retention may have removed it meanwhile: the next is there soon.
                log.warning("checkpoint not fetched ahead", topology=name, error=str(error))
                continue
            if files is not None:
                self._have[name] = one
                log.info("checkpoint fetched ahead", topology=name, checkpoint=one.checkpoint, files=files)

    def _fetch(self, storage: CheckpointStorage, newest: Newest) -> int | None:
        """How many files were fetched; None if it was broken off."""
        states = deployment_home(self._home, STATE, newest.deployment.topology, newest.deployment.deployed)
        fetched = 0
        for directory in storage.partitions(newest.deployment, newest.checkpoint):
            found = storage.find(newest.deployment, newest.checkpoint, directory_partition(directory))
            store = StateStore(states / directory)
            if store.used:  # a replica runs here, or did: its files are of other epochs
                continue
            entries = {entry.name: entry for entry in found.manifest.files()}
            for entry in entries.values():
                if self._finished.is_set() or self._is_full(entry):
                    return None
                fetched += self._bring(storage, found, store, entry)
            self._tidy(store, entries)
        return fetched

    def _tidy(self, store: StateStore, kept: Container[str]) -> None:
        """Delete what was fetched for earlier checkpoints, unless a replica has begun to run here."""
        old = {one for one in self._whole if one[0].parent == store.directory and one[0].name not in kept}
        self._whole -= old
        if not store.used:
            for path, _ in old:
                path.unlink(missing_ok=True)

    def _bring(self, storage: CheckpointStorage, found: Found, store: StateStore, entry: ChunkEntry) -> bool:
        """Whether it had to be fetched."""
        path = store.directory / entry.name
        if (path, entry.checksum) in self._whole and path.exists():
            return False
        fetched = store.bring(entry, lambda target: storage.fetch(found, entry, target))
        self._whole.add((path, entry.checksum))
        return fetched

    def _is_full(self, entry: ChunkEntry) -> bool:
        """Whether a file would take what is to stay free."""
        disk = shutil.disk_usage(self._home)
        full = disk.free - entry.bytes < KEPT_FREE * disk.total
        if full:
            log.warning("no room on the disk to fetch a checkpoint ahead", free_bytes=disk.free)
        return full
