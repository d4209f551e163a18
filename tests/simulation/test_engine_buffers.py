"""What partitions buffer for others that replay, when they move meanwhile."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.messages import Plan
from tests.simulation.engine_drive import drive
from tests.simulation.engine_world import World, pipeline, schedules, write_input
from tests.simulation.test_engine import LIMIT, NODES, Rows, clean_run, outputs

SCHEDULES = 2
WAVE, MOVES, REST = 2, 3, 4
"""Generations: some of what was lost is restored, what runs moves, and then the others are restored."""


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return clean_run(tmp_path_factory.mktemp("clean"))


class Coordinator:
    """One node is lost, and its views are restored in two waves. Between these, sources and parsers leave a
    node that keeps other partitions."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.turns = 0
        self.wait = world.random.randint(4, 12)

    def __call__(self) -> None:
        world = self.world
        assert world.plan is not None
        self.turns = self.turns + 1 if world.applied == world.plan.generation else 0
        if self.turns < self.wait or world.latest is None:
            return
        self.turns = 0
        step = {1: self.lose, WAVE: self.move, MOVES: self.restore}.get(world.plan.generation)
        if step is not None:
            step(world.plan)

    def plan(self, before: Plan, kind: str, **more: object) -> None:
        generation = before.generation + 1
        self.world.plan = Plan(generation=generation, kind=kind, deployed=1, **more)  # type: ignore[arg-type]

    def lose(self, plan: Plan) -> None:
        """node-3 has views only; one of them waits for the second wave."""
        self.world.kill("node-3")
        down = sorted(p for p, node in plan.assignment.items() if node == "node-3")
        homes = {p: node for p, node in plan.assignment.items() if p not in down}
        restored = dict.fromkeys(down[1:], "node-2")
        self.plan(plan, "recover", assignment=homes | restored, restore=down[1:], buffering=True)

    def move(self, plan: Plan) -> None:
        new = self.world.join()
        homes = dict(plan.assignment)
        moved = [p for p, node in homes.items() if p[0] in "SP" and node == "node-1"]
        assert moved
        assert len(moved) < list(homes.values()).count("node-1"), "node-1 keeps something"
        self.plan(plan, "move", assignment={**homes, **dict.fromkeys(moved, new)}, restore=moved)

    def restore(self, plan: Plan) -> None:
        down = [p for p in self.world.topology.partitions if p not in plan.assignment]
        homes = {**plan.assignment, **dict.fromkeys(down, "node-2")}
        self.plan(plan, "recover", assignment=homes, restore=down, buffering=True)


def moving_world(root: Path, seed: int) -> World:
    write_input(root / "input.parquet")
    world = World(root=root, topology=pipeline(root / "input.parquet", LIMIT), random=random.Random(seed))
    world.failing = False
    names = [world.join() for _ in range(NODES)]
    homes = {p: names[int(p[2]) % 2 if p[0] in "SP" else 2] for p in world.topology.partitions}
    homes["B[0]"] = names[0]
    world.plan = Plan(generation=1, kind="deploy", deployed=1, assignment=homes)
    world.turning = Coordinator(world)
    return world


@schedules(SCHEDULES)
@given(seed=st.integers(0, 2**32))
def test_what_was_buffered_before_a_move_is_sent_by_the_node_that_was_left(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, expected: Rows, seed: int
) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    world = moving_world(tmp_path_factory.mktemp("world"), seed)
    assert drive(world, steps=100_000) == "completed"
    assert world.plan is not None
    assert world.plan.generation == REST
    assert world.sent_elsewhere > 0
    assert outputs(world.root) == expected
