"""Where savepoints are kept: beside the checkpoints, each as one object, until it is deleted.

    <url>/_savepoints/<key>.tar

No topology is called like that directory, so nothing that deletes checkpoints comes near.
"""

from __future__ import annotations

from pathlib import Path

from spark_jobs.state.sealed import DamagedError
from spark_jobs.state.state_storage import NotThereError, UnavailableError
from spark_jobs.state.storage_urls import open_storage

DIRECTORY = "_savepoints"


class SavepointStorage:
    """Raises `StorageError` of the kind that the storage raises."""

    def __init__(self, url: str, *, force: bool = True) -> None:
        self._storage = open_storage(url, force=force)

    def close(self) -> None:
        self._storage.close()

    def store(self, key: str, archive: Path) -> int:
        """Keep an archive; returns its bytes. What is there under the key already stays."""
        size = archive.stat().st_size
        self._storage.tidy(DIRECTORY)
        self._storage.put({_name(key): archive}, {})
        found = self._storage.size(_name(key))
        if found != size:
            raise UnavailableError(
                f"{self._storage.where(_name(key))} was reported as stored, and has "
                f"{found or 0} bytes of {size}"
            )
        return size

    def fetch(self, key: str, target: Path) -> None:
        """Raises `DamagedError` if it is not there."""
        try:
            self._storage.get_file(_name(key), target)
        except NotThereError as error:
            raise DamagedError(f"{self._storage.where(_name(key))} is missing") from error

    def delete(self, key: str) -> None:
        self._storage.delete([_name(key)])


def _name(key: str) -> str:
    return f"{DIRECTORY}/{key}.tar"
