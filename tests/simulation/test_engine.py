"""Outputs are exact after failures: nodes die during a stage, the driver anywhere, tasks run twice, uploads
are late, and the coordinator plans more than once for the same failure."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.messages import Plan
from spark_jobs.sinks.committed import committed_files, committed_read
from tests.outputs import read_outputs
from tests.simulation.engine_drive import drive
from tests.simulation.engine_world import World, pipeline, schedules, write_input

LIMIT = 700
NODES = 3
SCHEDULES = 45
MOVES = 9
Rows = list[tuple[object, ...]]


def outputs(root: Path) -> Rows:
    counted(root, read_outputs(root / "outputs", "t"))
    return rows_of(root)


def rows_of(root: Path) -> Rows:
    """The rows alone: a run that ends soon compacts none."""
    table: pa.Table = read_outputs(root / "outputs", "t")
    columns = [table.column(name).to_pylist() for name in sorted(table.column_names)]
    return sorted(zip(*columns, strict=True), key=repr)


def counted(root: Path, table: pa.Table) -> None:
    """Readers that go by `committed.json` find the same rows, some of them in files of several epochs."""
    directory = root / "outputs" / "t"
    committed = committed_read(directory)
    assert committed is not None
    assert committed.spans, "nothing was compacted"
    for operator in set(table.column("operator").to_pylist()):
        files = list(committed_files(directory, operator, committed))
        found = pa.concat_tables(pq.ParquetFile(file).read() for file in files)
        written = table.filter(pc.equal(table.column("operator"), operator)).select(found.column_names)
        assert sorted(found.to_pylist(), key=repr) == sorted(written.to_pylist(), key=repr)


def new_world(root: Path, seed: int, parallelism: Mapping[str, int] | None = None) -> World:
    write_input(root / "input.parquet")
    topology = pipeline(root / "input.parquet", LIMIT, parallelism)
    world = World(root=root, topology=topology, random=random.Random(seed))
    names = [world.join() for _ in range(NODES)]
    assignment = {
        p: names[int(p[2]) % 2 if p[0] in "SP" else i % NODES]
        for i, p in enumerate(world.topology.partitions)
    }
    world.plan = Plan(generation=1, kind="deploy", deployed=1, assignment=assignment)
    return world


def coordinate(world: World) -> None:
    """A coordinator that sometimes makes blocking plans and sometimes waves, which restore some of the failed
    partitions on old and new nodes, with or without rollback and buffering."""
    plan = world.plan
    assert plan is not None
    if world.frozen and world.random.random() < 0.4:
        world.thaw()
    if world.moving and world.failing and world.random.random() < 0.5:
        move(world)
        return
    if world.random.random() < 0.3:
        wave(world)
        return
    lost = sorted(set(plan.assignment.values()) - world.nodes.keys())
    if plan.assignment.keys() < set(world.topology.partitions):
        wave(world)
        return
    if not lost or world.random.random() < 0.3:
        return
    replacement = {name: world.join() for name in lost}
    world.plan = Plan(
        generation=plan.generation + 1,
        kind="recover",
        deployed=1,
        divided=plan.divided,
        assignment={p: replacement.get(node, node) for p, node in plan.assignment.items()},
        rollback=True,
        checkpoint=world.latest.checkpoint if world.latest else plan.checkpoint,
        restore=[p for p, node in plan.assignment.items() if node in replacement],
    )


def move(world: World) -> None:
    """What runs changes its nodes; what the plan before was to restore, and may not have, is restored."""
    plan = world.plan
    assert plan is not None
    unapplied = world.applied < plan.generation
    if world.random.random() < 0.5:
        world.join()
    running = sorted(p for p, node in plan.assignment.items() if node in world.nodes)
    moved = world.random.sample(running, world.random.randint(0, len(running)))
    world.plan = Plan(
        generation=plan.generation + 1,
        kind="recover" if unapplied else "move",
        deployed=1,
        divided=plan.divided,
        assignment={**plan.assignment, **{p: world.random.choice(sorted(world.nodes)) for p in moved}},
        rollback=unapplied and plan.rollback,
        checkpoint=world.latest.checkpoint if world.latest else plan.checkpoint,
        restore=plan.put_back if unapplied else moved,
        buffering=unapplied and plan.buffering,
    )


def wave(world: World) -> None:
    plan = world.plan
    assert plan is not None
    running = {p: node for p, node in plan.assignment.items() if node in world.nodes}
    down = [p for p in world.topology.partitions if p not in running]
    if not down:
        return
    if world.random.random() < 0.5:
        world.join()
    chosen = down if not world.failing else world.random.sample(down, world.random.randint(1, len(down)))
    homes = sorted(world.nodes)
    unapplied = world.applied < plan.generation
    world.plan = Plan(
        generation=plan.generation + 1,
        kind="recover",
        deployed=1,
        divided=plan.divided,
        assignment={**running, **{p: world.random.choice(homes) for p in chosen}},
        rollback=world.random.random() < 0.2 or (unapplied and plan.rollback),
        checkpoint=world.latest.checkpoint if world.latest else plan.checkpoint,
        restore=[*chosen, *(p for p in plan.restore if unapplied and p in running and p not in chosen)],
        buffering=world.random.random() < 0.7,
    )


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return clean_run(tmp_path_factory.mktemp("clean"))


def clean_run(root: Path) -> Rows:
    """The outputs of a run without failures."""
    world = new_world(root, seed=0)
    world.failing = False
    assert drive(world, steps=100_000) == "completed"
    rows = outputs(world.root)
    assert len(rows) > 400
    return rows


@pytest.mark.parametrize("seed", [48353450])
def test_schedules_that_once_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: Rows, seed: int
) -> None:
    """48353450: the driver was killed after it adopted a plan and before a job restored anything."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    survive(new_world(tmp_path, seed), expected)


