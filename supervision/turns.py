"""One command at a time starts an installation, and one at a time ends it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path


@contextmanager
def turn_to_start(home: Path) -> Iterator[bool]:
    """Whether no other command starts an installation there now; then none can until the end of the block."""
    with _turn(home, wait=False) as ours:
        yield ours


@contextmanager
def turn_to_stop(home: Path) -> Iterator[None]:
    """When no other command ends an installation there any more. One that never ran has nothing to wait
    for."""
    with ExitStack() as ending:
        with suppress(OSError):
            ending.enter_context(_turn(home / "run", wait=True))
        yield


@contextmanager
def _turn(directory: Path, *, wait: bool) -> Iterator[bool]:
    """The directory itself serves as the lock, which the kernel takes back when this process ends."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
