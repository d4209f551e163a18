"""The engine with replicas: real tasks run shadows on real files, and shadows act for partitions whose
nodes die, or freeze and go on later with what they were doing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.engine_drive import drive
from tests.simulation.engine_world import World, schedules
from tests.simulation.test_engine import Rows, clean_run, live, new_world, rows_of

SCHEDULES = 13


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return clean_run(tmp_path_factory.mktemp("clean"))


def replicate(world: World) -> None:
    """Now and then replicas of other partitions on other nodes."""
    if world.nodes and (not world.replicas or world.random.random() < 0.02):
        names = sorted(world.nodes)
        chosen = [p for p in world.topology.partitions if world.random.random() < 0.7]
        world.replicas = {p: world.random.choice(names) for p in chosen}


def new_replicated_world(root: Path, seed: int, *, freezing: bool) -> World:
    world = new_world(root, seed)
    world.freezing, world.turning = freezing, lambda: replicate(world)
    return world


@schedules(SCHEDULES)
@given(seed=st.integers(0, 2**32), freezing=st.booleans())
def test_every_schedule_with_replicas_ends_with_the_rows_of_a_clean_run(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    expected: Rows,
    seed: int,
    freezing: bool,
) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    world = new_replicated_world(tmp_path_factory.mktemp("world"), seed, freezing=freezing)
    live(world)
    assert rows_of(world.root) == expected


@pytest.mark.parametrize("frozen", [False, True])
def test_a_shadow_acts_without_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: Rows, frozen: bool
) -> None:
    """A node is lost, and no coordinator makes a plan: its partitions go on where their shadows are, up to
    the end of the input. A node that was frozen finds its work done when it wakes up."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    world = new_world(tmp_path, seed=3)
    world.failing = False
    assert world.plan is not None
    spare, plan = world.join(), world.plan
    world.replicas = dict.fromkeys(world.topology.partitions, spare)
    lost = plan.assignment["S[0]"]

    def turning() -> None:
        told = world.reported[-1] if world.reported else None
        if told is None:
            return
        shadows = [one for one in told.shadows.values() if one.ready]
        if len(shadows) == len(plan.assignment) and lost in world.nodes and not told.acting:
            if told.committed and frozen:
                world.freeze(lost)
            elif told.committed:
                world.kill(lost)
        elif told.acting and world.frozen:
            world.thaw()

    world.turning = turning
    assert drive(world, steps=100_000) == "completed"
    assert rows_of(world.root) == expected
    acting = world.reported[-1].acting
    assert acting == {p: spare for p, node in plan.assignment.items() if node == lost}
    assert world.applied == plan.generation
    assert world.reported[-1].committed == world.reported[-1].head
