"""A topology with a cycle on real files: whatever fails, its rows are those of a run without failures, and a
bounded input ends when nothing goes round any more."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.messages import Plan, ProblemReport
from domain.topology import Topology, load_topology
from spark_jobs.driver.epoch_log import EpochLog
from spark_jobs.operators.base import EpochContext, Operator
from spark_jobs.operators.catalogue import OperatorCatalogue
from spark_jobs.state.tables import StateTables
from tests.outputs import read_outputs
from tests.simulation.engine_drive import drive
from tests.simulation.engine_world import World, schedules, sources, write_input
from tests.simulation.test_engine import LIMIT, NODES, live
from tests.simulation.test_engine_replicas import replicate

MODULES: Final = ("tests.simulation",)
SCHEDULES: Final = 12
TURNS: Final = 4
Rows = list[tuple[object, ...]]


class Rounds(Operator):
    """Each row goes round `TURNS` times, or as often as `turns` says. It gets a number among those of its
    key, so that a row that is lost, doubled or out of order changes all after it."""

    kind = "rounds"

    @classmethod
    def state_columns(cls, params: Mapping[str, Any]) -> Sequence[str]:
        return ("key",)

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        turns = int(self.params.get("turns", TURNS))
        seen = state.map("seen")
        found: list[tuple[int, str, int, int]] = []
        for name in self.inputs:
            for table in inputs.get(name, ()):
                rows = table.to_pydict()
                left = rows.get("left", [turns + 1] * table.num_rows)
                for ts, key, before in zip(rows["ts"], rows["key"], left, strict=True):
                    if before > 1:
                        seen[key] = seen.get(key, 0) + 1
                        found.append((ts, key, before - 1, seen[key]))
        if not found:
            return None
        columns = dict(zip(("ts", "key", "left", "number"), zip(*found, strict=True), strict=True))
        return pa.table({name: list(values) for name, values in columns.items()})


def pipeline(
    source: Path,
    *,
    turns: int = TURNS,
    drain_epochs: int = 1_000,
    parallelism: Mapping[str, int] | None = None,
) -> Topology:
    """Two parsers; a cycle of rounds and a filter, each with two partitions; a window and a filter below.
    parallelism: of operators of the cycle that have another one."""
    other = parallelism or {}
    return load_topology(
        {
            "name": "t",
            "max_epoch_tuples": 20,
            "catch_up_epochs": 4,
            "drain_epochs": drain_epochs,
            "operators": [
                *sources(source, LIMIT),
                {
                    "name": "B",
                    "kind": "python",
                    "parallelism": other.get("B", 2),
                    "deterministic": True,
                    "inputs": [{"from": "P"}, {"from": "A", "feedback": True}],
                    "params": {"class": f"{__name__}.Rounds", "params": {"turns": turns}},
                },
                {
                    "name": "A",
                    "kind": "filter",
                    "parallelism": other.get("A", 2),
                    "inputs": [{"from": "B", "partitioning": "one_to_one"}],
                    "params": {"column": "key", "comparison": "not_in", "value": ["a"]},
                    "output": True,
                },
                {
                    "name": "V",
                    "kind": "filter",
                    "inputs": [{"from": "A"}],
                    "params": {"column": "left", "comparison": "<", "value": 3},
                    "output": True,
                },
                {
                    "name": "W",
                    "kind": "sliding_window",
                    "inputs": [{"from": "P"}],
                    "params": {"size_s": 6, "slide_s": 3},
                    "output": True,
                },
            ],
        },
        OperatorCatalogue(MODULES),
    )


def new_world(root: Path, seed: int, **more: Any) -> World:
    write_input(root / "input.parquet")
    topology = pipeline(root / "input.parquet", **more)
    world = World(root=root, topology=topology, random=random.Random(seed))
    world.modules = list(MODULES)
    names = [world.join() for _ in range(NODES)]
    assignment = {p: names[i % NODES] for i, p in enumerate(topology.partitions)}
    world.plan = Plan(generation=1, kind="deploy", deployed=1, assignment=assignment)
    return world


def rows_of(root: Path) -> Rows:
    """In which epoch windows close at the end depends on how often the driver died there."""
    found: Rows = []
    for operator in "AVW":
        table: pa.Table = read_outputs(root / "outputs", "t", operator)
        names = sorted(set(table.column_names) - ({"epoch"} if operator == "W" else set()))
        columns = [table.column(name).to_pylist() for name in names]
        found += sorted(zip(*columns, strict=True), key=repr)
    return found


def clean_run(root: Path) -> Rows:
    world = new_world(root, seed=0)
    world.failing = False
    assert drive(world, steps=100_000) == "completed"
    return rows_of(root)


def drained(root: Path) -> int:
    """Epochs after the end of the input."""
    log = EpochLog(root / "topologies" / "t" / "epochs.log", force=False)
    try:
        return log.plans[log.head].drained
    finally:
        log.close()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return clean_run(tmp_path_factory.mktemp("clean"))


def test_rows_go_round_until_none_is_left(tmp_path: Path) -> None:
    """One epoch for each round after the first, and one in which windows close."""
    rows = clean_run(tmp_path)
    left = [row for row in rows if row[-1] != 0]
    assert len(left) > 2 * LIMIT
    assert drained(tmp_path) == TURNS + 1
    numbered = read_outputs(tmp_path / "outputs", "t", "A").to_pylist()
    by_key: dict[str, list[int]] = {}
    for row in numbered:
        by_key.setdefault(row["key"], []).append(row["number"])
    assert all(sorted(numbers) == list(range(1, len(numbers) + 1)) for numbers in by_key.values())
    assert {row["left"] for row in numbered} == set(range(1, TURNS + 1))


def test_a_cycle_that_never_drains_ends_with_a_problem(tmp_path: Path) -> None:
    world = new_world(tmp_path, 0, turns=1_000_000, drain_epochs=6)
    world.failing = False
    assert drive(world, steps=100_000) == "completed"
    assert drained(tmp_path) == 6
    told = [one for one in world.messages if isinstance(one, ProblemReport) and "cycle" in one.where]
    assert [one.where for one in told] == ["cycle B -> A"] * 2
    assert "still in transit 3 epochs after" in told[0].what
    assert "in transit 6 epochs after the end of the input, and are lost" in told[1].what


@schedules(SCHEDULES)
@given(seed=st.integers(0, 2**32), freezing=st.booleans(), moving=st.booleans(), replicas=st.booleans())
def test_cycles_survive_what_the_engine_does(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    expected: Rows,
    seed: int,
    freezing: bool,
    moving: bool,
    replicas: bool,
) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    world = new_world(tmp_path_factory.mktemp("world"), seed)
    world.freezing, world.moving = freezing, moving
    if replicas:
        world.turning = lambda: replicate(world)
    live(world)
    assert rows_of(world.root) == expected
