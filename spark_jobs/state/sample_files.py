"""Where the newest rows of a partition are kept for those who look: `<node home>/samples/<topology>/`.

Who wants to see rows touches `<partition>.wanted`; while that is new, the task that runs the partition leaves
the last rows of each epoch in `<partition>.parquet`, beside it. Loads no Arrow: a web process asks.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from domain.topology import partition_directory
from spark_jobs.state.node_home import SAMPLES

MOST_ROWS: Final = 50
WANTED_FOR: Final = 30.0
"""Seconds for which one look asks for rows."""
EPOCH: Final = "resurge.epoch"
"""Key of the epoch in the file's metadata."""


def wanted_path(home: Path, topology: str, partition: str) -> Path:
    return home / SAMPLES / topology / f"{partition_directory(partition)}.wanted"


def sample_path(home: Path, topology: str, partition: str) -> Path:
    return home / SAMPLES / topology / f"{partition_directory(partition)}.parquet"


def sample_ask(home: Path, topology: str, partition: str) -> None:
    """Ask for the rows of the next epochs. Raises OSError, FileNotFoundError where there is no such node."""
    marker = wanted_path(home, topology, partition)
    if home.resolve() != home or not home.is_dir():
        raise FileNotFoundError(str(home))
    for directory in (home / SAMPLES, marker.parent):
        if directory.is_symlink():
            raise FileNotFoundError(str(directory))
        directory.mkdir(exist_ok=True)
    os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600))
    os.utime(marker, follow_symlinks=False)
