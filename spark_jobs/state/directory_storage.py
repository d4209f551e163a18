"""Objects as files. A batch is forced to disk together and costs little more than one.

The directory has a mark with an id. Where its disk is gone while a process uses it, the directory below is
another one, which lacks what was stored, and hides what is stored there as soon as the disk is back: nothing
is stored in it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from secrets import token_hex

from host.durable import (
    PARTIAL,
    DurableBatch,
    force_names,
    remove_abandoned,
    temporary_name,
    write_whole,
)
from spark_jobs.state.state_storage import (
    NotThereError,
    RefusedError,
    StateStorage,
    StorageError,
    UnavailableError,
)

_REFUSED = frozenset({
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOTDIR,
    errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL,
})  # fmt: skip
"""What an administrator has to change. Other errors may pass by themselves."""


MARK = ".resurge-storage"


class DirectoryStorage(StateStorage):
    """`force`: False leaves it to the operating system when what was stored reaches the disk."""

    def __init__(self, root: str, *, force: bool = True) -> None:
        super().__init__(root)
        self._root = Path(root)
        self._force = force
        self._device: int | None = None
        self._mark = b""

    def put(self, files: Mapping[str, Path], then: Mapping[str, bytes]) -> set[str]:
        batch = DurableBatch(self._root, force=self._force)
        temporary: list[Path] = []
        with self._told(""):
            self._look_whether_mounted()
            try:
                for name, source in files.items():
                    target = self._prepared(name, temporary)
                    _link_or_copy(source, temporary[-1])
                    batch.add(temporary[-1], target, once=True)
                for name, content in then.items():
                    target = self._prepared(name, temporary)
                    temporary[-1].write_bytes(content)
                    batch.add(temporary[-1], target, once=True)
                failed = batch.settle()
            finally:
                for path in temporary:
                    with contextlib.suppress(OSError):
                        path.unlink(missing_ok=True)
            for error in failed.values():
                if not isinstance(error, FileExistsError):
                    raise error
        return {path.relative_to(self._root).as_posix() for path in failed}

    def confirm(self, names: Iterable[str]) -> None:
        if self._force:
            with self._told(""):
                for directory in {(self._root / name).parent for name in names}:
                    force_names(directory, root=self._root)

    def _look_whether_mounted(self) -> None:
        """Raises `UnavailableError` where the directory is on another file system than it was, and is another
        one. One that was emptied on its file system is used as it is."""
        if self._device is not None and _device(self._root) == self._device:
            return
        mark = self._root / MARK
        if self._device is None:
            if not mark.exists():
                with contextlib.suppress(FileExistsError):  # another process was first
                    write_whole(mark, token_hex(8).encode(), root=self._root, force=self._force, once=True)
            self._mark = mark.read_bytes().strip()
        elif not mark.is_file() or mark.read_bytes().strip() != self._mark:
            known = self._mark.decode(errors="replace")
            raise UnavailableError(
                f"{self._root} is on another file system than before, without what was stored: mount its "
                f"disk again, and it goes on; if that is lost for good, put {known} into the file {mark}"
            )
        self._device = _device(self._root)

    def _prepared(self, name: str, temporary: list[Path]) -> Path:
        """The path of an object, whose directory exists; where it is written first is added."""
        target = self._root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.append(temporary_name(target))
        return target

    def get(self, name: str) -> bytes:
        with self._told(name):
            return (self._root / name).read_bytes()

    def get_file(self, name: str, target: Path) -> None:
        target.touch()
        with self._told(name):
            shutil.copyfile(self._root / name, target)

    def entries(self, directory: str) -> dict[str, int | None]:
        found: dict[str, int | None] = {}
        with (
            self._told(directory),
            contextlib.suppress(FileNotFoundError),
            os.scandir(self._root / directory) as listed,
        ):
            for one in listed:
                if not one.name.startswith("."):  # is being written
                    with contextlib.suppress(FileNotFoundError):
                        found[one.name] = None if one.is_dir() else one.stat().st_size
        return found

    def tidy(self, directory: str) -> None:
        with self._told(directory):
            remove_abandoned(self._root / directory, PARTIAL)

    def size(self, name: str) -> int | None:
        with self._told(name):
            try:
                found = (self._root / name).stat()
            except FileNotFoundError:
                return None
            return found.st_size if stat.S_ISREG(found.st_mode) else None

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with self._told(name):
                (self._root / name).unlink(missing_ok=True)

    def rename(self, name: str, new: str) -> None:
        path = self._root / name
        with self._told(name):
            try:
                path.replace(path.with_name(new))
            except FileNotFoundError as error:
                raise NotThereError(f"{path} is not there") from error

    def remove_tree(self, directory: str) -> None:
        with self._told(directory), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._root / directory)

    @contextlib.contextmanager
    def _told(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            kind: type[StorageError] = UnavailableError
            if isinstance(error, FileNotFoundError):
                kind = NotThereError
            elif error.errno in _REFUSED:
                kind = RefusedError
            where = error.filename2 or error.filename or self.where(name)
            raise kind(f"{error.strerror or error}: {where} (storage {self.place})") from error


def _device(path: Path) -> int:
    """Number of the file system that a path is on, also where it does not exist yet."""
    for one in (path, *path.parents):
        with contextlib.suppress(FileNotFoundError):
            return one.stat().st_dev
    return -1


def _link_or_copy(source: Path, target: Path) -> None:
    """Bring an immutable file to `target`: as a hard link on the same disk (the content then outlives the
    node's directory), else as a copy."""
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
            raise
        shutil.copyfile(source, target)
