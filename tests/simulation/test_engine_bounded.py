"""Where the guarantee is bounded, a row counts at most once, and what a key has lost came within the stated
time before its partition was lost: nodes die during a stage, the driver anywhere, and what runs is moved."""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.operators.keyed_operator import KeyedOperator
from spark_jobs.state.saved_keys import SavedKeys
from spark_jobs.state.storage_urls import open_storage
from tests.simulation import engine_drive
from tests.simulation.bounded_world import (
    EVERY,
    KEYS,
    BoundedWorld,
    Ledger,
    WatchedCluster,
    coordinate,
    counter_of,
    new_world,
)
from tests.simulation.engine_drive import drive
from tests.simulation.engine_world import schedules

SCHEDULES = 40
LIVES = 200


def live(world: BoundedWorld) -> None:
    """Run one driver after the other until the input has ended; after some time no more failures happen."""
    for life in range(LIVES):
        world.failing = life < 30
        state = drive(world, steps=world.random.choice([30, 100, 400]))
        if state == "completed":
            return
        coordinate(world)
    raise AssertionError(f"the input did not end: {state}")


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(engine_drive, "PlayedCluster", WatchedCluster)


def checked(world: BoundedWorld) -> list[int]:
    """The rows that were lost; none but those that the guarantee allows."""
    ledger = Ledger(world)
    for key, lists in ledger.listed.items():
        for rows in lists.values():
            assert len(rows) == len(set(rows)), f"a row of {key} counts twice"
            assert all(ledger.key[number] == key for number in rows)
    for counter, epoch in ledger.shown():
        assert counter in world.ran[epoch], f"epoch {epoch} passed without {counter}, and has rows of it"
    # What a job has left is stored when the next one has begun.
    epochs = 2 * world.epochs_at_once + 1
    lost = ledger.lost()
    for number in lost:
        assert ledger.within(number, EVERY, epochs), f"row {number} of epoch {ledger.epoch[number]} was lost"
    return lost


def test_nothing_is_lost_without_a_failure(tmp_path: Path) -> None:
    world = new_world(tmp_path, 0)
    world.failing = False
    assert drive(world, steps=100_000) == "completed"
    ledger = Ledger(world)
    assert checked(world) == []
    assert all(ledger.counted(number) for number in ledger.key)
    assert ledger.shown() == {
        (counter_of(key), epoch) for key, lists in ledger.listed.items() for epoch in lists
    }
    assert not world.begun
    assert sum(len(lists[max(lists)]) for lists in ledger.listed.values()) == len(ledger.key)
    world.keep()
    assert stored(world) == {key: sorted(lists[max(lists)]) for key, lists in ledger.listed.items()}


def stored(world: BoundedWorld) -> dict[str, list[int]]:
    """The rows of each key as they are in storage: at the end all that has changed was stored."""
    found: dict[str, list[int]] = defaultdict(list)
    keyed = KeyedOperator(world.topology, "C", world.modules)
    for partition in ("C[0]", "C[1]"):
        saved = SavedKeys(open_storage(world.checkpoints), "t", 1, partition)
        states, _ = saved.find(pa.array(list(KEYS)), saved.index, keyed.take)
        for row in (
            row for state in states for chunk in state.table("rows") for row in chunk.table.to_pylist()
        ):
            found[row["key"]].append(row["row"])
    return {key: sorted(rows) for key, rows in found.items()}


@schedules(SCHEDULES)
@given(seed=st.integers(0, 2**32), freezing=st.booleans())
def test_a_row_counts_at_most_once_and_losses_are_bounded(
    tmp_path_factory: pytest.TempPathFactory, seed: int, freezing: bool
) -> None:
    """Nodes die, or freeze and come back with their disks."""
    world = new_world(tmp_path_factory.mktemp("world"), seed)
    world.freezing = freezing
    live(world)
    checked(world)


@pytest.mark.parametrize("seed", [1672])
def test_schedules_that_once_failed(tmp_path: Path, seed: int) -> None:
    """1672: the state after an epoch that was given up was stored, and fetched by the partition that then
    applied this epoch."""
    world = new_world(tmp_path, seed)
    world.freezing = seed % 2 == 1
    live(world)
    checked(world)


def test_states_come_back_from_storage(tmp_path: Path) -> None:
    """What the schedules above are about took place: partitions began without state, keys were fetched, and
    some rows were lost."""
    begun = fetched = lost = 0
    for seed in range(6):
        (tmp_path / str(seed)).mkdir()
        world = new_world(tmp_path / str(seed), seed)
        live(world)
        begun += sum(map(len, world.begun.values()))
        fetched += world.fetched
        lost += len(checked(world))
    assert begun > 10
    assert fetched > 10
    assert lost > 0
