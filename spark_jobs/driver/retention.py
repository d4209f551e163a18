"""Which checkpoints stay in storage: the newest few; older ones go, with the files only they name."""

from __future__ import annotations

import posixpath
import queue
import threading
from typing import Any

import fsspec
import structlog

from spark_jobs.state.store import manifests

log = structlog.get_logger()


class Retention:
    """Deletes in a thread of its own; deletion that fails is tried again with the next checkpoint."""

    def __init__(self, *, url: str, topology: str) -> None:
        self.root = posixpath.join(url, topology)
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
                self._prune(kept)
            except (OSError, ValueError) as error:
                log.warning("old checkpoints not deleted", error=str(error))

    def _prune(self, kept: list[int]) -> None:
        filesystem, root = fsspec.core.url_to_fs(self.root)
        manifests = posixpath.join(root, "manifests")
        if not filesystem.isdir(manifests):
            return
        old: list[str] = []
        named: dict[str, set[str]] = {}
        for path in filesystem.ls(manifests, detail=False):
            number = posixpath.basename(path.rstrip("/"))
            if not number.isdigit():
                continue
            if int(number) < kept[0]:
                old.append(path)
            else:
                _collect(filesystem, path, named)
        if not old:
            return
        for path in old:
            filesystem.rm(path, recursive=True)
        for directory, names in named.items():
            base = posixpath.join(root, "files", directory)
            if not filesystem.isdir(base):
                continue
            for path in filesystem.ls(base, detail=False):
                if posixpath.basename(path) not in names and _epoch(path) <= kept[0]:
                    filesystem.rm_file(path)


def _collect(filesystem: Any, checkpoint: str, named: dict[str, set[str]]) -> None:
    for path in filesystem.ls(checkpoint, detail=False):
        if path.endswith(".json"):
            manifest = manifests.decode(filesystem.cat_file(path))
            directory = posixpath.basename(path).removesuffix(".json")
            named.setdefault(directory, set()).update(entry.name for entry in manifest.files())


def _epoch(path: str) -> int:
    """The epoch a state file was written in, which its name begins with. Files newer than the oldest kept
    checkpoint may belong to an upload under way."""
    number = posixpath.basename(path).partition(".")[0]
    return int(number) if number.isdigit() else 1 << 62
