"""Operators that are not deterministic: whatever fails, all outputs tell of one history.

An operator marks its rows with numbers that it never gives twice, and remembers the last. Filters pass
these rows on. Their outputs must have the rows of the operator's own output; every row of the input must have
a mark, and each mark must follow the one before.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from domain.messages import Plan
from domain.topology import Topology, load_topology
from spark_jobs.operators.base import EpochContext, Operator
from spark_jobs.operators.catalogue import OperatorCatalogue
from spark_jobs.state.tables import StateTables
from tests.outputs import read_outputs
from tests.simulation import test_engine
from tests.simulation.engine_drive import drive
from tests.simulation.engine_world import World, schedules, sources, write_input
from tests.simulation.test_engine import LIMIT, NODES, live

MODULES: Final = ("tests.simulation",)
SCHEDULES: Final = 13
REPEATED: Final = 10
MARKS = itertools.count(1)


class Marker(Operator):
    """Passes rows on, with a mark of its own and the mark of the row before at the end of each key."""

    kind = "marker"

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        tables = [table for name in self.inputs for table in inputs.get(name, ())]
        if not tables:
            return None
        rows = pa.concat_tables(tables)
        keys: list[str] = []
        for key in rows.column("key").to_pylist():
            before, state.values["mark"] = state.values.get("mark", 0), next(MARKS)
            keys.append(f"{key}-{before}-{state.values['mark']}")
        return rows.set_column(rows.schema.get_field_index("key"), "key", pa.array(keys, pa.string()))


def pipeline(source: Path) -> Topology:
    """Two sources, each with a parser; a marker with two partitions; filters A, B behind it, C behind A."""

    def passes(name: str, upstream: str, **more: Any) -> dict[str, Any]:
        inputs = [{"from": upstream, "partitioning": "full", "key": "key"}]
        params = {"column": "key", "comparison": "is_not_null"}
        return {
            "name": name, "kind": "filter", "inputs": inputs, "params": params, "output": True, **more,
        }  # fmt: skip

    return load_topology(
        {
            "name": "t",
            "max_epoch_tuples": 20,
            "catch_up_epochs": 4,
            "operators": [
                *sources(source, LIMIT),
                {
                    "name": "M",
                    "kind": "python",
                    "parallelism": 2,
                    "deterministic": False,
                    "inputs": [{"from": "P", "partitioning": "full", "key": "key"}],
                    "params": {"class": f"{__name__}.Marker"},
                    "output": True,
                },
                passes("A", "M", parallelism=2),
                passes("B", "M"),
                passes("C", "A"),
            ],
        },
        OperatorCatalogue(MODULES),
    )


def new_world(root: Path, seed: int) -> World:
    write_input(root / "input.parquet")
    world = World(root=root, topology=pipeline(root / "input.parquet"), random=random.Random(seed))
    world.modules = list(MODULES)
    names = [world.join() for _ in range(NODES)]
    assignment = {p: names[i % NODES] for i, p in enumerate(world.topology.partitions)}
    world.plan = Plan(generation=1, kind="deploy", deployed=1, assignment=assignment)
    return world


def keys(root: Path, operator: str) -> Counter[tuple[int, str]]:
    """How often each key is in the output of each epoch."""
    rows = read_outputs(root / "outputs", "t", operator)
    return Counter(zip(rows.column("epoch").to_pylist(), rows.column("key").to_pylist(), strict=True))


def unbroken(root: Path) -> bool:
    """Whether every row of the marker names the mark of the row before it, so that no state came from another
    history."""
    for index in range(2):
        rows = read_outputs(root / "outputs", "t", "M", index)
        marks = [key.split("-")[1:] for key in rows.column("key").to_pylist()]
        if [before for before, _ in marks] != ["0", *(mark for _, mark in marks[:-1])]:
            return False
    return True


def unmarked(found: Counter[tuple[int, str]]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for (_, key), count in found.items():
        counted[key.partition("-")[0]] += count
    return counted


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Counter[str]:
    return clean_run(tmp_path_factory.mktemp("clean"))


def clean_run(root: Path) -> Counter[str]:
    """The outputs of a run without failures, without marks."""
    world = new_world(root, seed=0)
    world.failing = False
    assert drive(world, steps=100_000) == "completed"
    found = unmarked(keys(world.root, "M"))
    assert sum(found.values()) > LIMIT
    return found


def survive(world: World, expected: Counter[str]) -> None:
    live(world)
    tells_of_one_history(world, expected)


def tells_of_one_history(world: World, expected: Counter[str]) -> None:
    found = keys(world.root, "M")
    assert unmarked(found) == expected
    assert set(found.values()) == {1}, "a mark was given twice"
    assert unbroken(world.root)
    for operator in ("A", "B", "C"):
        assert keys(world.root, operator) == found, operator


@schedules(SCHEDULES)
@given(seed=st.integers(0, 2**32), freezing=st.booleans())
def test_all_outputs_tell_of_one_history(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    expected: Counter[str],
    seed: int,
    freezing: bool,
) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    world = new_world(tmp_path_factory.mktemp("world"), seed)
    world.freezing = freezing
    survive(world, expected)


@schedules(REPEATED)
@given(seed=st.integers(0, 2**32), alone=st.booleans())
def test_a_stage_that_ran_again_is_undone(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    expected: Counter[str],
    seed: int,
    alone: bool,
) -> None:
    """Some tasks have what the first run sent, others what the second one did."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    repeat(new_world(tmp_path_factory.mktemp("world"), seed), expected, alone=alone)


def repeat(world: World, expected: Counter[str], *, alone: bool) -> None:
    """Up to ten stages run again. alone: nodes and the driver do not fail as well."""
    world.repeats = 10
    if not alone:
        survive(world, expected)
        return
    world.failing = False
    assert drive(world, steps=100_000) == "completed"
    tells_of_one_history(world, expected)


def test_each_time_all_goes_back_to_the_checkpoint(tmp_path: Path, expected: Counter[str]) -> None:
    """Every node lives."""
    world = new_world(tmp_path, seed=3)
    assert restarts(world) == world.repeated
    tells_of_one_history(world, expected)


def test_nothing_goes_back_where_the_same_comes_out(tmp_path: Path) -> None:
    (tmp_path / "clean").mkdir()
    clean = test_engine.clean_run(tmp_path / "clean")
    world = test_engine.new_world(tmp_path, seed=3)
    assert restarts(world) == 0
    assert test_engine.outputs(world.root) == clean


def restarts(world: World) -> int:
    """How often the driver goes back to the checkpoint while up to ten stages run again and nothing else
    fails."""
    world.failing, world.repeats = False, 10
    with capture_logs() as said:
        assert drive(world, steps=100_000) == "completed"
    assert world.repeated > 0
    return sum(one["event"] == "all partitions start again from the checkpoint" for one in said)
