"""State files that stay open from one epoch to the next.

A lookup in a large state reads a few pages of each of its files, and to open one takes longer than that. A
process of Python that Spark uses again keeps the tables that it has mapped, which takes no memory but that
of their descriptions; the pages belong to the operating system. A file that was deleted keeps its place on
the disk until it is let go here, which happens when it has not been read for `IDLE` seconds.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from spark_jobs.state.chunks import ChunkEntry

KEPT = 1024
"""Tables at most; a large table by key has a quarter of so many in its base."""
MOST_CHECKED = 10_000
"""Versions of files of which it is known that they were checked."""
IDLE = 20.0
"""Seconds."""
SEQUENTIAL = pa.ipc.IpcReadOptions(use_threads=False)
"""How mapped files are read: threads would have nothing to compute, and take longer to wake than the rest."""


_Version = tuple[int, int, int, str]
"""Inode, time of the last change, size, and the checksum that it should have."""


def _version(found: os.stat_result, checksum: str) -> _Version:
    return found.st_ino, found.st_mtime_ns, found.st_size, checksum


class _Opened(NamedTuple):
    version: _Version
    table: pa.Table
    used_at: float


class OpenedFiles:
    """Of one process, whose threads may read at the same time. clock: seconds that only rise."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._opened: dict[Path, _Opened] = {}
        self._checked: set[tuple[Path, _Version]] = set()
        self._looked_at = clock()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._opened)

    def table(self, path: Path, entry: ChunkEntry, check: Callable[[memoryview], None]) -> pa.Table:
        """The rows of a file. `check` gets its content when this process reads this version of it first: of a
        state that is larger than memory an epoch reads little. What it protects from is a host that crashed,
        and no process outlives that. Raises what `check` raises, `FileNotFoundError` and `ArrowInvalid`."""
        now = self._clock()
        with self._lock:
            if now - self._looked_at > IDLE / 2:
                self._let_go(now)
            opened = self._opened.pop(path, None)
        # Before it is opened: what takes its place later is opened anew.
        version = _version(os.stat(path), entry.checksum)
        if opened is None or opened.version != version:
            opened = _Opened(version, self._read(path, version, check), now)
        with self._lock:
            # The last one that was read is the last one in the order of the dictionary.
            self._opened.pop(path, None)
            self._opened[path] = opened._replace(used_at=now)
            if len(self._opened) > KEPT:
                del self._opened[next(iter(self._opened))]
        return opened.table

    def wrote(self, path: Path, temporary: Path, checksum: str) -> None:
        """This process has written a file, which is going to be renamed to `path`. What it wrote itself needs
        no check."""
        self._note(path, _version(os.stat(temporary), checksum))

    def _note(self, path: Path, version: _Version) -> None:
        if len(self._checked) >= MOST_CHECKED:
            self._checked.clear()
        self._checked.add((path, version))

    def _read(self, path: Path, version: _Version, check: Callable[[memoryview], None]) -> pa.Table:
        with pa.memory_map(str(path)) as source:
            content = source.read_buffer()
            if (path, version) not in self._checked:
                check(memoryview(content))
                self._note(path, version)
            return pa.ipc.open_file(pa.BufferReader(content), options=SEQUENTIAL).read_all()

    def _let_go(self, now: float) -> None:
        self._looked_at = now
        for path, opened in list(self._opened.items()):
            if now - opened.used_at <= IDLE:
                break
            del self._opened[path]
