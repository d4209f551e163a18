"""What retention remembers of manifests that it has read, which are written once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from host import durable
from spark_jobs.driver import retention
from spark_jobs.driver.retention import Retention, prune
from spark_jobs.state.checkpoint_storage import DAMAGED, CheckpointStorage, KnownNames
from spark_jobs.state.directory_storage import DirectoryStorage
from spark_jobs.state.sealed import DamagedError
from spark_jobs.state.store import EMPTY, Manifest, StateStore
from tests.unit.spark_jobs.state.conformance.states import DIRECTORY, HERE, PARTITION, TOPOLOGY, grown, upload


class World:
    """Checkpoints of one partition, of which each adds a file."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.url = f"file://{root / 'storage'}"
        self.storage = CheckpointStorage(self.url)
        self.node = StateStore(root / "state")
        self.newest = EMPTY
        self.known: KnownNames = {}
        self.read: list[str] = []
        get = DirectoryStorage.get

        def noted(storage: DirectoryStorage, name: str) -> bytes:
            self.read.append(name)
            return get(storage, name)

        monkeypatch.setattr(DirectoryStorage, "get", noted)

    def checkpoint(self, epoch: int, *, generation: int = 5) -> Manifest:
        self.newest = grown(self.node, self.newest, epoch)
        upload(self.storage, self.node, self.newest, generation=generation)
        return self.newest

    def prune(self, *kept: int) -> list[str]:
        """Returns the numbers of the checkpoints whose manifests were read."""
        self.read.clear()
        prune(self.storage, HERE, kept=kept, partitions=[PARTITION], known=self.known)
        return [name.split("/")[3] for name in self.read if "/manifests/" in name]

    def files(self) -> set[str]:
        return set(self.storage.files(HERE, DIRECTORY))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(tmp_path, monkeypatch)
    yield made
    made.storage.close()


def test_each_manifest_is_read_once(world: World) -> None:
    for epoch in (10, 20, 30):
        world.checkpoint(epoch)
    assert world.prune(20, 30) == ["20", "30"]
    world.checkpoint(40)
    assert world.prune(30, 40) == ["40"]
    assert sorted(world.known) == [30, 40], "and what was deleted is forgotten"
    assert len(world.files()) == 4, "the newest names all"


def test_a_checkpoint_under_way_keeps_no_older_one_from_going(world: World) -> None:
    for epoch in (10, 20, 30):
        world.checkpoint(epoch)
    other = StateStore(world.root / "other")
    upload(world.storage, other, grown(other, EMPTY, 40), partition="O3[1]")
    world.prune(20, 30)
    assert world.storage.checkpoints(HERE) == [20, 30, 40]


def test_a_later_attempt_at_the_same_checkpoint_is_read(world: World) -> None:
    for epoch in (10, 20, 30):
        world.checkpoint(epoch)
    assert world.prune(20, 30) == ["20", "30"]
    # A plan goes back to 20, and 30 is taken again, with other files.
    world.node = StateStore(world.root / "other")
    world.newest = EMPTY
    world.checkpoint(15, generation=6)
    again = world.checkpoint(30, generation=6)
    world.checkpoint(40, generation=6)
    assert world.prune(30, 40) == ["30", "40"]
    assert {f"{one.name}.{one.checksum}" for one in again.files()} <= world.files()


def test_what_was_set_aside_is_missed_and_what_takes_its_place_is_read(world: World) -> None:
    for epoch in (10, 20, 30):
        world.checkpoint(epoch)
    world.prune(20, 30)
    world.checkpoint(40)
    path = next(world.root.glob(f"storage/{TOPOLOGY}/*/manifests/30/*/*.json"))
    content = path.read_bytes()
    path.rename(path.with_name(path.name + DAMAGED))
    with pytest.raises(DamagedError, match=f"checkpoint 30 of {TOPOLOGY} lacks {DIRECTORY}"):
        world.prune(30, 40)
    assert world.storage.checkpoints(HERE) == [20, 30, 40], "nothing is deleted"
    path.write_bytes(content)
    assert world.prune(30, 40) == ["30", "40"]


