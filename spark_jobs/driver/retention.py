"""Which checkpoints stay in storage: the newest few; older ones go, with the files only they name."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing

import structlog

from domain.topology import partition_directory
from spark_jobs.state.checkpoint_storage import CheckpointStorage, Deployment, KnownNames
from spark_jobs.state.records import CheckpointRecord
from spark_jobs.state.sealed import DamagedError

log = structlog.get_logger()
DELETING, RECORDING = 5.0, 30.0
"""Seconds for which the end of a driver waits at most: what is not deleted goes with the next checkpoint, but
one that is not recorded cannot be copied."""
EVERY = 5.0
"""Seconds between two deletions, at least: each lists all that is stored, which takes time of the host where
a checkpoint is taken every second."""
AT_ONCE = 16
"""Files that are deleted without a pause."""
PAUSE = 4.0
"""Seconds for each CPU second of deletion."""


class Retention:
    """Stores the record of the newest checkpoint, and deletes old ones, in a thread of its own, so that no
    epoch waits. Deletion that fails is tried again with the next checkpoint."""

    def __init__(
        self,
        *,
        url: str,
        topology: str,
        partitions: Sequence[str],
        forget: Callable[[int], object] | None = None,
        every: float = 0.0,
        force: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """partitions: all of the topology, each of which has a manifest in a complete checkpoint. forget:
        removes what is outside of storage of checkpoints older than this one. every: seconds between two
        deletions, at least; checkpoints in between are recorded, and the next deletion has them. force:
        as for `CheckpointStorage`. clock: seconds that only rise."""
        self._url = url
        self._topology = topology
        self._partitions = partitions
        self._forget = forget
        self._every = every
        self._force = force
        self._clock = clock
        self._deleted_at = -every
        self._named: tuple[int, KnownNames] = (-1, {})
        self._unrecorded = 0
        self._recorded = threading.Condition()
        self._queue: queue.SimpleQueue[tuple[list[int], int, CheckpointRecord | None] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._work, name="retention", daemon=True)
        self._thread.start()

    def keep(self, checkpoints: list[int], deployed: int, record: CheckpointRecord | None = None) -> None:
        """These (ascending) of a deployment and whatever is newer stay; older ones go, now or with a later
        call. record: of the newest, which is stored first."""
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
                with closing(CheckpointStorage(self._url, force=self._force)) as storage:
                    if record is not None:
                        storage.store_record(record)
                        self._has_recorded(record)
                        record = None
                    now = self._clock()
                    if now - self._deleted_at < self._every:
                        continue
                    self._deleted_at = now
                    if self._forget is not None:
                        self._forget(kept[-1])
                    if self._named[0] != deployed:
                        self._named = (deployed, {})
                    prune(
                        storage,
                        Deployment(self._topology, deployed),
                        kept=kept,
                        partitions=self._partitions,
                        known=self._named[1],
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
    storage: CheckpointStorage,
    deployment: Deployment,
    *,
    kept: Sequence[int],
    partitions: Sequence[str],
    known: KnownNames | None = None,
    pause: Callable[[float], object] = time.sleep,
) -> None:
    """Delete the checkpoints below the first of those kept (ascending), then the files that none of the
    others names, also of partitions that none of them has, and what earlier deployments left. Files that are
    not older than that checkpoint may belong to an upload under way and stay: states that are divided anew
    are of the epoch that a version goes on from. Raises `DamagedError`, and deletes nothing of this
    deployment, unless every checkpoint that is kept is seen to be there with a manifest of every partition: a
    list may lag behind what is stored. known: what manifests of this deployment name that were read before;
    it is brought up to date.
    pause: waits for so many seconds, in which epochs have the CPU."""
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
    unknown: set[str] = set()
    for number in stored[len(old) :]:
        needed = {partition_directory(one) for one in partitions} if number in complete else set[str]()
        for directory in needed.union(storage.partitions(deployment, number)):
            names = storage.named(deployment, number, directory, known)
            if names is not None:
                named.setdefault(directory, set()).update(names)
            elif directory in needed:
                raise DamagedError(f"checkpoint {number} of {deployment.topology} lacks {directory}")
            else:
                unknown.add(directory)
    for number in old:
        storage.delete_checkpoint(deployment, number)
        if known is not None:
            known.pop(number, None)
    for directory in named.keys() | storage.file_directories(deployment) - unknown:
        names = named.get(directory, set())
        storage.tidy(deployment, directory)
        gone = [
            name
            for name in storage.files(deployment, directory)
            if name not in names and (epoch := _epoch(name)) is not None and epoch < oldest
        ]
        for first in range(0, len(gone), AT_ONCE):
            began = time.thread_time()
            storage.delete_files(deployment, directory, gone[first : first + AT_ONCE])
            pause((time.thread_time() - began) * PAUSE)


def _epoch(name: str) -> int | None:
    """The epoch a state file was written in, which its name begins with."""
    number = name.partition(".")[0]
    return int(number) if number.isdigit() else None
