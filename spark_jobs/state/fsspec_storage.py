"""Objects in what fsspec opens and is no directory: S3 and what speaks its protocol, memory, other stores."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from fsspec.core import has_magic

from spark_jobs.state.state_storage import (
    NotThereError,
    RefusedError,
    StateStorage,
    UnavailableError,
)

THREADS = 8
AT_ONCE = 8 << 20
"""Bytes up to which a file is sent in one request."""
_WRITE_ONCE = frozenset({"memory", "s3", "s3a", "gs", "gcs"})
"""Stores that can be told to write only what is not there. In others an object is looked for first."""
_NO_CREDENTIALS = frozenset({"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"})


class FsspecStorage(StateStorage):
    """filesystem: of fsspec. root: the path in there, below which all objects are."""

    def __init__(self, filesystem: Any, root: str, place: str) -> None:
        super().__init__(place)
        self._filesystem = filesystem
        self._root = root.rstrip("/")
        protocols = filesystem.protocol if isinstance(filesystem.protocol, tuple) else (filesystem.protocol,)
        self._write_once = not _WRITE_ONCE.isdisjoint(protocols)

    def put(self, files: Mapping[str, Path], then: Mapping[str, bytes]) -> set[str]:
        there: set[str] = set()

        def file_put(name: str) -> None:
            source = files[name]
            if source.stat().st_size <= AT_ONCE:
                write = partial(self._filesystem.pipe_file, self._path(name), source.read_bytes())
            else:
                write = partial(self._filesystem.put_file, str(source), self._path(name))
            if not self._put(name, write):
                there.add(name)

        self._each(file_put, list(files))
        for name, content in then.items():
            if not self._put(name, partial(self._filesystem.pipe_file, self._path(name), content)):
                there.add(name)
        return there

    def _put(self, name: str, write: Callable[..., object]) -> bool:
        """False: an object of that name was there."""
        with self._told(name):
            if not self._write_once:
                if self._filesystem.exists(self._path(name)):
                    return False
                write()
                return True
            try:
                write(mode="create")
            except FileExistsError:
                return False
            except OSError:
                # S3 says that a precondition failed, or its answer to a first try was lost.
                if self.size(name) is None:
                    raise
                return False
            return True

    def get(self, name: str) -> bytes:
        with self._told(name):
            return bytes(self._filesystem.cat_file(self._path(name)))

    def get_file(self, name: str, target: Path) -> None:
        target.touch()
        with self._told(name):
            self._filesystem.get_file(self._path(name), str(target))

    def entries(self, directory: str) -> dict[str, int | None]:
        path = self._path(directory)
        with self._told(directory):
            try:
                found = self._filesystem.ls(path, detail=True, refresh=True)
            except FileNotFoundError:
                return {}
            names = {
                str(one["name"]).rstrip("/"): int(one["size"] or 0) if one["type"] == "file" else None
                for one in found
            }
        return {name.rpartition("/")[2]: size for name, size in names.items() if name != path.rstrip("/")}

    def size(self, name: str) -> int | None:
        with self._told(name):
            try:
                found = self._filesystem.info(self._path(name), refresh=True)
            except FileNotFoundError:
                return None
            return int(found["size"] or 0) if found["type"] == "file" else None

    def delete(self, names: Iterable[str]) -> None:
        def delete_one(name: str) -> None:
            with self._told(name), contextlib.suppress(FileNotFoundError):
                self._filesystem.rm_file(self._path(name))

        self._each(delete_one, list(names))

    def rename(self, name: str, new: str) -> None:
        path = self._path(name)
        with self._told(name):
            self._filesystem.cp_file(path, f"{path.rpartition('/')[0]}/{new}")
            self._filesystem.rm_file(path)

    def remove_tree(self, directory: str) -> None:
        path = self._path(directory)
        with self._told(directory), contextlib.suppress(FileNotFoundError):
            if has_magic(path):  # would be taken for a pattern
                for one in self._filesystem.find(path):
                    self._filesystem.rm_file(one)
            else:
                self._filesystem.rm(path, recursive=True)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _each(self, act: Callable[[str], None], names: list[str]) -> None:
        """Many requests at once, since each is mostly waiting."""
        if len(names) < 2:
            for name in names:
                act(name)
            return
        with ThreadPoolExecutor(min(THREADS, len(names)), thread_name_prefix="storage") as pool:
            for _ in pool.map(act, names):
                pass

    @contextlib.contextmanager
    def _told(self, name: str) -> Iterator[None]:
        """Every store behind fsspec raises its own kinds."""
        try:
            yield
        except (NotThereError, RefusedError, UnavailableError):
            raise
        except FileNotFoundError as error:
            raise NotThereError(f"{self.where(name)} is not there: {_words(error)}") from error
        except PermissionError as error:
            raise RefusedError(f"{self.where(name)}: not permitted ({_words(error)})") from error
        except Exception as error:
            if type(error).__name__ in _NO_CREDENTIALS:
                raise RefusedError(
                    f"{self.where(name)}: {_words(error)}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                ) from error
            raise UnavailableError(f"{self.where(name)}: {_words(error)}") from error


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
