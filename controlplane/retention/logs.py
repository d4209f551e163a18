"""Logs of drivers, nodes and executors on this host. Those of supervised processes are rotated by their
supervisor.

A file that is too long is copied, and emptied in place: its process appends to it and goes on. Of the lines
that it writes in that moment some may be missing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from host.environment import Keep

PATTERNS = (
    *(f"log/{kind}.*.log*" for kind in ("driver", "verify", "savepoint")),
    *("log/node-*.log*", "nodes/*/work/*/app-*/*/std*"),
)
LONGEST = 20_000_000
"""Bytes of one file; then its content moves to a second one, beside it."""
FILES_AT_ONCE = 200
BLOCK = 512


@dataclass(frozen=True, slots=True)
class LogFile:
    path: Path
    bytes: int
    """That it takes on the disk: one that was emptied while a process writes at its old place has a hole."""
    file: tuple[int, int]
    """Device and inode."""
    at: float
    """When it was last written, in Unix seconds."""


def log_files(home: Path) -> list[LogFile]:
    """All of them, the oldest first."""
    return sorted(_found(home), key=lambda one: (one.at, one.path))


def _found(home: Path) -> Iterator[LogFile]:
    for pattern in PATTERNS:
        for path in home.glob(pattern):
            with contextlib.suppress(OSError):  # removed meanwhile
                status = path.lstat()
                if path.is_file() and not path.is_symlink():
                    size = min(status.st_blocks * BLOCK, status.st_size)
                    yield LogFile(path, size, (status.st_dev, status.st_ino), status.st_mtime)


def logs_trim(home: Path, keep: Keep, *, longest: int = LONGEST) -> int:
    """Remove logs that are too old, and the oldest where there is too much; returns the number of bytes. The
    size of `keep` is in megabytes."""
    removed = 0
    old = [one for one in log_files(home) if one.at < time.time() - keep.age][:FILES_AT_ONCE]
    held = files_open() if old else set()
    for one in old:
        if one.file not in held:
            removed += _remove(one)
    for one in log_files(home):
        if one.bytes > longest and one.path.suffix != ".1":
            removed += _roll(one)
    surplus = sum(one.bytes for one in log_files(home)) - keep.size * 1_000_000
    held = files_open() if surplus > 0 else set()
    for one in sorted(log_files(home), key=lambda one: (one.file in held, one.at)):
        if surplus <= 0:
            break
        freed = _empty(one) if one.file in held else _remove(one)
        surplus -= freed
        removed += freed
    return removed


def files_open() -> set[tuple[int, int]]:
    """Device and inode of the files that processes of this user have open: a log that is removed while its
    process lives would get no line any more."""
    found: set[tuple[int, int]] = set()
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # of another user, or it has ended
            for descriptor in os.listdir(f"/proc/{process}/fd"):
                with contextlib.suppress(OSError):
                    status = os.stat(f"/proc/{process}/fd/{descriptor}")
                    found.add((status.st_dev, status.st_ino))
    return found


def _roll(one: LogFile) -> int:
    second = one.path.with_name(f"{one.path.name}.1")
    freed = second.stat().st_size if second.exists() else 0
    try:
        shutil.copyfile(one.path, second)
    except OSError:  # the disk is full: a part of it would take what is left
        with contextlib.suppress(OSError):
            second.unlink(missing_ok=True)
        return freed
    _empty(one)
    return freed


def _empty(one: LogFile) -> int:
    with contextlib.suppress(OSError), open(one.path, "r+b") as stream:
        stream.truncate(0)
        return one.bytes
    return 0


def _remove(one: LogFile) -> int:
    with contextlib.suppress(OSError):
        one.path.unlink()
        return one.bytes
    return 0
