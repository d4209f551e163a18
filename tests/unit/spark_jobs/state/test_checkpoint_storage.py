"""A task restores from the files that an agent uploaded, and the driver deletes files that no kept checkpoint
needs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import msgspec
import pyarrow as pa
import pytest

from spark_jobs.driver.retention import prune
from spark_jobs.executor.restore import RestoreError, restore_partition
from spark_jobs.state.checkpoint_storage import CheckpointStorage
from spark_jobs.state.store import EMPTY, Manifest, StateStore

TOPOLOGY, DIRECTORY = "hashtags", "O3-0"


@pytest.fixture(params=["file", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointStorage:
    root = f"{tmp_path}/checkpoints" if request.param == "file" else f"/{uuid4().hex}"
    return CheckpointStorage(f"{request.param}://{root}")


def layout(storage: CheckpointStorage) -> Any:
    return SimpleNamespace(spec=SimpleNamespace(name=TOPOLOGY), checkpoints=storage.url)


def grown(store: StateStore, before: Manifest, epoch: int) -> Manifest:
    """Add one chunk; manifests share the chunks of earlier epochs."""
    state = store.open(before)
    state.table("rows").append(pa.table({"x": [epoch]}))
    return store.commit(state, epoch=epoch, generation=1)


def upload(storage: CheckpointStorage, store: StateStore, manifest: Manifest) -> None:
    for entry in manifest.files():
        storage.store_file(TOPOLOGY, DIRECTORY, entry.name, store.directory / entry.name)
    storage.store_manifest(TOPOLOGY, manifest.epoch, DIRECTORY, msgspec.json.encode(manifest))


def rows(store: StateStore, epoch: int) -> list[int]:
    table = store.open(store.manifest(epoch)).table("rows").read()
    assert table is not None
    return list(table.column("x").to_pylist())


def test_the_names_on_disk_are_those_of_earlier_versions(tmp_path: Path) -> None:
    """Checkpoints that are stored already stay readable."""
    storage = CheckpointStorage(f"file://{tmp_path}/checkpoints")
    store = StateStore(tmp_path / "state")
    manifest = grown(store, EMPTY, 10)
    upload(storage, store, manifest)
    root = tmp_path / "checkpoints" / TOPOLOGY
    assert [str(path.relative_to(root)) for path in sorted(root.rglob("*")) if path.is_file()] == [
        f"files/O3-0/{manifest.files()[0].name}",
        "manifests/10/O3-0.json",
    ]


def test_a_partition_is_restored_on_an_empty_disk(storage: CheckpointStorage, tmp_path: Path) -> None:
    store = StateStore(tmp_path / "lost")
    first = grown(store, EMPTY, 10)
    upload(storage, store, first)
    upload(storage, store, grown(store, first, 20))
    replacement = StateStore(tmp_path / "replacement")
    restore_partition(replacement, layout(storage), "O3[0]", 20)
    assert rows(replacement, 20) == [10, 20]
    restore_partition(replacement, layout(storage), "O3[0]", 10)
    assert rows(replacement, 10) == [10]
    assert not list(replacement.directory.glob("20.manifest")), "what came after it is forgotten"


def test_what_cannot_be_restored_says_which_file_and_why(storage: CheckpointStorage, tmp_path: Path) -> None:
    store = StateStore(tmp_path / "lost")
    upload(storage, store, grown(store, EMPTY, 10))
    replacement = StateStore(tmp_path / "replacement")
    with pytest.raises(RestoreError, match=r"checkpoint 20 of O3\[0\].*manifests/20/O3-0.json"):
        restore_partition(replacement, layout(storage), "O3[0]", 20)
    (name,) = storage.files(TOPOLOGY, DIRECTORY)
    short = tmp_path / "short"
    short.write_bytes(b"x")
    storage.store_file(TOPOLOGY, DIRECTORY, name, short)
    with pytest.raises(RestoreError, match="has 1 bytes, its manifest says"):
        restore_partition(replacement, layout(storage), "O3[0]", 10)
    storage.store_manifest(TOPOLOGY, 10, DIRECTORY, b"{")
    with pytest.raises(RestoreError, match="checkpoint 10"):
        restore_partition(replacement, layout(storage), "O3[0]", 10)


def test_retention_keeps_what_the_kept_checkpoints_name(storage: CheckpointStorage, tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state")
    shared = grown(store, EMPTY, 10)
    passing = grown(store, EMPTY, 20)
    kept = grown(store, shared, 30)
    for manifest in (shared, passing, kept):
        upload(storage, store, manifest)
    under_way = tmp_path / "40.1.rows.0.arrow"
    under_way.write_bytes(b"uploaded before its manifest")
    storage.store_file(TOPOLOGY, DIRECTORY, under_way.name, under_way)

    prune(storage, TOPOLOGY, oldest=10)
    assert storage.checkpoints(TOPOLOGY) == [10, 20, 30]
    prune(storage, TOPOLOGY, oldest=30)
    assert storage.checkpoints(TOPOLOGY) == [30]
    expected = {entry.name for entry in kept.files()} | {under_way.name}
    assert storage.files(TOPOLOGY, DIRECTORY).keys() == expected
    restored = StateStore(tmp_path / "replacement")
    restore_partition(restored, layout(storage), "O3[0]", 30)
    assert rows(restored, 30) == [10, 30]


def test_nothing_is_deleted_while_a_kept_manifest_cannot_be_read(
    storage: CheckpointStorage, tmp_path: Path
) -> None:
    store = StateStore(tmp_path / "state")
    for epoch in (10, 20):
        upload(storage, store, grown(store, EMPTY, epoch))
    storage.store_manifest(TOPOLOGY, 20, DIRECTORY, b"{")
    with pytest.raises(ValueError, match="truncated"):
        prune(storage, TOPOLOGY, oldest=20)
    assert storage.checkpoints(TOPOLOGY) == [10, 20]
    assert len(storage.files(TOPOLOGY, DIRECTORY)) == 2


def test_deleting_a_topology_leaves_the_others(storage: CheckpointStorage, tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state")
    upload(storage, store, grown(store, EMPTY, 10))
    storage.store_manifest("other", 10, DIRECTORY, b"{}")
    storage.delete_topology(TOPOLOGY)
    storage.delete_topology(TOPOLOGY)
    assert storage.checkpoints(TOPOLOGY) == []
    assert storage.files(TOPOLOGY, DIRECTORY) == {}
    assert storage.checkpoints("other") == [10]


def test_a_name_with_a_path_is_refused(storage: CheckpointStorage, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds a path"):
        storage.fetch_file(TOPOLOGY, DIRECTORY, "../../../secret", tmp_path / "target")
