"""The engine with tentative output: real tasks go on without lost inputs, on real files beside the exact
ones."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from spark_jobs.sinks.tentative import DIRECTORY, FIDELITY
from tests.simulation.engine_drive import drive
from tests.simulation.engine_world import World, schedules
from tests.simulation.test_engine import Rows, clean_run, live, new_world, rows_of

SCHEDULES = 4
QUERIES = dict.fromkeys("ABVW", 0.0)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return clean_run(tmp_path_factory.mktemp("clean"))


def tentative_rows(root: Path, operator: str) -> dict[int, pa.Table]:
    """By epoch, of all partitions of an operator."""
    place = root / "outputs" / "t" / "deployed=1" / DIRECTORY / operator
    found: dict[int, list[pa.Table]] = {}
    for file in sorted(place.glob("partition=*/epoch=*/*.parquet")):
        found.setdefault(int(file.parent.name.partition("=")[2]), []).append(pq.ParquetFile(file).read())
    return {epoch: pa.concat_tables(tables) for epoch, tables in sorted(found.items())}


def new_tentative_world(root: Path, seed: int, *, freezing: bool) -> World:
    world = new_world(root, seed)
    world.freezing, world.tentative = freezing, QUERIES
    return world


@schedules(SCHEDULES)
@given(seed=st.integers(0, 2**32), freezing=st.booleans())
def test_every_schedule_with_tentative_output_ends_with_the_rows_of_a_clean_run(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    expected: Rows,
    seed: int,
    freezing: bool,
) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    world = new_tentative_world(tmp_path_factory.mktemp("world"), seed, freezing=freezing)
    live(world)
    assert rows_of(world.root) == expected
    assert not world.reported[-1].tentative


def test_queries_go_on_without_the_half_that_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: Rows
) -> None:
    """The node of one source is lost, with its parser, and comes back after some epochs. A window and what
    reads it go on with the rows of the other source; the exact rows follow."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    world = new_tentative_world(tmp_path, 3, freezing=False)
    world.failing = False
    assert world.plan is not None
    apart = world.join()
    plan = structs.replace(world.plan, assignment={**world.plan.assignment, "S[1]": apart, "P[1]": apart})
    world.plan = plan
    seen: list[dict[str, float]] = []

    def turning() -> None:
        told = world.reported[-1] if world.reported else None
        if told is None:
            return
        if apart in world.nodes and told.committed > 4:
            world.kill(apart)
        elif told.tentative:
            seen.append({query: one.fidelity for query, one in told.tentative.items()})
            if world.plan is plan and all(one.epoch > one.since + 4 for one in told.tentative.values()):
                new = world.join()
                world.plan = structs.replace(
                    plan,
                    generation=2,
                    kind="recover",
                    assignment={**plan.assignment, "S[1]": new, "P[1]": new},
                    restore=["S[1]", "P[1]"],
                    checkpoint=world.latest.checkpoint if world.latest else 0,
                    buffering=True,
                )

    world.turning = turning
    assert drive(world, steps=100_000) == "completed"
    assert rows_of(world.root) == expected
    assert seen
    assert set(seen[0]) == {"A[0]", "B[0]", "B[1]", "V[0]", "W[0]"}
    assert all(0.2 < fidelity < 0.8 for told in seen for fidelity in told.values())
    assert not world.reported[-1].tentative
    for operator in QUERIES:
        rows = tentative_rows(world.root, operator)
        assert rows, f"{operator} gave no tentative rows"
        table = pa.concat_tables(rows.values())
        assert set(table.column("status").to_pylist()) == {"tentative"}
        assert all(0.2 < one < 0.8 for one in table.column(FIDELITY).to_pylist())


def test_what_never_failed_is_never_tentative(tmp_path: Path, expected: Rows) -> None:
    world = new_tentative_world(tmp_path, 5, freezing=False)
    world.failing = False
    assert drive(world, steps=100_000) == "completed"
    assert rows_of(world.root) == expected
    assert not any(told.tentative for told in world.reported)
    assert not (tmp_path / "outputs" / "t" / "deployed=1" / DIRECTORY).exists()
