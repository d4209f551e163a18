"""Files that are damaged on a disk: the run goes on from what is whole and gives the same rows, or refuses
with the name of the file."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from domain.messages import Plan, ProblemReport
from tests.simulation.engine_drive import drive
from tests.simulation.engine_world import World
from tests.simulation.test_engine import Rows, expected, new_world, outputs

__all__ = ["expected"]  # the fixture


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    made = new_world(tmp_path, seed=3)
    made.failing = False
    return made


def flip(path: Path) -> None:
    content = path.read_bytes()
    middle = len(content) // 2
    replace(path, content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :])


def truncate(path: Path) -> None:
    replace(path, path.read_bytes()[:-5])


def empty(path: Path) -> None:
    replace(path, b"")


def swap(path: Path) -> None:
    """With one of the same kind of another partition, or else of another epoch."""
    content = path.read_bytes()
    there = [
        one for one in sorted(path.parents[1].rglob("*")) if one.is_file() and not one.name.startswith(".")
    ]
    others = [one for one in there if one.read_bytes() != content]
    replace(path, max(others, key=lambda one: one.parent != path.parent).read_bytes())


def remove(path: Path) -> None:
    path.unlink()


def replace(path: Path, content: bytes) -> None:
    """As a new file: those in storage are links to those of the nodes."""
    path.unlink()
    path.write_bytes(content)


DAMAGES = [flip, truncate, empty, swap, remove]
Damage = Callable[[Path], None]


def run_until_kept(world: World, least: int) -> list[int]:
    """Until the log has lost the first epochs and so many checkpoints are complete."""
    while world.latest is None or len(world.latest.kept) < least or world.latest.kept[0] < 8:
        assert drive(world, steps=40) == "stopped"
    return world.latest.kept


def lose_the_node_of(world: World, partition: str) -> None:
    """Its partitions go to a new one, and back to the newest checkpoint."""
    plan, latest = world.plan, world.latest
    assert plan is not None
    assert latest is not None
    lost = plan.assignment[partition]
    world.kill(lost)
    name = world.join()
    world.plan = Plan(
        generation=plan.generation + 1,
        kind="recover",
        deployed=1,
        assignment={p: name if node == lost else node for p, node in plan.assignment.items()},
        checkpoint=latest.checkpoint,
        restore=[p for p, node in plan.assignment.items() if node == lost],
    )


def stored(world: World, kind: str, checkpoint: int) -> Path:
    """An object of partition A[0] in the checkpoint storage: the manifest, or the newest file."""
    root = world.root / "checkpoints" / "t" / "1"
    if kind == "manifest":
        (found,) = (root / "manifests" / str(checkpoint) / "A-0").glob("*.json")
        return found
    files = [
        path for path in (root / "files" / "A-0").iterdir() if int(path.name.split(".")[0]) <= checkpoint
    ]
    return max(files, key=lambda path: int(path.name.split(".")[0]))


def problems(world: World) -> list[ProblemReport]:
    return [message for message in world.messages if isinstance(message, ProblemReport)]


@pytest.mark.parametrize("kind", ["manifest", "file"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_makes_the_one_before_it_the_one_to_restore(
    world: World, expected: Rows, damage: Damage, kind: str
) -> None:
    kept = run_until_kept(world, 2)
    path = stored(world, kind, kept[-1])
    damage(path)
    lose_the_node_of(world, "A[0]")
    assert drive(world, steps=60) == "stopped"
    told = [problem for problem in problems(world) if problem.where == "A[0]"]
    assert len(told) == 1
    assert f"checkpoint {kept[-1]} of A[0] cannot be restored" in told[0].what
    assert str(path if damage is not remove or kind == "file" else path.parent) in told[0].what
    assert world.latest is not None
    assert kept[-1] not in world.latest.kept
    assert drive(world, steps=100_000) == "completed"
    assert outputs(world.root) == expected
    assert len([problem for problem in problems(world) if problem.where == "A[0]"]) == 1, "once is enough"


def test_several_damaged_checkpoints_lead_to_the_newest_that_is_whole(world: World, expected: Rows) -> None:
    kept = run_until_kept(world, 3)
    for checkpoint in kept[1:]:
        flip(stored(world, "manifest", checkpoint))
    lose_the_node_of(world, "A[0]")
    assert drive(world, steps=60) == "stopped"
    assert f"checkpoint {kept[-1]} of A[0]" in problems(world)[0].what
    assert drive(world, steps=100_000) == "completed"
    assert outputs(world.root) == expected


def test_without_a_whole_checkpoint_it_refuses_and_names_the_file(world: World, expected: Rows) -> None:
    """Until the file is brought back: nothing is computed from what is wrong."""
    kept = run_until_kept(world, 2)
    paths = [stored(world, "manifest", checkpoint) for checkpoint in kept]
    before = [path.read_bytes() for path in paths]
    for path in paths:
        flip(path)
    lose_the_node_of(world, "A[0]")
    assert drive(world, steps=60) == "stopped"
    (told,) = [problem for problem in problems(world) if problem.where == "A[0]"]
    assert str(paths[-1]) in told.what
    assert "bring the file back from a backup" in told.hint
    assert world.reported[-2].state == "degraded"
    for path, content in zip(paths, before, strict=True):
        path.write_bytes(content)
    assert drive(world, steps=100_000) == "completed"
    assert outputs(world.root) == expected


@pytest.mark.parametrize("pattern", ["*.manifest", "*.arrow"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_state_of_a_node_is_restored(
    world: World, expected: Rows, damage: Damage, pattern: str
) -> None:
    """While the partition runs, and nothing else is wrong."""
    run_until_kept(world, 1)
    assert world.plan is not None
    directory = world.root / "nodes" / world.plan.assignment["A[0]"] / "state" / "t" / "1" / "A-0"
    for path in list(directory.glob(pattern)):
        damage(path)
    assert drive(world, steps=100_000) == "completed"
    assert outputs(world.root) == expected


def test_what_an_operator_restores_is_checked_too(world: World, expected: Rows) -> None:
    """The plan names a checkpoint that is damaged: the one before it takes its place."""
    kept = run_until_kept(world, 3)
    damaged = stored(world, "manifest", kept[-2])
    flip(damaged)
    assert world.plan is not None
    world.plan = structs.replace(
        world.plan, generation=9, kind="restore", deployed=1, rollback=True, checkpoint=kept[-2]
    )
    assert drive(world, steps=100_000) == "completed"
    assert str(damaged) in problems(world)[0].what
    assert outputs(world.root) == expected