def test_what_killed_agents_were_uploading_goes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.checkpoint(10)
    (path,) = world.root.glob(f"storage/{TOPOLOGY}/*/files/{DIRECTORY}/10.*")
    left = path.with_name(f".{path.name}.123.partial")
    left.write_bytes(b"x")
    world.checkpoint(20)
    world.checkpoint(30)
    world.prune(20, 30)
    assert left.exists(), "it may be of an agent that runs"
    monkeypatch.setattr(durable, "ABANDONED", -1.0)
    world.checkpoint(40)
    world.prune(30, 40)
    assert not left.exists()


GONE, GONE_DIRECTORY = "O3[1]", "O3-1"


def of_a_partition_that_goes(world: World, *epochs: int) -> set[str]:
    """Checkpoints that have it, too, each with a file more. Returns the names of all its files."""
    store, newest = StateStore(world.root / "gone"), EMPTY
    for epoch in epochs:
        world.checkpoint(epoch)
        newest = grown(store, newest, epoch)
        upload(world.storage, store, newest, partition=GONE)
    return set(world.storage.files(HERE, GONE_DIRECTORY))


def test_files_of_partitions_that_no_checkpoint_has_go(world: World) -> None:
    files = of_a_partition_that_goes(world, 10, 20)
    world.checkpoint(30)
    world.checkpoint(40)
    world.prune(20, 30, 40)
    assert set(world.storage.files(HERE, GONE_DIRECTORY)) == files, "the checkpoint 20 names both"
    # An upload that is under way, of a version that has the partition again.
    (path,) = world.root.glob(f"storage/{TOPOLOGY}/*/files/{DIRECTORY}/40.*")
    late = {"30.divided.ab", "40.later.ab"}
    for name in late:
        (path.parent.with_name(GONE_DIRECTORY) / name).write_bytes(b"x")
    world.prune(30, 40)
    assert set(world.storage.files(HERE, GONE_DIRECTORY)) == late
    assert len(world.files()) == 4


def test_what_an_earlier_deletion_left_goes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    of_a_partition_that_goes(world, 10)
    for epoch in (20, 30):
        world.checkpoint(epoch)
    with monkeypatch.context() as broken:
        broken.setattr(CheckpointStorage, "tidy", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            world.prune(20)
    assert world.storage.files(HERE, GONE_DIRECTORY)
    world.prune(30)
    assert not world.storage.files(HERE, GONE_DIRECTORY)


def test_files_whose_manifest_was_set_aside_stay_with_its_checkpoint(world: World) -> None:
    files = of_a_partition_that_goes(world, 10, 20)
    world.checkpoint(30)
    for path in world.root.glob(f"storage/{TOPOLOGY}/*/manifests/20/{GONE_DIRECTORY}/*.json"):
        path.rename(path.with_name(path.name + DAMAGED))
    world.prune(20, 30)
    assert set(world.storage.files(HERE, GONE_DIRECTORY)) == files
    world.prune(30)
    assert not world.storage.files(HERE, GONE_DIRECTORY)


def test_deletion_pauses(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a few files each, so that epochs have the CPU."""
    monkeypatch.setattr(retention, "AT_ONCE", 2)
    for epoch in (10, 20, 30, 40, 50):
        world.checkpoint(epoch)
    world.node, world.newest = StateStore(world.root / "other"), EMPTY
    world.checkpoint(60)
    left: list[int] = []

    def pause(seconds: float) -> None:
        assert seconds >= 0.0
        left.append(len(world.files()))

    prune(world.storage, HERE, kept=[60], partitions=[PARTITION], pause=pause)
    assert left == [4, 2, 1]


def test_another_deployment_has_manifests_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[KnownNames | None] = []
    monkeypatch.setattr(
        "spark_jobs.driver.retention.prune", lambda *arguments, known, **more: seen.append(known)
    )
    with closing(Retention(url=f"file://{tmp_path}", topology="t", partitions=[])) as retention:
        for deployed in (3, 3, 4):
            retention.keep([10], deployed)
    assert seen[0] is seen[1]
    assert seen[1] is not seen[2]
