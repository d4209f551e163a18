"""States of a partition that are uploaded and restored, and what is stored then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa

from spark_jobs.state.checkpoint_storage import CheckpointStorage, Deployment, StoredManifest
from spark_jobs.state.storage_urls import open_storage
from spark_jobs.state.store import Manifest, StateStore

TOPOLOGY, DIRECTORY, PARTITION = "hashtags", "O3-0", "O3[0]"
HERE = Deployment(TOPOLOGY, 5)


class Kept(CheckpointStorage):
    """Remembers its URL, for what opens it again. raw: the same storage, without the layout."""

    def __init__(self, url: str) -> None:
        super().__init__(url, force=False)
        self.url = url
        self.raw = open_storage(url, force=False)

    def close(self) -> None:
        super().close()
        self.raw.close()


def layout(storage: Kept, deployed: int = HERE.deployed) -> Any:
    spec = SimpleNamespace(name=TOPOLOGY)
    return SimpleNamespace(spec=spec, deployed=deployed, checkpoints=storage.url, division=None)


def grown(store: StateStore, before: Manifest, epoch: int) -> Manifest:
    """Add one chunk; manifests share the chunks of earlier epochs."""
    state = store.open(before)
    state.table("rows").append(pa.table({"x": [epoch]}))
    return store.commit(state, epoch=epoch, generation=1)


def upload(
    storage: CheckpointStorage,
    store: StateStore,
    manifest: Manifest,
    *,
    deployed: int = HERE.deployed,
    topology: str = TOPOLOGY,
    partition: str = PARTITION,
    generation: int = 5,
    attempt: int = 0,
) -> int:
    stored = StoredManifest(
        topology=topology,
        deployed=deployed,
        partition=partition,
        checkpoint=manifest.epoch,
        generation=generation,
        attempt=attempt,
        manifest=msgspec.Raw(msgspec.json.encode(manifest)),
    )
    return storage.store(stored, [(entry, store.directory / entry.name) for entry in manifest.files()])


def rows(store: StateStore, epoch: int) -> list[int]:
    table = store.open(store.manifest(epoch)).table("rows").read()
    assert table is not None
    return list(table.column("x").to_pylist())


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


class Objects:
    """What is stored, by its path below the URL."""

    def __init__(self, storage: Kept) -> None:
        self._storage = storage.raw
        self.place = storage.place

    def names(self, below: str = "") -> list[str]:
        found: list[str] = []
        for name, size in self._storage.entries(below).items():
            path = f"{below}/{name}" if below else name
            found += self.names(path) if size is None else [path]
        return sorted(found)

    def only(self, part: str) -> str:
        (found,) = [name for name in self.names() if part in name and not name.endswith(".damaged")]
        return found

    def read(self, name: str) -> bytes:
        return self._storage.get(name)

    def write(self, name: str, content: bytes) -> None:
        """As a new file: a stored one may be a link to that of a node."""
        self._storage.delete([name])
        assert self._storage.put({}, {name: content}) == set()

    def remove(self, name: str) -> None:
        self._storage.delete([name])
