"""Checkpoints in storages that fail, forget, show parts, or list what was. Whatever happens: what is read is
what was stored, an acknowledged checkpoint is whole or found to be damaged, and none that is kept loses
anything."""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harness.eventually import eventually
from spark_jobs.driver.retention import prune
from spark_jobs.executor.restore import RestoreError, restore_partition, whole_in_storage
from spark_jobs.state import checkpoint_storage
from spark_jobs.state.checkpoint_storage import Deployment
from spark_jobs.state.sealed import DamagedError
from spark_jobs.state.state_storage import StorageError
from spark_jobs.state.store import EMPTY, Manifest, StateStore
from tests.unit.spark_jobs.state.conformance.backends import opened
from tests.unit.spark_jobs.state.conformance.faults import WRITING, Fault, Faulty, Trouble
from tests.unit.spark_jobs.state.conformance.states import (
    DIRECTORY,
    PARTITION,
    TOPOLOGY,
    Kept,
    Objects,
    grown,
    layout,
    rows,
    upload,
)

FAILING = (Fault.FAILS, Fault.ANSWER_LOST, Fault.BREAKS_OFF)


@pytest.fixture
def faulty(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    """What everything that opens the storage gets."""
    with opened(url) as inner:
        faulty = Faulty(inner)
        monkeypatch.setattr(faulty, "close", lambda: None)
        monkeypatch.setattr(checkpoint_storage, "open_storage", lambda url, force: faulty)
        yield faulty


class World:
    """One deployment of a topology with one partition, whose states grow by a row."""

    def __init__(self, storage: Kept, faulty: Faulty, root: Path, deployed: int) -> None:
        self.storage, self.faulty, self.deployed = storage, faulty, deployed
        self.here = Deployment(TOPOLOGY, deployed)
        self.node = StateStore(root / f"node-{deployed}")
        self.objects = Objects(storage)
        self._root = root
        self._restored = 0
        self.expected: dict[int, list[int]] = {}

    def grow(self, before: Manifest, epoch: int) -> Manifest:
        manifest = grown(self.node, before, epoch)
        self.expected[epoch] = [*self.expected.get(before.epoch, []), epoch]
        return manifest

    def acknowledged(self, manifest: Manifest) -> bool:
        """Whether an upload succeeds; if not, the message names the storage."""
        problem = ""
        try:
            upload(self.storage, self.node, manifest, deployed=self.deployed)
        except (StorageError, DamagedError) as error:
            problem = str(error)
        assert not problem or self.faulty.place in problem
        return not problem

    def restored(self, checkpoint: int) -> list[int]:
        """On an empty disk. Raises `RestoreError`."""
        self._restored += 1
        store = StateStore(self._root / f"restored-{self.deployed}-{self._restored}")
        restore_partition(store, layout(self.storage, self.deployed), PARTITION, checkpoint)
        return rows(store, checkpoint)

    def whole(self, checkpoint: int) -> bool:
        self._restored += 1
        store = StateStore(self._root / f"restored-{self.deployed}-{self._restored}")
        return whole_in_storage(store, layout(self.storage, self.deployed), PARTITION, checkpoint)

    def exact_or_refused(self, checkpoint: int) -> bool:
        """Whether it is restored, and then it is what was stored."""
        problem = ""
        try:
            assert self.restored(checkpoint) == self.expected[checkpoint]
        except RestoreError as error:
            problem = str(error)
        assert not problem or f"checkpoint {checkpoint} of {PARTITION}" in problem
        return not problem

    def prune(self, *kept: int) -> None:
        prune(self.storage, self.here, kept=kept, partitions=[PARTITION])


class Worlds:
    """In the same storage, one after another, each without trouble at first."""

    def __init__(self, storage: Kept, faulty: Faulty, root: Path, *, every: bool) -> None:
        self._storage, self._faulty, self._root, self._all = storage, faulty, root, every
        self._made = 0

    def fresh(self) -> World:
        self._faulty.trouble, self._faulty.lists = None, None
        self._made += 1
        return World(self._storage, self._faulty, self._root, self._made)

    def each_step(self, *faults: Fault) -> Iterator[tuple[World, Trouble]]:
        """A world for every fault at every step of what is then done with trouble, or at one."""
        for number, fault in enumerate(faults):
            for at in itertools.count() if self._all else [SPARSE[number]]:
                trouble = Trouble(fault, at)
                yield self.fresh(), trouble
                if not trouble.met:
                    break


SERVERS = ("s3", "redis", "postgresql")
SPARSE = (1, 2, 3, 4, 5)
"""What the layout does about a fault is the same for all; servers take longer, so one step is tried."""


@pytest.fixture
def worlds(backend: str, url: str, faulty: Faulty, tmp_path: Path) -> Iterator[Worlds]:
    with closing(Kept(url)) as storage:
        yield Worlds(storage, faulty, tmp_path, every=backend not in SERVERS)


def test_an_upload_that_fails_anywhere_leaves_the_checkpoint_before_it(worlds: Worlds) -> None:
    for world, trouble in worlds.each_step(*WRITING):
        first = world.grow(EMPTY, 10)
        assert world.acknowledged(first)
        second = world.grow(first, 20)
        world.faulty.trouble = trouble
        acknowledged = world.acknowledged(second)
        world.faulty.trouble = None
        assert world.exact_or_refused(20) or not acknowledged, trouble
        assert world.exact_or_refused(10), trouble
        assert world.acknowledged(second), trouble
        assert world.restored(20) == [10, 20], trouble


def test_an_upload_in_groups_that_fails_anywhere_is_made_good(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_storage, "GROUP", 1)
    for world, trouble in worlds.each_step(*WRITING):
        first = world.grow(EMPTY, 10)
        assert world.acknowledged(first)
        newest = world.grow(world.grow(world.grow(first, 11), 12), 20)
        world.faulty.trouble = trouble
        acknowledged = world.acknowledged(newest)
        world.faulty.trouble = None
        assert world.exact_or_refused(20) or not acknowledged, trouble
        assert world.exact_or_refused(10), trouble
        assert world.acknowledged(newest), trouble
        assert world.restored(20) == [10, 11, 12, 20], trouble


def test_an_upload_that_fails_again_is_made_good_by_the_third(worlds: Worlds) -> None:
    """A part is there under its name: it is set aside, where that does not fail as well."""
    file, of_manifest = 2, 3
    for fault, at in ((Fault.PART, file), (Fault.BREAKS_OFF, file), (Fault.BREAKS_OFF, of_manifest)):
        for world, trouble in worlds.each_step(*WRITING):
            manifest = world.grow(EMPTY, 10)
            world.faulty.trouble = Trouble(fault, at)
            assert not world.acknowledged(manifest)
            world.faulty.trouble = trouble
            acknowledged = world.acknowledged(manifest)
            world.faulty.trouble = None
            assert world.exact_or_refused(10) or not acknowledged, trouble
            assert world.acknowledged(manifest), trouble
            assert world.restored(10) == [10], trouble


def test_what_cannot_be_read_now_is_read_later(worlds: Worlds) -> None:
    """It is no damage: nothing is set aside, and no older checkpoint is taken."""
    for world, trouble in worlds.each_step(*FAILING):
        assert world.acknowledged(world.grow(EMPTY, 10))
        world.faulty.trouble = trouble
        problems: list[RestoreError] = []
        try:
            world.restored(10)
        except RestoreError as error:
            problems.append(error)
        assert [error.damaged for error in problems] == [False] * trouble.met, trouble
        world.faulty.trouble = None
        assert not [
            name for name in world.objects.names(f"{TOPOLOGY}/{world.deployed}") if name.endswith(".damaged")
        ]
        assert world.restored(10) == [10]


def test_a_part_that_is_read_as_all_is_read_again(worlds: Worlds) -> None:
    for world, trouble in worlds.each_step(Fault.PART):
        assert world.acknowledged(world.grow(EMPTY, 10))
        world.faulty.trouble = trouble
        assert world.restored(10) == [10], trouble


@pytest.mark.parametrize("lost", ["manifests/20", "files"])
def test_of_an_acknowledged_checkpoint_that_is_lost_the_one_before_is_taken(
    worlds: Worlds, lost: str
) -> None:
    for world, trouble in worlds.each_step(*FAILING, Fault.NO_EFFECT):
        first = world.grow(EMPTY, 10)
        second = world.grow(first, 20)
        assert world.acknowledged(first)
        assert world.acknowledged(second)
        *_, name = world.objects.names(f"{TOPOLOGY}/{world.deployed}/{lost}")
        world.objects.remove(name)
        world.faulty.trouble = trouble
        with pytest.raises(RestoreError) as caught:
            world.restored(20)
        assert caught.value.damaged or trouble.met, trouble
        world.faulty.trouble = None
        assert not world.whole(20)
        assert world.whole(10)
        assert world.acknowledged(second)
        assert world.whole(20)


def test_retention_that_fails_anywhere_deletes_nothing_that_is_kept(worlds: Worlds) -> None:
    for world, trouble in worlds.each_step(*WRITING):
        first = world.grow(EMPTY, 10)
        passing = world.grow(EMPTY, 20)
        third = world.grow(first, 30)
        for manifest in (first, passing, third):
            assert world.acknowledged(manifest)
        world.faulty.trouble = trouble
        with contextlib.suppress(StorageError, DamagedError):
            world.prune(20, 30)
        world.faulty.trouble = None
        assert world.restored(20) == [20], trouble
        assert world.restored(30) == [10, 30], trouble
        world.prune(30)
        assert world.restored(30) == [10, 30], trouble
        files = world.storage.files(world.here, DIRECTORY)
        assert files.keys() == {f"{one.name}.{one.checksum}" for one in third.files()}, trouble


@pytest.mark.parametrize("before", ["nothing", "the first", "the second", "retention"])
def test_lists_that_lag_cost_nothing_that_is_kept(worlds: Worlds, before: str) -> None:
    """What they do not show is stored again or waited for; what they still show is found to be gone."""
    world = worlds.fresh()
    first, passing = world.grow(EMPTY, 10), world.grow(EMPTY, 20)
    third, fourth = world.grow(first, 30), world.grow(passing, 40)
    for what, act in (
        ("nothing", lambda: world.acknowledged(first)),
        ("the first", lambda: world.acknowledged(passing)),
        ("the second", lambda: world.acknowledged(third)),
        ("retention", lambda: world.prune(30)),
    ):
        if what == before:
            world.faulty.lag()
        with contextlib.suppress(StorageError, DamagedError):
            assert act() is not False
    world.acknowledged(fourth)
    with contextlib.suppress(StorageError, DamagedError):
        world.prune(30, 40)
    world.faulty.lists = None
    assert world.restored(30) == [10, 30]
    if world.whole(40):
        assert world.restored(40) == [20, 40]
    else:
        assert before == "retention", "the list showed a file that had been deleted"
        assert world.acknowledged(fourth)
        assert world.restored(40) == [20, 40]
    world.prune(30, 40)
    assert world.restored(30) == [10, 30]
    assert world.restored(40) == [20, 40]


def test_a_kept_checkpoint_that_a_list_lacks_stops_retention(worlds: Worlds) -> None:
    world = worlds.fresh()
    first, passing = world.grow(EMPTY, 10), world.grow(EMPTY, 20)
    third = world.grow(first, 30)
    assert world.acknowledged(first)
    assert world.acknowledged(passing)
    world.faulty.lag()
    assert world.acknowledged(third)
    with pytest.raises(DamagedError, match="checkpoint 30 of hashtags is not listed"):
        world.prune(20, 30)
    lists = world.faulty.lists
    world.faulty.lag()
    assert lists is not None
    assert world.faulty.lists is not None
    world.faulty.lists[f"{TOPOLOGY}/{world.deployed}/manifests/30/{DIRECTORY}"] = {}
    with pytest.raises(DamagedError, match=f"checkpoint 30 of hashtags lacks {DIRECTORY}"):
        world.prune(20, 30)
    world.faulty.lists = None
    assert world.restored(30) == [10, 30]
    world.prune(20, 30)
    assert world.storage.checkpoints(world.here) == [20, 30]


def test_none_waits_for_a_slow_upload(worlds: Worlds) -> None:
    """Between any two of its steps others read the checkpoint before it; retention spares what it sent."""
    for world, trouble in worlds.each_step(Fault.HELD):
        first = world.grow(EMPTY, 10)
        second = world.grow(first, 20)
        third = world.grow(second, 30)
        assert world.acknowledged(first)
        assert world.acknowledged(second)
        world.faulty.trouble = trouble
        with held(world, trouble, third) as done:
            assert trouble.met == (not done)
            assert world.exact_or_refused(30) or not done
            world.prune(20)
            assert world.restored(20) == [10, 20]
        assert done == [True]
        assert world.restored(30) == [10, 20, 30]


@contextlib.contextmanager
def held(world: World, trouble: Trouble, manifest: Manifest) -> Iterator[list[bool]]:
    """An upload that waits at a step while the block runs; whether it succeeded, once it has ended."""
    done: list[bool] = []
    upload = threading.Thread(target=lambda: done.append(world.acknowledged(manifest)))
    upload.start()
    try:
        eventually(lambda: trouble.reached.is_set() or not upload.is_alive(), pause=0.001)
        world.faulty.trouble = None
        yield done
    finally:
        trouble.release.set()
        upload.join(30)


@pytest.mark.parametrize("backend", ["memory"], indirect=True)
@pytest.mark.parametrize("seed", range(25))
def test_random_courses(worlds: Worlds, seed: int) -> None:
    """Uploads, restores and retention, each with a fault at any step. Two checkpoints are kept."""
    rng = random.Random(seed)
    world = worlds.fresh()
    kept: list[Manifest] = []
    for epoch in range(10, 160, 10):
        manifest = world.grow(rng.choice([EMPTY, *kept]), epoch)
        world.faulty.trouble = Trouble(rng.choice(WRITING), rng.randrange(12))
        if world.acknowledged(manifest):
            kept = [*kept, manifest][-2:]
        world.faulty.trouble = Trouble(rng.choice(WRITING), rng.randrange(20))
        if kept:
            with contextlib.suppress(StorageError, DamagedError):
                world.prune(*(one.epoch for one in kept))
        world.faulty.trouble = Trouble(rng.choice(FAILING), rng.randrange(8))
        for one in kept:
            world.exact_or_refused(one.epoch)
        world.faulty.trouble = None
        for one in kept:
            assert world.restored(one.epoch) == world.expected[one.epoch]
