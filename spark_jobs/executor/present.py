"""A replay in spare time waits while a task of the present works on its node.

The scheduling class of `spare_time` is not enough on a node whose quota is less than the processors of its
host: there a replay that gives way on one processor uses up the same quota on another.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = "present.lock"
FLOCK = struct.Struct("hhqqi4x")
"""Type, from where, start, length and process of a lock, as fcntl(2) has them; length 0 is the whole file."""
LOOK = 0.005
SHARE, LONGEST = 4.0, 1.0
"""Seconds that a replay waits at most for each second that it works, and before one of its steps: where the
present is always at work, a replay that only waited would never arrive."""


@contextmanager
def present_at_work(home: Path) -> Iterator[None]:
    """While a task of the present works on the node of this directory. Any number of them share the lock, and
    the operating system takes it from a process that dies. No task takes it alone, so none of them waits."""
    descriptor = _opened(home)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _lock(fcntl.F_RDLCK))
        yield
    finally:
        os.close(descriptor)


class GivingWay:
    """What one task of a replay has worked and waited so far. home: the node's directory."""

    def __init__(
        self,
        home: Path,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.home = home
        self._clock = clock
        self._sleep = sleep
        self._left_at = clock()
        self._credit = 0.0

    def wait(self) -> None:
        """Before a step: until no task of the present works on this node, or as long as `SHARE` allows."""
        began = now = self._clock()
        self._credit += SHARE * (began - self._left_at)
        until = began + min(self._credit, LONGEST)
        while now < until and _at_work(self.home):
            self._sleep(LOOK)
            now = self._clock()
        self._credit -= now - began
        self._left_at = now


def _at_work(home: Path) -> bool:
    """Asks who would be in the way of a lock, without taking one: a replay that is given no time in between
    would hold up the present."""
    descriptor = _opened(home)
    try:
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _lock(fcntl.F_WRLCK))
    finally:
        os.close(descriptor)
    return bool(FLOCK.unpack(found)[0] != fcntl.F_UNLCK)


def _lock(kind: int) -> bytes:
    return FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0)


def _opened(home: Path) -> int:
    return os.open(home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
