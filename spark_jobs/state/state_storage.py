"""What keeps objects by name, once and whole: the one interface below the layout of checkpoints.

`checkpoint_storage.py` decides what is stored under which name; implementations decide how. What the
interface promises is tested on all of them, also where faults are injected
(tests/unit/spark_jobs/state/conformance).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

CHUNK = 4 << 20
"""Bytes of an object that a server is sent or asked for at once, where it keeps objects in parts."""

# A password may have an @ or a / that is not encoded; without a colon before the first / there is none.
_USER_INFO = re.compile(r"(?<=://)(?:[^/?#\s:]*:[^?#\s]*@(?:[^/\s]*@)?|[^/\s]*@)")
_QUERY_SECRET = re.compile(r"(?i)([?&][^=&\s]*(?:password|secret|token|key)[^=&\s]*=)[^&\s]*")


class StorageError(Exception):
    """Something could not be stored or read; the message names the object and the storage, without
    credentials, and says what to do where that is known."""


class NotThereError(StorageError):
    """There is no object of that name."""


class RefusedError(StorageError):
    """Not permitted, or no room: trying again does not help before an administrator has changed something."""


class UnavailableError(StorageError):
    """The storage did not answer, or failed: trying again later may help."""


class UnusableUrlError(StorageError):
    """The URL names no storage that can be used here; the message says what would."""


class StateStorage(ABC):
    """Objects by name: `a/b/c` is the object c in the directory a/b. No part of a name is empty or begins
    with a dot. Implementations may be used by several threads at once. Every method raises `RefusedError` or
    `UnavailableError` where the storage does; a method that fails can be called again.

    place: how the storage is called in messages, without credentials.
    """

    def __init__(self, place: str) -> None:
        self.place = place

    def where(self, name: str) -> str:
        """How an object is called in messages."""
        return f"{self.place}/{name}"

    @abstractmethod
    def put(self, files: Mapping[str, Path], then: Mapping[str, bytes]) -> set[str]:
        """Store the contents of files, `then` the further contents, by the names of the objects. When this
        returns, all of it is as durable as the storage makes it. An object appears whole or not at all, those
        of `then` only after those of `files`. What is there already stays as it is, and is returned."""

    def confirm(self, names: Iterable[str]) -> None:  # noqa: B027 - most storages show what is durable only
        """Have objects that are there be as durable as what `put` stores: a process that died may have stored
        them. `put` does so for what is in the directories of its objects."""

    @abstractmethod
    def get(self, name: str) -> bytes:
        """The content of an object. Raises `NotThereError`, and `DamagedError` where a part of it is gone."""

    @abstractmethod
    def get_file(self, name: str, target: Path) -> None:
        """Write the content of an object to a file. Raises as `get` does; the file may then have a part.
        Raises `OSError` if the file cannot be made."""

    @abstractmethod
    def entries(self, directory: str) -> dict[str, int | None]:
        """Names and bytes of the objects that a directory has now, and the names of the directories in it,
        with None. Nothing if there is no such directory; an empty one may be listed or not."""

    @abstractmethod
    def size(self, name: str) -> int | None:
        """Bytes of an object; None if it is not there. Asks for the object itself, where lists may lag."""

    def look_at(self, sizes: Mapping[str, int], set_aside: Callable[[Iterable[str]], object]) -> None:
        """Whether the storage has what it said that it stored; the bytes by name. Raises `UnavailableError`
        for the first that it has not, so that it is not taken for stored, and is sent again next time.
        set_aside: takes away what is there of it."""
        for name, expected in sizes.items():
            found = self.size(name)
            if found == expected:
                continue
            where = self.where(name)
            if found is None:
                raise UnavailableError(f"{where} was reported as stored, and is not there")
            set_aside([name])
            raise UnavailableError(f"{where} was reported as stored, and has {found} bytes of {expected}")

    @abstractmethod
    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; what is not there is no error."""

    @abstractmethod
    def rename(self, name: str, new: str) -> None:
        """Call an object by another name in its directory (`new` is its last part), in the place of what had
        that name. Raises `NotThereError`."""

    @abstractmethod
    def remove_tree(self, directory: str) -> None:
        """Delete a directory with all that is below it; what is not there is no error."""

    def tidy(self, directory: str) -> None:  # noqa: B027 - most storages keep nothing of a call that broke off
        """Delete what calls that were broken off an hour ago have left in a directory, and no list shows."""

    def close(self) -> None:  # noqa: B027 - a storage without connections has nothing to close
        """Close connections."""


class ChunkedStorage(StateStorage):
    """One that keeps an object in parts and reads them one after another."""

    @abstractmethod
    def chunks(self, name: str) -> Iterator[bytes]:
        """The parts of an object, in order. Raises as `get` does."""

    def get(self, name: str) -> bytes:
        return b"".join(self.chunks(name))

    def get_file(self, name: str, target: Path) -> None:
        with target.open("wb") as file:
            for chunk in self.chunks(name):
                file.write(chunk)


def masked(url: str) -> str:
    """A URL as it may be shown: without user names, passwords and keys."""
    return _QUERY_SECRET.sub(r"\1...", _USER_INFO.sub("...@", url))


def split(name: str) -> tuple[str, str]:
    """The directory of an object, and its name in there."""
    directory, _, last = name.rpartition("/")
    return directory, last
