"""A standby has the files of the newest checkpoint before it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from coordination.session import CoordinationUnavailableError
from spark_jobs.agent import prefetch
from spark_jobs.agent.prefetch import Newest, Prefetch
from spark_jobs.executor.restore import restore_partition
from spark_jobs.state.checkpoint_storage import CheckpointStorage, Found
from spark_jobs.state.chunks import ChunkEntry
from spark_jobs.state.store import EMPTY, Manifest, StateStore
from tests.unit.spark_jobs.state.conformance.states import HERE, TOPOLOGY, Kept, grown, layout, upload


class Standby:
    """A storage, a node that ran two partitions, and one that waits."""

    def __init__(self, root: Path) -> None:
        self.storage = Kept(f"file://{root}/checkpoints")
        self.home = root / "standby"
        self.home.mkdir()
        self.ran = [StateStore(root / f"node-{index}") for index in (0, 1)]
        self.manifests: list[Manifest] = [EMPTY, EMPTY]
        self.newest: dict[str, Newest] = {}
        self.away = False
        self.prefetch = Prefetch(node_home=self.home, url=self.storage.url, ask=self.ask)

    def ask(self) -> dict[str, Newest]:
        if self.away:
            raise CoordinationUnavailableError("not connected to ZooKeeper")
        return self.newest

    def checkpoint(self, number: int, *, here: bool = False) -> None:
        for index, store in enumerate(self.ran):
            self.manifests[index] = grown(store, self.manifests[index], number)
            upload(self.storage, store, self.manifests[index], partition=f"O3[{index}]")
        self.newest = {TOPOLOGY: Newest(HERE, number, here)}

    def store(self, index: int) -> StateStore:
        return StateStore(self.home / "state" / TOPOLOGY / str(HERE.deployed) / f"O3-{index}")

    def files(self, index: int) -> set[str]:
        directory = self.store(index).directory
        return {path.name for path in directory.iterdir()} if directory.is_dir() else set()

    def wanted(self, index: int) -> set[str]:
        return {entry.name for entry in self.manifests[index].files()}


@pytest.fixture
def standby(tmp_path: Path) -> Iterator[Standby]:
    made = Standby(tmp_path)
    with closing(made.storage):
        yield made


def test_each_checkpoint_is_followed(standby: Standby) -> None:
    standby.prefetch.look()
    assert standby.files(0) == set()
    for number in (10, 20):
        standby.checkpoint(number)
        standby.prefetch.look()
        assert [standby.files(index) for index in (0, 1)] == [standby.wanted(index) for index in (0, 1)]
    standby.manifests[0] = EMPTY
    standby.checkpoint(30)
    standby.prefetch.look()
    assert len(standby.files(0)) == 1, "what no partition needs any more is gone"
    assert standby.files(0) == standby.wanted(0)


def test_nothing_is_fetched_again_when_it_takes_over(
    standby: Standby, monkeypatch: pytest.MonkeyPatch
) -> None:
    standby.checkpoint(10)
    standby.prefetch.look()
    fetched: list[str] = []
    fetch = CheckpointStorage.fetch

    def counted(self: CheckpointStorage, found: Found, entry: ChunkEntry, target: Path) -> None:
        fetched.append(target.name)
        fetch(self, found, entry, target)

    monkeypatch.setattr(CheckpointStorage, "fetch", counted)
    restore_partition(standby.store(0), layout(standby.storage), "O3[0]", 10)
    assert standby.store(0).manifest(10) == standby.manifests[0]
    assert fetched == []
    standby.checkpoint(20)
    standby.prefetch.look()
    (name,) = fetched
    assert name.startswith(".20."), "one more file, of the partition that has no state here"
    assert standby.files(1) == standby.wanted(1)


def test_a_topology_that_runs_here_is_left_alone(standby: Standby) -> None:
    standby.checkpoint(10, here=True)
    standby.prefetch.look()
    assert standby.files(0) == set()


def test_the_state_of_a_replica_stays(standby: Standby) -> None:
    """It is ahead of the checkpoint, and in the same directory."""
    replica = standby.store(0)
    ahead = grown(replica, EMPTY, 15)
    standby.checkpoint(10)
    standby.prefetch.look()
    assert standby.files(0) == {"15.manifest", *(entry.name for entry in ahead.files())}
    assert replica.open(replica.manifest(15)).table("rows").read() is not None
    assert standby.files(1) == standby.wanted(1), "others are fetched"


@pytest.mark.parametrize("runs", [True, False])
def test_what_is_restored_while_files_are_fetched_stays(
    standby: Standby, monkeypatch: pytest.MonkeyPatch, *, runs: bool
) -> None:
    """Of a later checkpoint, also where no manifest says yet that the partition runs here."""
    standby.checkpoint(10)
    behind = standby.newest
    standby.manifests = [EMPTY, EMPTY]
    standby.checkpoint(20)
    mine, manifest = standby.store(0), standby.manifests[0]
    fetch = CheckpointStorage.fetch

    def meanwhile(self: CheckpointStorage, found: Found, entry: ChunkEntry, target: Path) -> None:
        monkeypatch.setattr(CheckpointStorage, "fetch", fetch)
        fetch(self, found, entry, target)
        restore_partition(mine, layout(standby.storage), "O3[0]", 20)
        if not runs:
            mine.rollback(0)

    monkeypatch.setattr(CheckpointStorage, "fetch", meanwhile)
    standby.newest = behind
    standby.prefetch.look()
    assert standby.wanted(0) <= standby.files(0)
    assert mine.used is runs
    assert mine.open(manifest).table("rows").read() is not None


def test_what_was_fetched_stays_where_a_replica_has_begun_to_run(
    standby: Standby, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have gone back to the checkpoint before the one that is fetched now."""
    standby.checkpoint(10)
    standby.prefetch.look()
    first, standby.manifests = standby.manifests[0], [EMPTY, EMPTY]
    standby.checkpoint(20)
    fetch = CheckpointStorage.fetch

    def meanwhile(self: CheckpointStorage, found: Found, entry: ChunkEntry, target: Path) -> None:
        monkeypatch.setattr(CheckpointStorage, "fetch", fetch)
        fetch(self, found, entry, target)
        restore_partition(standby.store(0), layout(standby.storage), "O3[0]", 10)

    monkeypatch.setattr(CheckpointStorage, "fetch", meanwhile)
    standby.prefetch.look()
    assert standby.store(0).open(first).table("rows").read() is not None


