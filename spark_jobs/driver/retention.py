"""Which checkpoints stay in storage: the newest few; older ones go, with the files only they name."""

from __future__ import annotations

import queue
import threading

import structlog

from spark_jobs.state.checkpoint_storage import CheckpointStorage, Deployment

log = structlog.get_logger()


class Retention:
    """Deletes in a thread of its own; deletion that fails is tried again with the next checkpoint."""

    def __init__(self, *, url: str, topology: str) -> None:
        self._url = url
        self._topology = topology
        self._queue: queue.SimpleQueue[tuple[list[int], int] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="retention", daemon=True)
        self._thread.start()

    def keep(self, checkpoints: list[int], deployed: int) -> None:
        """These (ascending) of a deployment and whatever is newer stay; older ones go."""
        if checkpoints:
            self._queue.put((list(checkpoints), deployed))

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join(5)

    def _work(self) -> None:
        while (told := self._queue.get()) is not None:
            kept, deployed = told
            try:
                prune(CheckpointStorage(self._url), Deployment(self._topology, deployed), oldest=kept[0])
            except Exception as error:  # Every storage behind fsspec raises its own kinds.
                log.warning("old checkpoints not deleted", error=str(error))


def prune(storage: CheckpointStorage, deployment: Deployment, *, oldest: int) -> None:
    """Delete the checkpoints below `oldest`, then the files that none of the others names, and what earlier
    deployments left. Files newer than that checkpoint may belong to an upload under way and stay."""
    storage.delete_earlier(deployment, below=oldest)
    stored = storage.checkpoints(deployment)
    old = [number for number in stored if number < oldest]
    if not old:
        return
    named: dict[str, set[str]] = {}
    for number in stored[len(old) :]:
        for directory in storage.partitions(deployment, number):
            named.setdefault(directory, set()).update(storage.named(deployment, number, directory))
    for number in old:
        storage.delete_checkpoint(deployment, number)
    for directory, names in named.items():
        for name in storage.files(deployment, directory):
            epoch = _epoch(name)
            if name not in names and epoch is not None and epoch <= oldest:
                storage.delete_file(deployment, directory, name)


def _epoch(name: str) -> int | None:
    """The epoch a state file was written in, which its name begins with."""
    number = name.partition(".")[0]
    return int(number) if number.isdigit() else None
