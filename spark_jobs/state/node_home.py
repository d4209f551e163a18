"""Where a deployment's files are on a node: `<node home>/<kind>/<topology>/<deployed>/`, kind `state`,
`buffers` or `keys`. Snapshots have it in a name:
`snapshots/<topology>/<k>.<generation>.<attempt>.<deployed>/`.

`deployed` is the generation of the plan that deployed the topology. It is in the path because a task of an
earlier deployment may still run, on a node that was frozen: what it writes and removes is its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from domain.topology import directory_partition, is_partition, split_partition

STATE: Final = "state"
BUFFERS: Final = "buffers"
SNAPSHOTS: Final = "snapshots"
KEYS: Final = "keys"
"""Keys whose states are to be stored (`spark_jobs.state.key_requests`)."""
WORK: Final = "work"
"""Where the executors of a topology work, with their logs."""
SAMPLES: Final = "samples"
"""Rows for those who look at them (`spark_jobs.state.sample_files`), of any deployment."""

KINDS: Final = (STATE, BUFFERS, SNAPSHOTS, KEYS, WORK, SAMPLES)


def deployment_home(home: Path, kind: str, topology: str, deployed: int) -> Path:
    return home / kind / topology / str(deployed)


def forget_earlier(home: Path, topology: str, deployed: int) -> None:
    """Remove what earlier deployments left, and what versions without this layout did. A later deployment is
    left alone: the caller may be of an earlier one and not know."""
    for kind in (STATE, BUFFERS, KEYS):
        for directory in _directories(home / kind / topology):
            if _deployment(directory.name) < deployed:
                shutil.rmtree(directory, ignore_errors=True)


def topologies_kept(home: Path) -> set[str]:
    """Names of the directories of topologies of which a node has anything."""
    return {one.name for kind in KINDS for one in _directories(home / kind)}


def forget_up_to(home: Path, topology: str, deployed: int, *, gone: bool) -> list[Path]:
    """Remove what deployments up to this one have left, with snapshots that wait for their upload; returns
    what was found. gone: there is no topology of the name, so empty directories go as well."""
    found: list[Path] = []
    for kind in (STATE, BUFFERS, SNAPSHOTS, KEYS):
        directories = list(_directories(home / kind / topology))
        for directory in directories:
            # The last number of a snapshot. Versions before this one had three.
            numbers = directory.name.split(".")
            number = "".join(numbers[3:4]) if kind == SNAPSHOTS else directory.name
            if _deployment(number) <= deployed:
                shutil.rmtree(directory, ignore_errors=True)
                found.append(directory)
        if gone:
            with contextlib.suppress(OSError):  # not empty, or not there
                (home / kind / topology).rmdir()
    if gone:
        shutil.rmtree(home / SAMPLES / topology, ignore_errors=True)
    return found


def forget_partitions(
    home: Path, topology: str, deployed: int, *, keep: Collection[str], before: float
) -> list[str]:
    """Remove states and buffers of a deployment that are of none of the partitions to `keep`, and to which
    nothing was written since `before` (seconds since 1970); returns which partitions left any. What was only
    fetched ahead of time, or is of a copy, stays."""
    found: set[str] = set()
    for kind in (STATE, BUFFERS):
        for directory in list(_directories(deployment_home(home, kind, topology, deployed))):
            partition = directory_partition(directory.name)
            if partition in keep or not is_partition(partition):
                continue
            if kind == STATE and not any(directory.glob("*.manifest")):
                continue
            if max(one.stat().st_mtime for one in (directory, *_directories(directory))) < before:
                shutil.rmtree(directory, ignore_errors=True)
                found.add(partition)
    return sorted(found, key=split_partition)


def _deployment(name: str) -> int:
    """The number that a directory's name is; -1, which is before all, for what other versions named."""
    return int(name) if name.isascii() and name.isdigit() else -1


def _directories(path: Path) -> Iterator[Path]:
    """Those in a directory; links are none of them, since what they lead to is not the node's."""
    try:
        if path.is_symlink():
            return
        with os.scandir(path) as entries:
            found = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return
    yield from (path / name for name in sorted(found))
