"""Which checkpoints stay in storage: the newest few; older ones go, with the files only they name."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from contextlib import closing

import structlog

from domain.topology import partition_directory
from spark_jobs.state.checkpoint_storage import CheckpointStorage, Deployment
from spark_jobs.state.records import CheckpointRecord
from spark_jobs.state.sealed import DamagedError

log = structlog.get_logger()
DELETING, RECORDING = 5.0, 30.0
"""Seconds for which the end of a driver waits at most: what is not deleted goes with the next checkpoint, but
one that is not recorded cannot be copied."""


class Retention:
    """Stores the record of the newest checkpoint, and deletes old ones, in a thread of its own. Deletion that
    fails is tried again with the next checkpoint."""

    def __init__(self, *, url: str, topology: str, partitions: Sequence[str]) -> None:
        """partitions: all of the topology, each of which has a manifest in a complete checkpoint."""
        self._url = url
        self._topology = topology
        self._partitions = partitions
        self._unrecorded = 0
        self._recorded = threading.Condition()
        self._queue: queue.SimpleQueue[tuple[list[int], int, CheckpointRecord | None] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._work, name="retention", daemon=True)
        self._thread.start()

    def keep(self, checkpoints: list[int], deployed: int, record: CheckpointRecord | None = None) -> None:
        """These (ascending) of a deployment and whatever is newer stay; older ones go. record: of the newest,
        which is stored first."""
        if checkpoints:
            with self._recorded:
                self._unrecorded += record is not None
            self._queue.put((list(checkpoints), deployed, record))

    def close(self) -> None:
        self._queue.put(None)
        with self._recorded:
            self._recorded.wait_for(lambda: not self._unrecorded, RECORDING)
        self._thread.join(DELETING)

    def _work(self) -> None:
        while (told := self._queue.get()) is not None:
            kept, deployed, record = told
            try:
                with closing(CheckpointStorage(self._url)) as storage:
                    if record is not None:
                        storage.store_record(record)
                        self._has_recorded(record)
                        record = None
                    prune(
                        storage, Deployment(self._topology, deployed), kept=kept, partitions=self._partitions
                    )
            except Exception as error:  # The thread lives as long as its driver.
                log.warning("checkpoint not recorded, or old ones not deleted", error=str(error))
            finally:
                self._has_recorded(record)

    def _has_recorded(self, record: CheckpointRecord | None) -> None:
        if record is not None:
            with self._recorded:
                self._unrecorded -= 1
                self._recorded.notify_all()


def prune(
    storage: CheckpointStorage, deployment: Deployment, *, kept: Sequence[int], partitions: Sequence[str]
) -> None:
    """Delete the checkpoints below the first of those kept (ascending), then the files that none of the
    others names, and what earlier deployments left. Files newer than that checkpoint may belong to an upload
    under way and stay. Raises `DamagedError`, and deletes nothing of this deployment, unless every checkpoint
    that is kept is seen to be there with a manifest of every partition: a list may lag behind what is
    stored."""
    oldest = kept[0]
    stored = storage.checkpoints(deployment)
    complete = set(kept).difference(storage.earlier_checkpoints(deployment.topology))
    if missing := complete.difference(stored):
        raise DamagedError(f"checkpoint {min(missing)} of {deployment.topology} is not listed")
    storage.delete_earlier(deployment, below=oldest)
    old = [number for number in stored if number < oldest]
    if not old:
        return
    named: dict[str, set[str]] = {}
    for number in stored[len(old) :]:
        needed = {partition_directory(one) for one in partitions} if number in complete else set[str]()
        for directory in needed.union(storage.partitions(deployment, number)):
            names = storage.named(deployment, number, directory)
            if names is not None:
                named.setdefault(directory, set()).update(names)
            elif directory in needed:
                raise DamagedError(f"checkpoint {number} of {deployment.topology} lacks {directory}")
    for number in old:
        storage.delete_checkpoint(deployment, number)
    for directory, names in named.items():
        storage.delete_files(
            deployment,
            directory,
            [
                name
                for name in storage.files(deployment, directory)
                if name not in names and (epoch := _epoch(name)) is not None and epoch <= oldest
            ],
        )


def _epoch(name: str) -> int | None:
    """The epoch a state file was written in, which its name begins with."""
    number = name.partition(".")[0]
    return int(number) if number.isdigit() else None
