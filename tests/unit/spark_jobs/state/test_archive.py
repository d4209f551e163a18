"""Archives of savepoints: whole ones are read, and what is not whole is refused before anything is taken."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from domain.execution.job import EpochPlan
from host import durable
from host.durable import temporary_name
from spark_jobs.state.archive import INDEX, SavepointArchive, archive_write
from spark_jobs.state.checkpoint_storage import Deployment
from spark_jobs.state.records import CheckpointRecord
from spark_jobs.state.savepoints import SavepointStorage
from spark_jobs.state.sealed import DamagedError, seal, unseal
from spark_jobs.state.store import EMPTY, StateStore
from tests.unit.spark_jobs.state.conformance.states import Kept, flipped, grown, upload

SPEC = {
    "name": "counts",
    "operators": [
        {"name": "S", "kind": "source"},
        {"name": "N", "kind": "filter", "inputs": [{"from": "S"}], "output": True},
    ],
}
HERE = Deployment("counts", 5)
Members = dict[str, bytes]


def record(checkpoint: int = 20) -> CheckpointRecord:
    plan = EpochPlan(
        epoch=checkpoint,
        slices={"S": ({"tuple": 0}, {"tuple": 9})},
        watermark=1,
        previous_watermark=0,
        at=0.0,
    )
    return CheckpointRecord(
        topology="counts", deployed=5, checkpoint=checkpoint, version=3, spec=SPEC,
        origin_us=7, plan=plan,
    )  # fmt: skip


@pytest.fixture
def storage(tmp_path: Path) -> Kept:
    """Checkpoints 10 and 20 of two partitions; the later one has the files of both."""
    kept = Kept(f"file://{tmp_path}/checkpoints")
    for partition in ("S[0]", "N[0]"):
        store = StateStore(tmp_path / partition)
        first = grown(store, EMPTY, 10)
        for manifest in (first, grown(store, first, 20)):
            upload(kept, store, manifest, topology="counts", partition=partition)
    kept.store_record(record())
    return kept


@pytest.fixture
def whole(storage: Kept, tmp_path: Path) -> Path:
    path = tmp_path / "savepoint.tar"
    archive_write(storage, HERE, 20, path)
    return path


def members_of(path: Path) -> Members:
    with tarfile.open(path) as archive:
        found = {one.name: archive.extractfile(one) for one in archive}
        return {name: file.read() for name, file in found.items() if file is not None}


def written(path: Path, members: Members) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def test_it_has_all_that_the_checkpoint_has(whole: Path) -> None:
    said: list[str] = []
    with SavepointArchive(whole) as archive:
        archive.check(lambda what, done, total: said.append(f"{what} {done}/{total}"))
        assert archive.record == record()
        assert archive.partitions == ["S[0]", "N[0]"]
        assert [len(archive.manifests[one].files()) for one in archive.partitions] == [2, 2]
    assert said == ["S[0] 0/2", "N[0] 1/2"]


def test_it_tells_nothing_of_the_host(whole: Path) -> None:
    with tarfile.open(whole) as archive:
        assert {(one.uid, one.uname, one.mtime) for one in archive} == {(0, "", 0)}


def test_a_checkpoint_that_lacks_something_is_not_copied(storage: Kept, tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match=r"records/10.json is missing"):
        archive_write(storage, HERE, 10, tmp_path / "a.tar")
    storage.raw.remove_tree("counts/5/manifests/20/N-0")
    with pytest.raises(DamagedError, match=r"20/N-0 is missing"):
        archive_write(storage, HERE, 20, tmp_path / "a.tar")


AGAIN = r"checkpoint 20 of 'counts' was taken again while it was copied"


def take_again(storage: Kept, root: Path, partition: str) -> None:
    store = StateStore(root / f"{partition} again")
    upload(storage, store, grown(store, EMPTY, 20), topology="counts", partition=partition, generation=9)


@pytest.mark.parametrize("again", [["S[0]"], ["N[0]"], ["S[0]", "N[0]"], []])
@pytest.mark.parametrize("at", ["S[0]", "N[0]"])
def test_a_checkpoint_that_is_taken_again_is_not_copied(
    storage: Kept, tmp_path: Path, again: list[str], at: str
) -> None:
    """The topology is put back to an older one while this one is copied."""

    def taken_again(partition: str, done: int, total: int) -> None:
        if partition == at:
            for one in again:
                take_again(storage, tmp_path, one)
            if not again:
                storage.store_record(msgspec.structs.replace(record(), version=4))

    with pytest.raises(DamagedError, match=AGAIN):
        archive_write(storage, HERE, 20, tmp_path / "a.tar", progress=taken_again)


def test_a_checkpoint_that_is_being_taken_again_is_not_copied(storage: Kept, tmp_path: Path) -> None:
    take_again(storage, tmp_path, "N[0]")
    with pytest.raises(DamagedError, match=AGAIN):
        archive_write(storage, HERE, 20, tmp_path / "a.tar")
    take_again(storage, tmp_path, "S[0]")
    archive_write(storage, HERE, 20, tmp_path / "a.tar")


def test_a_record_takes_the_place_of_that_of_an_undone_checkpoint(storage: Kept) -> None:
    later = msgspec.structs.replace(record(), version=4)
    storage.store_record(later)
    storage.store_record(later)
    assert storage.record(HERE, 20) == later
    storage.delete_checkpoint(HERE, 20)
    with pytest.raises(DamagedError, match="is missing"):
        storage.record(HERE, 20)


def test_a_record_of_another_checkpoint_is_refused(storage: Kept) -> None:
    storage.raw.put({}, {"counts/5/records/21.json": storage.raw.get("counts/5/records/20.json")})
    with pytest.raises(DamagedError, match=r"21.json is that of another checkpoint"):
        storage.record(HERE, 21)


def cut(members: Members) -> None:
    del members["files/N-0/" + next(one for one in members if "files/N-0/" in one).rpartition("/")[2]]


def without_state(members: Members) -> None:
    del members["manifests/N-0.json"]


def without_index(members: Members) -> None:
    del members[INDEX]


def with_more(members: Members) -> None:
    members["files/N-0/../../../etc/passwd"] = b"root"


def of_another_epoch(members: Members) -> None:
    body = unseal(members["manifests/N-0.json"], "").replace(b'"epoch":20', b'"epoch":10')
    members["manifests/N-0.json"] = seal(body)


def outside(members: Members) -> None:
    name = next(one for one in members if "files/N-0/" in one).rpartition("/")[2]
    body = unseal(members["manifests/N-0.json"], "").replace(name.encode(), b"../" + name.encode())
    members["manifests/N-0.json"] = seal(body)


def of_a_later_format(members: Members) -> None:
    members[INDEX] = seal(unseal(members[INDEX], "").replace(b'"format":1', b'"format":2'))


def with_other_partitions(members: Members) -> None:
    members[INDEX] = seal(unseal(members[INDEX], "").replace(b'["S[0]","N[0]"]', b'["S[0]"]'))


def with_an_unreadable_specification(members: Members) -> None:
    members[INDEX] = seal(unseal(members[INDEX], "").replace(b'"operators"', b'"operations"'))


def of_another_topology(members: Members) -> None:
    members[INDEX] = seal(unseal(members[INDEX], "").replace(b'"topology":"counts"', b'"topology":"../x"'))


def with_a_version_below_zero(members: Members) -> None:
    members[INDEX] = seal(unseal(members[INDEX], "").replace(b'"version":3', b'"version":-3'))


def sealed_otherwise(members: Members) -> None:
    members[INDEX] = members[INDEX].replace(b'"version":3', b'"version":9')


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (cut, "files/N-0/.* is missing"),
        (without_state, r"has no state of N\[0\]"),
        (without_index, "is no archive of a savepoint: it has no savepoint.json"),
        (with_more, "passwd belongs to no partition"),
        (of_another_epoch, "is the state of epoch 10, not of 20"),
        (outside, "is not the name of a state file"),
        (of_a_later_format, "is of format 2, and this version reads 1"),
        (with_other_partitions, "does not name the partitions of 'counts'"),
        (with_an_unreadable_specification, "cannot be read: "),
        (of_another_topology, "the record of '../x' has the specification of 'counts'"),
        (with_a_version_below_zero, "is damaged: Expected `int` >= 0"),
        (sealed_otherwise, "its checksum is not the one"),
    ],
)
def test_what_is_not_whole_is_refused(
    whole: Path, tmp_path: Path, change: Callable[[Members], None], told: str
) -> None:
    members = members_of(whole)
    change(members)
    with pytest.raises(DamagedError, match=told):
        SavepointArchive(written(tmp_path / "changed.tar", members))


def test_what_a_process_that_was_killed_was_storing_goes(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "savepoints"
    left = temporary_name(directory / "_savepoints" / "a.tar")
    left.parent.mkdir(parents=True)
    left.write_bytes(b"a part")
    with closing(SavepointStorage(f"file://{directory}", force=False)) as savepoints:
        savepoints.store("b", whole)
        assert left.exists(), "another process may be storing it"
        monkeypatch.setattr(durable, "ABANDONED", -1.0)
        savepoints.store("c", whole)
    assert sorted(path.name for path in left.parent.iterdir()) == ["b.tar", "c.tar"]


def test_a_changed_file_is_found_when_it_is_read(whole: Path, tmp_path: Path) -> None:
    members = members_of(whole)
    name = next(one for one in members if one.startswith("files/N-0/"))
    members[name] = flipped(members[name])
    with SavepointArchive(written(tmp_path / "changed.tar", members)) as archive:
        with archive.files("S[0]", tmp_path):
            pass
        with pytest.raises(DamagedError, match=rf"changed\.tar: {name} is damaged: its checksum"):
            archive.check()


def test_links_and_directories_are_refused(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "links.tar"
    path.write_bytes(whole.read_bytes())
    with tarfile.open(path, "a") as archive:
        link = tarfile.TarInfo("files/N-0/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(DamagedError, match="link is no plain file"):
        SavepointArchive(path)


def test_a_sparse_file_is_refused(whole: Path, tmp_path: Path) -> None:
    """It may be larger than the archive."""
    path = tmp_path / "sparse.tar"
    path.write_bytes(whole.read_bytes())
    with tarfile.open(path, "a") as archive:
        sparse = tarfile.TarInfo("files/N-0/holes")
        sparse.type = tarfile.GNUTYPE_SPARSE
        archive.addfile(sparse)
    with pytest.raises(DamagedError, match="holes is no plain file"):
        SavepointArchive(path)


def test_a_member_that_is_there_twice_is_refused(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "twice.tar"
    path.write_bytes(whole.read_bytes())
    with tarfile.open(path, "a") as archive:
        info = tarfile.TarInfo(INDEX)
        archive.addfile(info, io.BytesIO())
    with pytest.raises(DamagedError, match=r"savepoint.json is there twice"):
        SavepointArchive(path)


@pytest.mark.parametrize("bytes_", [0, 100, 700, 5_000])
def test_a_file_that_breaks_off_is_refused(whole: Path, tmp_path: Path, bytes_: int) -> None:
    path = tmp_path / "short.tar"
    path.write_bytes(whole.read_bytes()[:bytes_])
    with pytest.raises(DamagedError, match=r"short.tar"):
        SavepointArchive(path)


def test_other_files_are_no_archives(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello " * 300)
    with pytest.raises(DamagedError, match=r"notes.txt is no archive of a savepoint"):
        SavepointArchive(path)


def test_it_reads_what_is_stored(storage: Kept) -> None:
    with closing(storage):
        assert storage.record(HERE, 20) == record()
