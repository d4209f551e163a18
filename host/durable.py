"""Files that survive the loss of power: what they hold is forced to disk before they get their names.

A batch costs little more than one file. The contents are forced in parallel, which the journal of a file
system writes together; where that takes no time, one after the other. Then the files get their names, and
then each directory is forced once.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PARTIAL = ".partial"
THREADS = 8
QUICK = 0.0001
"""Seconds, of each call: to start threads would take longer. Files in memory are forced so quickly; on a disk
even a directory takes a multiple."""

ABANDONED = 3600.0
"""Seconds without a change after which a temporary file is that of a process that was killed."""

# Directories by path, each with the file number that it had when its own name was forced to disk.
_named: dict[Path, int] = {}

# Of the root of a batch, whether each call of the last one was quick.
_quick: dict[Path, bool] = {}


class DurableBatch:
    """Files below `root` that get their names together, in `settle`.

    force: False leaves it to the operating system when what was written reaches the disk; the order of steps
    is the same.
    """

    def __init__(self, root: Path, *, force: bool = True) -> None:
        self._root = root
        self._force = force
        self._files: dict[Path, Path] = {}
        self._once: set[Path] = set()
        self._changed: set[Path] = set()

    def add(self, temporary: Path, target: Path, *, once: bool = False) -> None:
        """`temporary`, complete and on the same file system, gets the name of `target`. once: unless there is
        a file of that name, which is an error then (`FileExistsError`)."""
        self._files[target] = temporary
        if once:
            self._once.add(target)

    def changed(self, directory: Path) -> None:
        """Names were removed from this directory."""
        self._changed.add(directory)

    def settle(self) -> dict[Path, OSError]:
        """Returns once everything is on disk; the errors by target. What failed has no name, or may lose it
        in a crash."""
        files, once, changed = self._files, self._once, self._changed
        self._files, self._once, self._changed = {}, set(), set()
        failed: dict[Path, OSError] = {}
        if self._force:
            failed = self._each(_force_content, {target: files[target] for target in files})
        for target, temporary in files.items():
            try:
                if target not in failed:
                    _name(temporary, target, once=target in once)
            except OSError as error:
                failed[target] = error
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        if self._force:
            # What was there may be that of a process that died before it forced the name.
            named = {target for target in files if isinstance(failed.get(target), FileExistsError | None)}
            lost = self.force_names({target.parent for target in named} | changed)
            for target in files:
                errors = [lost[one] for one in (target.parent, *target.parent.parents) if one in lost]
                if errors and target in named:
                    failed[target] = errors[0]
        return failed

    def force_names(self, directories: Collection[Path]) -> dict[Path, OSError]:
        """The names in these directories, and their own, survive from now on; the errors by directory."""
        lost = self._each(_force_directory, {one: one for one in self._chain(directories)})
        if not lost:
            _named.update((one, _number(one)) for parent in directories for one in self._above(parent))
        return lost

    def _chain(self, directories: Iterable[Path]) -> set[Path]:
        """These, and those above them whose entries may not be on disk: all that a process forces for the
        first time. The lowest are new with every epoch, and not remembered."""
        found: set[Path] = set()
        for directory in directories:
            found |= {directory, directory.parent}
            found |= {one.parent for one in self._above(directory) if _named.get(one) != _number(one)}
        # Who made the root may have kept what is above it to themselves.
        return {one for one in found if one != self._root.parent or os.access(one, os.R_OK)}

    def _above(self, directory: Path) -> list[Path]:
        """The directories between the root (included) and this one (excluded)."""
        return [one for one in directory.parents if one == self._root or self._root in one.parents]

    def _each(self, act: Callable[[Path], None], paths: dict[Path, Path]) -> dict[Path, OSError]:
        """Which of them failed; many at once where that is worth it."""
        took: list[float] = []

        def attempt(path: Path) -> OSError | None:
            began = time.perf_counter()
            try:
                act(path)
            except OSError as error:
                error.filename = error.filename or str(path)
                return error
            finally:
                took.append(time.perf_counter() - began)
            return None

        if len(paths) < 2 or _quick.get(self._root, False):
            results = [attempt(path) for path in paths.values()]
        else:
            with ThreadPoolExecutor(min(THREADS, len(paths)), thread_name_prefix="forcing") as pool:
                results = list(pool.map(attempt, paths.values()))
        if took:
            _quick[self._root] = max(took) < QUICK
        return {key: error for key, error in zip(paths, results, strict=True) if error is not None}


def write_whole(path: Path, content: bytes, *, root: Path, force: bool = True, once: bool = False) -> None:
    """Put a file in its place, complete or not at all. root, force, once: as for `DurableBatch`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(path)
    try:
        temporary.write_bytes(content)
        batch = DurableBatch(root, force=force)
        batch.add(temporary, path, once=once)
        for error in batch.settle().values():
            raise error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_or_remove(path: Path, content: bytes | memoryview) -> None:
    """Write a temporary file; where that fails, as on a full disk, what was written takes no room. Raises
    `OSError`."""
    try:
        path.write_bytes(content)
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        raise


def temporary_name(path: Path) -> Path:
    """Beside the file, hidden, and another one for each process and call."""
    return path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}{PARTIAL}")


def remove_abandoned(directory: Path, ending: str = "") -> None:
    """Delete the hidden files, with names that end so, that processes were writing when they were killed."""
    before = time.time() - ABANDONED
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
        for entry in entries:
            if not (entry.name.startswith(".") and entry.name.endswith(ending)):
                continue
            with contextlib.suppress(OSError):
                # Of the name, not of the content, which may be that of an older file.
                if (
                    entry.is_file(follow_symlinks=False)
                    and entry.stat(follow_symlinks=False).st_ctime < before
                ):
                    os.unlink(entry)


def force_names(directory: Path, *, root: Path) -> None:
    """The names in a directory, and its own, survive from now on. Raises `OSError`."""
    for error in DurableBatch(root).force_names({directory}).values():
        raise error


def _name(temporary: Path, target: Path, *, once: bool) -> None:
    if not once:
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if target.exists():
            raise FileExistsError(f"{target} exists") from None
        os.replace(temporary, target)


def _number(directory: Path) -> int:
    """Another one for another directory of the same name; -1 for none."""
    try:
        return directory.stat().st_ino
    except OSError:
        return -1


def _force_content(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def _force_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems have no such call: the server keeps names as it likes.
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(descriptor)