def test_a_file_that_was_damaged_on_its_disk_is_fetched_when_it_counts(standby: Standby) -> None:
    standby.checkpoint(10)
    standby.prefetch.look()
    path = standby.store(0).directory / next(iter(standby.wanted(0)))
    path.write_bytes(b"")
    restore_partition(standby.store(0), layout(standby.storage), "O3[0]", 10)
    assert not standby.store(0).lacks(standby.manifests[0].files()[0])


def test_what_cannot_be_had_now_is_tried_again(
    standby: Standby, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standby.checkpoint(10)
    standby.away = True
    standby.prefetch.look()
    standby.away = False
    with monkeypatch.context() as patched:
        patched.setattr(prefetch, "KEPT_FREE", 1.0)
        standby.prefetch.look()
        assert standby.files(0) == set(), "the disk is to stay free"
    standby.newest = {TOPOLOGY: Newest(HERE, 99, False)}
    standby.prefetch.look()
    stray = tmp_path / "checkpoints" / TOPOLOGY / str(HERE.deployed) / "manifests" / "10" / "A-stray"
    stray.mkdir()
    standby.newest = {TOPOLOGY: Newest(HERE, 10, False)}
    standby.prefetch.look()
    assert standby.files(0) == set(), "what is no partition is in its way, and ends no thread"
    stray.rmdir()
    standby.newest = {TOPOLOGY: Newest(HERE, 10, False)}
    standby.prefetch.look()
    assert standby.files(0) == standby.wanted(0)
