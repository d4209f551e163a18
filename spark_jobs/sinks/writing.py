"""Where tasks write outputs before these get their places: one directory for each driver.

    <root>/<topology>/deployed=<generation>/.writing-<life>/

A rename out of it gives a file its place. A rename into it removes the rows of an epoch that has none any
more. Before a driver works it closes the directories of those before it. A task of theirs that was frozen and
goes on then changes nothing, at whichever of its steps it wakes up.

`<root>` has a mark, which a directory below a disk that is not mounted lacks: what is written there would be
hidden as soon as the disk is back.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from host.durable import temporary_name, write_whole
from spark_jobs.sinks.base import SinkError

PREFIX: Final = ".writing-"
CLOSED: Final = ".closed"
MARK: Final = ".resurge-outputs"


def writing_directory(files: Path, life: int) -> Path:
    """files: the directory of a deployment's outputs. life: number of the driver."""
    return files / f"{PREFIX}{life}"


def writing_open(files: Path, life: int) -> Path:
    """Make the directory for tasks of this driver, and close those of earlier ones. Raises `OSError`."""
    writing_close(files)
    own = writing_directory(files, life)
    own.mkdir(parents=True)
    return own


def writing_close(files: Path) -> None:
    """Tasks that write outputs of this deployment can write nothing more. Raises `OSError`; repeatable."""
    for path in files.glob(f"{PREFIX}*"):
        # The rename first: every later step of a task fails then, and no file is added to what is removed.
        closed = path.with_name(f"{PREFIX}{os.urandom(4).hex()}{CLOSED}")
        path.rename(closed)
        shutil.rmtree(closed)


def root_mark(root: Path, *, written: bool = False, force: bool = True) -> None:
    """Mark the directory of all outputs. written: something was written there before. Raises `SinkError`
    where that is not so any more, and `OSError`."""
    if root_marked(root):
        return
    if written and not (root.is_dir() and any(root.iterdir())):
        raise SinkError(str(root), "nothing of what was written is there", mount_hint(root))
    write_whole(root / MARK, b"", root=root, force=force)


def root_marked(root: Path) -> bool:
    return (root / MARK).exists()


def mount_hint(root: Path) -> str:
    return (
        "Mount its disk again, and it goes on by itself. If it was emptied, or is another directory on "
        f"purpose, make the empty file {root / MARK}."
    )


class Writing:
    """The directory of one driver, for one of its tasks."""

    def __init__(self, files: Path, life: int) -> None:
        self._files = files
        self._life = life
        self.root = files.parent.parent
        self.directory = writing_directory(files, life)

    def fill(self, name: str, fill: Callable[[Path], None]) -> Path:
        """Have `fill` write a file that has no place yet. Raises `OSError`, and leaves none."""
        path = temporary_name(self.directory / name)
        try:
            try:
                fill(path)
            except FileNotFoundError:
                if not self._again():
                    raise
                fill(path)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path

    def take_away(self, directory: Path) -> bool:
        """Remove the directory of an epoch at once; whether it was there. Raises `OSError`."""
        if not directory.exists():
            return False
        away = temporary_name(self.directory / directory.name)
        directory.rename(away)
        shutil.rmtree(away, ignore_errors=True)
        return True

    def _again(self) -> bool:
        """Make the directory where nothing of the deployment is there, as when outputs were removed by hand
        while it runs. False where something is: then a later driver may have closed it."""
        if self._files.exists() or not root_marked(self.root):
            return self.directory.exists()
        self._files.parent.mkdir(parents=True, exist_ok=True)
        whole = temporary_name(self._files)
        writing_directory(whole, self._life).mkdir(parents=True)
        try:
            whole.rename(self._files)
        except OSError:  # another task was first
            shutil.rmtree(whole, ignore_errors=True)
        return self.directory.exists()
