"""Which log files of this host have to do with a topology on some nodes, and the end of each.

Names come from stored rows; they are checked all the same, since a path is made of them. No link is followed,
and of each file a bounded part is read, from its end.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spark_jobs.state.node_home import WORK

MOST_BYTES: Final = 256 * 1024
"""Of one file."""
ALL_BYTES: Final = 2 * 1024 * 1024
"""Of all files that are read for one answer."""
EXECUTORS: Final = 2
"""Of a node, the newest ones: another one takes the place of one that was lost."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
"""Of nodes and topologies (`domain.values.NodeName`, `domain.topology.spec.TopologyName`)."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """source: its name for a reader."""

    source: str
    path: Path


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The end of a file. whole: nothing before it was left out."""

    text: str
    whole: bool


def name_is_plain(name: str) -> bool:
    """Whether a stored name is one that a file of this product can have."""
    return _NAME.fullmatch(name) is not None


def driver_log(home: Path, topology: str) -> LogFile:
    return LogFile("driver", home / "log" / f"driver.{_checked(topology)}.log")


def node_logs(home: Path, topology: str, node: str) -> list[LogFile]:
    """Of the node's agent and its newest executors, with the Python workers of these."""
    _checked(topology)
    _checked(node)
    found = [LogFile(f"{node} agent", home / "log" / f"{node}.log")]
    work = home / "nodes" / node / WORK / topology
    applications = [one for one in _newest(work) if one.name.startswith("app-")]
    for application in applications[:1]:
        for executor in _newest(application)[:EXECUTORS]:
            if executor.name.isdecimal():
                found += [
                    LogFile(f"{node} executor {executor.name}", executor / name)
                    for name in ("stderr", "stdout")
                ]
    return found


def end_of(home: Path, file: LogFile, most: int) -> LogEnd:
    """Raises OSError; FileNotFoundError also for what is no plain file below `home`."""
    with _opened(home, file.path) as descriptor:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise FileNotFoundError(str(file.path))
        start = max(0, facts.st_size - most)
        content = os.pread(descriptor, most, start)
    if start:
        # The line that the part begins in the middle of is left out.
        content = content.partition(b"\n")[2]
    # A file that was emptied while a process went on writing at its old place begins with zeros.
    return LogEnd(content.lstrip(b"\0").decode(errors="replace"), not start)


@contextlib.contextmanager
def _opened(home: Path, path: Path) -> Iterator[int]:
    """A descriptor of a file below `home`, reached through directories only: no component may be a link."""
    parts = path.relative_to(home).parts
    with contextlib.ExitStack() as closing:
        directory = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
        closing.callback(os.close, directory)
        for part in parts[:-1]:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            directory = os.open(part, flags, dir_fd=directory)
            closing.callback(os.close, directory)
        # A named pipe would wait for its writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(parts[-1], flags, dir_fd=directory)
        closing.callback(os.close, descriptor)
        yield descriptor


def _newest(directory: Path) -> Sequence[Path]:
    """The directories in a directory, the newest first; none if it cannot be read."""
    try:
        with os.scandir(directory) as entries:
            found = [
                (entry.stat(follow_symlinks=False).st_mtime, entry.name)
                for entry in entries
                if entry.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []
    return [directory / name for _, name in sorted(found, reverse=True)]


def _checked(name: str) -> str:
    if not name_is_plain(name):
        raise ValueError(f"{name!r} is not a name that a log of this product has")
    return name
