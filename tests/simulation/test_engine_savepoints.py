"""Savepoints of a run with failures: a deployment that begins with any of them, and has failures itself, ends
with the rows that a run without failures has from there on."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from domain.topology.continuation import continuation
from spark_jobs.driver import from_savepoint
from spark_jobs.driver.epoch_log import EpochLog
from spark_jobs.operators.catalogue import OperatorCatalogue
from spark_jobs.state.archive import SavepointArchive, archive_store, archive_write
from spark_jobs.state.checkpoint_storage import CheckpointStorage, Deployment
from spark_jobs.state.savepoints import SavepointStorage
from spark_jobs.state.sealed import DamagedError
from tests.examples import examples
from tests.outputs import read_outputs
from tests.simulation import test_engine, test_engine_cycles
from tests.simulation.engine_world import DriverKilledError, World
from tests.simulation.test_engine import live

SCHEDULES: Final = 12
RESTORED: Final = 2
"""Savepoints of a schedule that deployments begin with; `engine_schedules` takes all."""
ASKED: Final = 20
"""How often the record of a checkpoint, which another thread stores, is looked for."""
Rows = list[tuple[object, ...]]


@dataclass
class Saving:
    """Copies each checkpoint as soon as it is complete: `taken` has the archives by epoch. Of one whose
    driver died before it was recorded there is none."""

    world: World
    taken: dict[int, Path] = field(default_factory=dict)
    missed: set[int] = field(default_factory=set)

    def __call__(self) -> None:
        newest = self.world.latest
        if newest is None or newest.checkpoint in self.taken.keys() | self.missed:
            return
        path = self.world.root / f"{newest.checkpoint}.tar"
        with closing(CheckpointStorage(self.world.checkpoints, force=False)) as storage:
            for _ in range(ASKED):
                try:
                    archive_write(storage, Deployment("t", 1), newest.checkpoint, path)
                except DamagedError:
                    threading.Event().wait(0.002)
                else:
                    self.taken[newest.checkpoint] = path
                    return
        self.missed.add(newest.checkpoint)


def saved(world: World) -> Saving:
    """Live, and copy checkpoints."""
    saving = Saving(world)
    world.turning = saving
    live(world)
    return saving


def made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def begun(world: World, checkpoint: int, archive: Path, divided: Sequence[str]) -> None:
    """In a new installation a deployment is to begin with the savepoint."""
    assert world.plan is not None
    with closing(SavepointStorage(world.checkpoints, force=False)) as savepoints:
        savepoints.store("saved", archive)
    world.savepoint = "saved"
    world.plan = msgspec.structs.replace(
        world.plan,
        kind="restore",
        rollback=True,
        checkpoint=checkpoint,
        divided=list(divided),
        restore=list(world.topology.partitions),
    )


@pytest.fixture(autouse=True)
def killed_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    kill_anywhere(monkeypatch)


def kill_anywhere(monkeypatch: pytest.MonkeyPatch, seed: int = 7) -> None:
    """The driver is killed before or after any step with which a deployment begins."""
    dice = random.Random(seed)

    def fragile(step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **named: Any) -> Any:
            if dice.random() < 0.15:
                raise DriverKilledError
            done = step(*arguments, **named)
            if dice.random() < 0.15:
                raise DriverKilledError
            return done

        return run

    monkeypatch.setattr(from_savepoint, "archive_store", fragile(archive_store))
    monkeypatch.setattr(EpochLog, "begin_after", fragile(EpochLog.begin_after))


@dataclass(frozen=True)
class Kind:
    """A topology, and what its clean run gives: rows with their epochs."""

    new_world: Callable[..., World]
    rows: Callable[[Path], Rows]
    # The parallelism of some operators in the version that begins with a savepoint.
    others: Sequence[Mapping[str, int]]


def epochs_rows(root: Path, operators: Sequence[str]) -> Rows:
    """Rows of operators with their epoch first; which partition gives a row depends on how many there are."""
    found: Rows = []
    for operator in operators:
        table = read_outputs(root / "outputs", "t", operator)
        if not table.num_rows:
            continue
        names = ["epoch", *sorted(set(table.column_names) - {"epoch", "partition"})]
        columns = [table.column(name).to_pylist() for name in names]
        found += [(row[0], operator, *row[1:]) for row in zip(*columns, strict=True)]
    return sorted(found, key=repr)


ACYCLIC = Kind(
    test_engine.new_world,
    lambda root: epochs_rows(root, "ABVW"),
    ({}, {"A": 2, "B": 3}, {"A": 3, "B": 1}),
)
# In which epoch the last windows close with a cycle depends on how often the driver died there
# (`test_engine_cycles`), so those of W are left out; what goes round is in A and V.
CYCLIC = Kind(
    test_engine_cycles.new_world,
    lambda root: epochs_rows(root, "AV"),
    ({}, {"A": 3, "B": 3}, {"A": 1, "B": 1}),
)
KINDS: Final = {"acyclic": ACYCLIC, "cyclic": CYCLIC}


def clean_run(kind: Kind, root: Path) -> Rows:
    world = kind.new_world(root, 0)
    world.failing = False
    live(world)
    return kind.rows(root)


def survive(kind: Kind, root: Path, seed: int, clean: Rows, *, most: int | None = None) -> int:
    """Save a run, and begin with what was saved; returns how many deployments did."""
    first = kind.new_world(made(root / "first"), seed)
    taken = saved(first).taken
    dice = random.Random(seed)
    chosen = sorted(taken) if most is None else sorted(dice.sample(sorted(taken), min(most, len(taken))))
    for checkpoint in chosen:
        with SavepointArchive(taken[checkpoint]) as archive:
            archive.check()
        other = dice.choice(kind.others)
        world = kind.new_world(made(root / str(checkpoint)), seed + checkpoint, parallelism=other)
        divided = continuation(first.topology, world.topology, OperatorCatalogue(world.modules)).divided
        assert set(divided) == set(other)
        begun(world, checkpoint, taken[checkpoint], divided)
        live(world)
        expected = [row for row in clean if row[0] > checkpoint]  # type: ignore[operator]
        assert kind.rows(world.root) == expected, f"seed {seed}, savepoint of epoch {checkpoint}"
    return len(chosen)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    found = {name: clean_run(kind, tmp_path_factory.mktemp(name)) for name, kind in KINDS.items()}
    assert all(len(rows) > 300 for rows in found.values())
    return found


@pytest.mark.parametrize("name", KINDS)
def test_a_deployment_begins_with_any_savepoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: dict[str, Rows], name: str
) -> None:
    """A run whose only checkpoint is its last has none, as those of the first three seeds."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    count = examples(SCHEDULES)
    begun_with = [
        survive(KINDS[name], made(tmp_path / str(seed)), seed, expected[name], most=RESTORED)
        for seed in range(3, 3 + count)
    ]
    assert sum(begun_with) >= count
