"""A task restores from the files that an agent uploaded, and the driver deletes files that no kept checkpoint
needs."""

from __future__ import annotations

import errno
from pathlib import Path

import msgspec
import pytest

from spark_jobs.driver.retention import prune
from spark_jobs.executor.restore import RestoreError, bring_partition, restore_partition, whole_in_storage
from spark_jobs.state.checkpoint_storage import Deployment, StoredManifest
from spark_jobs.state.sealed import DamagedError, file_checksum, seal
from spark_jobs.state.store import EMPTY, Manifest, StateMissingError, StateStore
from tests.unit.spark_jobs.state.conformance.states import (
    DIRECTORY,
    HERE,
    PARTITION,
    TOPOLOGY,
    Kept,
    Objects,
    flipped,
    grown,
    layout,
    rows,
    upload,
)


def test_the_names_say_whose_an_object_is(storage: Kept, tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state")
    manifest = grown(store, EMPTY, 10)
    upload(storage, store, manifest, attempt=7)
    (entry,) = manifest.files()
    assert Objects(storage).names() == [
        f"{TOPOLOGY}/5/files/O3-0/{entry.name}.{entry.checksum}",
        f"{TOPOLOGY}/5/manifests/10/O3-0/5.7.json",
    ]


def test_a_partition_is_restored_on_an_empty_disk(storage: Kept, tmp_path: Path) -> None:
    store = StateStore(tmp_path / "lost")
    first = grown(store, EMPTY, 10)
    upload(storage, store, first)
    upload(storage, store, grown(store, first, 20))
    replacement = StateStore(tmp_path / "replacement")
    restore_partition(replacement, layout(storage), PARTITION, 20)
    assert rows(replacement, 20) == [10, 20]
    restore_partition(replacement, layout(storage), PARTITION, 10)
    assert rows(replacement, 10) == [10]
    assert not list(replacement.directory.glob("20.manifest")), "what came after it is forgotten"


@pytest.mark.parametrize("damage", ["gone", "flipped", "truncated", "emptied"])
def test_restoring_heals_what_a_node_has_of_a_state(storage: Kept, tmp_path: Path, damage: str) -> None:
    """Its manifest is right, and one of the files is not."""
    store = StateStore(tmp_path / "node")
    manifest = grown(store, grown(store, EMPTY, 10), 20)
    upload(storage, store, manifest)
    path = store.directory / manifest.files()[0].name
    content = path.read_bytes()
    path.unlink()  # in storage it may be the same file
    if damage != "gone":
        path.write_bytes({"flipped": flipped(content), "truncated": content[:-9], "emptied": b""}[damage])
    restore_partition(store, layout(storage), PARTITION, 20)
    assert rows(store, 20) == [10, 20]
    assert path.read_bytes() == content


def test_restoring_replaces_what_a_disk_cannot_read(
    storage: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, unreadable = StateStore(tmp_path / "node"), [True]
    manifest = grown(store, EMPTY, 10)
    upload(storage, store, manifest)

    def failing(path: Path) -> str:
        if path.parent == store.directory and not path.name.startswith(".") and unreadable.pop():
            raise OSError(errno.EIO, "Input/output error")
        return file_checksum(path)

    monkeypatch.setattr("spark_jobs.state.store.file_checksum", failing)
    restore_partition(store, layout(storage), PARTITION, 10)
    assert rows(store, 10) == [10]
    assert not unreadable


@pytest.mark.parametrize("kind", ["manifests", "files"])
@pytest.mark.parametrize("damage", ["gone", "flipped", "truncated", "emptied", "swapped"])
def test_a_damaged_object_is_named_and_set_aside(
    storage: Kept, tmp_path: Path, kind: str, damage: str
) -> None:
    store, objects = StateStore(tmp_path / "lost"), Objects(storage)
    manifest = grown(store, EMPTY, 10)
    upload(storage, store, manifest)
    name = objects.only(f"/{kind}/")
    content = objects.read(name)
    other = StateStore(tmp_path / "other")
    upload(storage, other, grown(other, grown(other, EMPTY, 9), 10), topology="another")
    if damage == "gone":
        objects.remove(name)
    else:
        swapped = [n for n in objects.names() if n.startswith("another") and f"/{kind}/" in n][-1]
        objects.write(
            name,
            {
                "flipped": flipped(content),
                "truncated": content[:-9],
                "emptied": b"",
                "swapped": objects.read(swapped),
            }[damage],
        )
    replacement = StateStore(tmp_path / "replacement")
    with pytest.raises(RestoreError) as caught:
        restore_partition(replacement, layout(storage), PARTITION, 10)
    assert caught.value.damaged
    assert name.rpartition("/")[0] in str(caught.value)
    assert damage == "gone" or name in str(caught.value)
    assert "checkpoint 10 of O3[0]" in str(caught.value)
    assert not whole_in_storage(replacement, layout(storage), PARTITION, 10)
    upload(storage, store, manifest)
    restore_partition(replacement, layout(storage), PARTITION, 10)
    assert rows(replacement, 10) == [10], "it can be stored again"
    assert (damage == "gone") or f"{name}.damaged" in objects.names(), "and looked at"


def test_a_storage_that_is_not_there_is_no_damage(tmp_path: Path) -> None:
    """A disk that is not mounted is waited for; no older checkpoint is taken because of it."""
    storage = Kept(f"file://{tmp_path}/checkpoints")
    store = StateStore(tmp_path / "lost")
    upload(storage, store, grown(store, EMPTY, 10))
    (tmp_path / "checkpoints").rename(tmp_path / "unmounted")
    replacement = StateStore(tmp_path / "replacement")
    with pytest.raises(RestoreError, match=r"checkpoint 10 of O3\[0\].*is it there at all") as caught:
        restore_partition(replacement, layout(storage), PARTITION, 10)
    assert not caught.value.damaged
    (tmp_path / "unmounted").rename(tmp_path / "checkpoints")
    restore_partition(replacement, layout(storage), PARTITION, 10)


def test_restoring_forgets_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    """It may be of a history that was undone."""
    storage, store = Kept(f"file://{tmp_path}/checkpoints"), StateStore(tmp_path / "state")
    manifest = grown(store, EMPTY, 10)
    upload(storage, store, manifest)
    later = grown(store, manifest, 20)
    bring_partition(store, layout(storage), PARTITION, 10)
    assert store.manifest(20) == later
    restore_partition(store, layout(storage), PARTITION, 10)
    with pytest.raises(StateMissingError):
        store.manifest(20)
    assert rows(store, 10) == [10]


@pytest.mark.parametrize("backend", ["file", "memory"], indirect=True)
@pytest.mark.parametrize("name", ["../../../../x", "/etc/x", "..", ".hidden", "a\\b", "a\nb", "", "x" * 300])
def test_a_manifest_that_names_a_path_is_refused(storage: Kept, tmp_path: Path, name: str) -> None:
    """Its checksum is right: what an attacker or a mistake wrote is not trusted either."""
    store = StateStore(tmp_path / "lost")
    manifest = grown(store, EMPTY, 10)
    (entry,) = manifest.files()
    evil = msgspec.structs.replace(manifest, tables={"rows": [msgspec.structs.replace(entry, name=name)]})
    raw = msgspec.Raw(msgspec.json.encode(evil))
    stored = StoredManifest(
        topology=TOPOLOGY,
        deployed=5,
        partition=PARTITION,
        checkpoint=10,
        generation=5,
        attempt=0,
        manifest=raw,
    )
    with pytest.raises(DamagedError, match="not a name"):
        storage.store(stored, [(evil.files()[0], store.directory / entry.name)])
    objects = Objects(storage)
    objects.write(f"{TOPOLOGY}/5/manifests/10/O3-0/5.0.json", seal(msgspec.json.encode(stored)))
    objects.write(f"{TOPOLOGY}/x.{entry.checksum}", (store.directory / entry.name).read_bytes())
    before = sorted(tmp_path.rglob("*"))
    replacement = StateStore(tmp_path / "lost")
    with pytest.raises(RestoreError, match=r"5\.0\.json names .* not the name of a state file"):
        restore_partition(replacement, layout(storage), PARTITION, 10)
    aside = [path for path in tmp_path.rglob("*") if path.name == "5.0.json.damaged"]
    assert sorted({*tmp_path.rglob("*")} - {*aside}) == [p for p in before if p.name != "5.0.json"]


def test_a_node_of_an_earlier_deployment_replaces_nothing(storage: Kept, tmp_path: Path) -> None:
    old, new = StateStore(tmp_path / "old"), StateStore(tmp_path / "new")
    upload(storage, new, grown(new, grown(new, EMPTY, 9), 10))
    upload(storage, old, grown(old, EMPTY, 10), deployed=2, generation=3)
    restored = StateStore(tmp_path / "restored")
    restore_partition(restored, layout(storage), PARTITION, 10)
    assert rows(restored, 10) == [9, 10]


def test_an_object_is_written_once(storage: Kept, tmp_path: Path) -> None:
    """Whatever comes later under its name; a later attempt has another."""
    first, second = StateStore(tmp_path / "first"), StateStore(tmp_path / "second")
    assert upload(storage, first, grown(first, EMPTY, 10), attempt=3) > 0
    assert upload(storage, first, first.manifest(10), attempt=3) == 0, "it is there already"
    upload(storage, second, grown(second, grown(second, EMPTY, 9), 10), attempt=3)
    restored = StateStore(tmp_path / "restored")
    restore_partition(restored, layout(storage), PARTITION, 10)
    assert rows(restored, 10) == [10]
    upload(storage, second, second.manifest(10), attempt=12)
    restore_partition(restored, layout(storage), PARTITION, 10)
    assert rows(restored, 10) == [9, 10], "the last attempt counts"


def test_a_file_that_is_damaged_on_its_node_is_not_stored(storage: Kept, tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state")
    manifest = grown(store, EMPTY, 10)
    path = store.directory / manifest.files()[0].name
    path.write_bytes(flipped(path.read_bytes()))
    with pytest.raises(DamagedError, match=f"{path} is damaged"):
        upload(storage, store, manifest)
    assert Objects(storage).names() == []


def stored_before(storage: Kept, store: StateStore, manifest: Manifest) -> Manifest:
    """As versions before this one stored it: without checksums, deployment and attempt."""
    plain = {n: [msgspec.structs.replace(e, checksum="") for e in es] for n, es in manifest.tables.items()}
    manifest = msgspec.structs.replace(manifest, tables=plain)
    for entry in manifest.files():
        content = (store.directory / entry.name).read_bytes()
        Objects(storage).write(f"{TOPOLOGY}/files/{DIRECTORY}/{entry.name}", content)
    path = f"{TOPOLOGY}/manifests/{manifest.epoch}/{DIRECTORY}.json"
    Objects(storage).write(path, msgspec.json.encode(manifest))
    return manifest


def test_what_versions_before_stored_is_restored_and_goes_when_it_is_old(
    storage: Kept, tmp_path: Path
) -> None:
    store = StateStore(tmp_path / "state")
    stored_before(storage, store, grown(store, EMPTY, 10))
    restored = StateStore(tmp_path / "restored")
    restore_partition(restored, layout(storage), PARTITION, 10)
    assert rows(restored, 10) == [10]
    manifest = restored.manifest(10)
    assert all(entry.checksum for entry in manifest.files()), "from now on it has checksums"
    upload(storage, restored, grown(restored, manifest, 20))
    prune(storage, HERE, kept=[10], partitions=[PARTITION])
    restore_partition(StateStore(tmp_path / "again"), layout(storage), PARTITION, 10)
    prune(storage, HERE, kept=[20], partitions=[PARTITION])
    assert all(name.startswith(f"{TOPOLOGY}/5/") for name in Objects(storage).names())
    restore_partition(StateStore(tmp_path / "later"), layout(storage), PARTITION, 20)


def test_a_damaged_object_of_a_version_before_is_named(storage: Kept, tmp_path: Path) -> None:
    store, objects = StateStore(tmp_path / "state"), Objects(storage)
    stored_before(storage, store, grown(store, EMPTY, 10))
    name = objects.only("/files/")
    objects.write(name, objects.read(name)[:-1])
    with pytest.raises(RestoreError, match=f"{name} is damaged: it has"):
        restore_partition(StateStore(tmp_path / "restored"), layout(storage), PARTITION, 10)
    stored_before(storage, store, store.manifest(10))
    objects.write(f"{TOPOLOGY}/manifests/10/{DIRECTORY}.json", b"{")
    with pytest.raises(RestoreError, match=rf"manifests/10/{DIRECTORY}\.json is damaged"):
        restore_partition(StateStore(tmp_path / "restored"), layout(storage), PARTITION, 10)


def test_retention_keeps_what_the_kept_checkpoints_name(storage: Kept, tmp_path: Path) -> None:
    store, late = StateStore(tmp_path / "state"), StateStore(tmp_path / "late")
    shared = grown(store, EMPTY, 10)
    passing = grown(store, EMPTY, 20)
    kept = grown(store, shared, 30)
    for manifest in (shared, passing, kept):
        upload(storage, store, manifest)
    upload(storage, late, grown(late, EMPTY, 10), deployed=2)
    under_way = f"{TOPOLOGY}/5/files/{DIRECTORY}/40.1.rows.0.arrow.0123"
    Objects(storage).write(under_way, b"uploaded before its manifest")

    prune(storage, HERE, kept=[10], partitions=[PARTITION])
    assert storage.checkpoints(HERE) == [10, 20, 30]
    prune(storage, HERE, kept=[30], partitions=[PARTITION])
    assert storage.checkpoints(HERE) == [30]
    assert storage.checkpoints(Deployment(TOPOLOGY, 2)) == []
    expected = {f"{entry.name}.{entry.checksum}" for entry in kept.files()} | {under_way.rpartition("/")[2]}
    assert storage.files(HERE, DIRECTORY).keys() == expected
    restored = StateStore(tmp_path / "replacement")
    restore_partition(restored, layout(storage), PARTITION, 30)
    assert rows(restored, 30) == [10, 30]


def test_nothing_is_deleted_while_a_kept_manifest_cannot_be_read(storage: Kept, tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state")
    for epoch in (10, 20):
        upload(storage, store, grown(store, EMPTY, epoch))
    Objects(storage).write(Objects(storage).only("/manifests/20/"), b"{")
    with pytest.raises(DamagedError, match=r"5\.0\.json is damaged"):
        prune(storage, HERE, kept=[20], partitions=[PARTITION])
    assert storage.checkpoints(HERE) == [10, 20]
    assert len(storage.files(HERE, DIRECTORY)) == 2


def test_deleting_a_topology_leaves_the_others(storage: Kept, tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state")
    upload(storage, store, grown(store, EMPTY, 10))
    upload(storage, store, store.manifest(10), topology="other")
    storage.delete_topology(TOPOLOGY)
    storage.delete_topology(TOPOLOGY)
    assert storage.checkpoints(HERE) == []
    assert storage.files(HERE, DIRECTORY) == {}
    assert storage.checkpoints(Deployment("other", 5)) == [10]


@pytest.mark.parametrize("backend", ["file", "memory"], indirect=True)
@pytest.mark.parametrize("topology", ["../x", "/x", "", ".."])
def test_a_topology_with_a_path_is_refused(storage: Kept, topology: str) -> None:
    for call in (storage.delete_topology, lambda name: storage.find(Deployment(name, 1), 10, PARTITION)):
        with pytest.raises(DamagedError, match="not a name"):
            call(topology)
