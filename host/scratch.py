"""Directories for what a process works with."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def empty_directory(path: Path) -> Iterator[Path]:
    """Removed in the end, or by the next process that needs it where this one is killed: one uses it at a
    time."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
