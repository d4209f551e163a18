"""At most one driver of a topology works: the lock on its epoch log.

The kernel frees the lock with the process, however that ends, so a driver that is started again need not wait
for it. The number that the log then gives the driver (`EpochLog.begin_life`) is its fencing number: it goes
into the driver's znode, and of two drivers the one with the lower number ends.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = "driver.lock"
"""Beside the epoch log. It is never removed, since a second file of this name could be locked again."""


class AnotherDriverError(RuntimeError):
    """Another driver of this topology works; this one has changed nothing."""


@contextmanager
def only_driver(directory: Path, topology: str) -> Iterator[None]:
    """Hold the lock on the epoch log in `directory`; raises `AnotherDriverError` at once if it is taken."""
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / LOCK, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            process = file.read().strip() or "unknown"
            raise AnotherDriverError(
                f"another driver of topology {topology!r} is running (process {process}); end it before you "
                "start a second one"
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