def live(world: World) -> None:
    """Run one driver after the other until the input has ended; after some time no more failures happen."""
    for life in range(200):
        world.failing = life < 40
        state = drive(world, steps=world.random.choice([30, 100, 400]))
        if state == "completed":
            break
        coordinate(world)
    assert state == "completed"


def survive(world: World, expected: Rows) -> None:
    live(world)
    assert outputs(world.root) == expected


@schedules(SCHEDULES)
@given(seed=st.integers(0, 2**32), freezing=st.booleans())
def test_every_schedule_ends_with_the_rows_of_a_clean_run(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    expected: Rows,
    seed: int,
    freezing: bool,
) -> None:
    """Nodes die, or freeze and come back. Spark still counts on frozen nodes, and their tasks may end later,
    when their results are not wanted any more."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    world = new_world(tmp_path_factory.mktemp("world"), seed)
    world.freezing = freezing
    survive(world, expected)


@schedules(MOVES)
@given(seed=st.integers(0, 2**32))
def test_state_moves_with_its_partition(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    expected: Rows,
    seed: int,
) -> None:
    """Files are written on the new node; nodes and the driver die meanwhile."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    world = new_world(tmp_path_factory.mktemp("world"), seed)
    world.moving = True
    survive(world, expected)


def test_state_is_handed_over(tmp_path: Path, expected: Rows) -> None:
    """Without a failure every partition goes on from where it was."""
    world = new_world(tmp_path, seed=1)
    world.failing = False
    for _ in range(4):
        drive(world, steps=100)
        assert world.plan is not None
        names = [world.join() for _ in range(NODES)]
        assignment = {p: names[i % NODES] for i, p in enumerate(world.topology.partitions)}
        plan = world.plan
        world.plan = Plan(generation=plan.generation + 1, kind="move", deployed=1, assignment=assignment)
    survive(world, expected)
    assert world.handed_over == 4 * len(world.topology.partitions)
