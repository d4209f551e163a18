"""Which checkpoints stay in storage: the newest few; older ones go, with the files only they name."""

from __future__ import annotations

import queue
import threading

import structlog

from spark_jobs.state.checkpoint_storage import CheckpointStorage
from spark_jobs.state.store import manifests

log = structlog.get_logger()


class Retention:
    """Deletes in a thread of its own; deletion that fails is tried again with the next checkpoint."""

    def __init__(self, *, url: str, topology: str) -> None:
        self._url = url
        self._topology = topology
        self._queue: queue.SimpleQueue[list[int] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="retention", daemon=True)
        self._thread.start()

    def keep(self, checkpoints: list[int]) -> None:
        """These (ascending) and whatever is newer stay; older ones go."""
        if checkpoints:
            self._queue.put(list(checkpoints))

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join(5)

    def _work(self) -> None:
        while (kept := self._queue.get()) is not None:
            try:
                prune(CheckpointStorage(self._url), self._topology, oldest=kept[0])
            except (OSError, ValueError) as error:
                log.warning("old checkpoints not deleted", error=str(error))


def prune(storage: CheckpointStorage, topology: str, *, oldest: int) -> None:
    """Delete the checkpoints below `oldest`, then the files that none of the others names. Files newer than
    that checkpoint may belong to an upload under way and stay."""
    stored = storage.checkpoints(topology)
    old = [number for number in stored if number < oldest]
    if not old:
        return
    named: dict[str, set[str]] = {}
    for number in stored[len(old) :]:
        for directory, content in storage.read_manifests(topology, number).items():
            files = manifests.decode(content).files()
            named.setdefault(directory, set()).update(entry.name for entry in files)
    for number in old:
        storage.delete_checkpoint(topology, number)
    for directory, names in named.items():
        for name in storage.files(topology, directory):
            epoch = _epoch(name)
            if name not in names and epoch is not None and epoch <= oldest:
                storage.delete_file(topology, directory, name)


def _epoch(name: str) -> int | None:
    """The epoch a state file was written in, which its name begins with."""
    number = name.partition(".")[0]
    return int(number) if number.isdigit() else None
