"""The pure parts of the benchmark of active replicas: its topology, its kills, and what is made of them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from benchmarks.active_replicas.__main__ import figures_parse, numbers_parse
from benchmarks.active_replicas.cells import stacks_of
from benchmarks.active_replicas.cost import Block, compared
from benchmarks.active_replicas.drawing import draw
from benchmarks.active_replicas.figures import criteria, kills_table
from benchmarks.active_replicas.latency import caught_up, going_on, keeps_pace, latencies, newest_due
from benchmarks.active_replicas.pipeline import (
    MAX_UTILISATION,
    QUERY,
    REQUEST,
    SOURCE_REQUEST,
    SOURCES,
    TIGHT,
    input_write,
    is_synthetic,
    source_capacity,
    spec_of,
    windowed,
)
from domain.topology import load_topology
from spark_jobs.operators.catalogue import catalogue
from tests.unit.benchmarks.test_epoch_times import commit, plan, times

TOPOLOGY = load_topology(spec_of(100, epoch=2.0), catalogue)


def test_every_synthetic_partition_reads_two() -> None:
    counted = windowed(TOPOLOGY.partitions)
    assert len(counted) == 15
    assert {len(TOPOLOGY.upstream(one)) for one in counted} == {2}
    assert TOPOLOGY.queries == [QUERY]
    assert len([one for one in TOPOLOGY.partitions if not is_synthetic(one)]) == 2 * SOURCES


def test_a_second_of_input_has_each_key_once_for_each_source(tmp_path: Path) -> None:
    rows = pq.read_table(input_write(tmp_path / "keys.parquet", 50)).to_pylist()
    assert len(rows) == 50 * SOURCES == len({(row["key"], row["source"]) for row in rows})
    assert len({row["source"] for row in rows}) == SOURCES


def test_sources_have_room_on_one_node_only() -> None:
    chain = 100 * (SOURCE_REQUEST + REQUEST)
    assert chain > TIGHT * MAX_UTILISATION, "another node has no room for one"
    rest = source_capacity() * MAX_UTILISATION - SOURCES * chain
    synthetic = 100 * REQUEST * len([one for one in TOPOLOGY.partitions if is_synthetic(one)])
    assert 0 < rest < TIGHT * MAX_UTILISATION - synthetic, "others have more room for what is left"


# ---- which kills


def test_a_replay_of_everything_comes_first_and_single_nodes_last() -> None:
    full, alone = stacks_of([7, 8, 9, 10], intervals=[5.0, 15.0], replay=True)
    assert full[0].age is None
    assert all(cell.age is not None for cell in full[1:])
    kinds = [cell.failure for cell in full]
    assert kinds == sorted(kinds), "correlated before single"
    assert [str(cell) for cell in alone] == ["single, source replay"]
    assert {(cell.share, cell.age) for cell in full if cell.failure == "correlated" and cell.share} == {
        (0.5, 5.0),
        (0.5, 15.0),
        (1.0, 5.0),
        (1.0, 15.0),
    }


def test_figures_are_chosen() -> None:
    assert stacks_of([9], intervals=[5.0], replay=True) == []
    assert {cell.failure for stack in stacks_of([7], intervals=[5.0], replay=True) for cell in stack} == {
        "single"
    }
    (cells,) = stacks_of([8], intervals=[5.0, 15.0], replay=False)
    assert sorted({cell.share for cell in cells}) == [0.0, 1.0]
    assert sum(cell.share == 1.0 for cell in cells) == 1
    with pytest.raises(argparse.ArgumentTypeError):
        figures_parse("6")
    with pytest.raises(argparse.ArgumentTypeError):
        numbers_parse("0")


# ---- how long


def test_what_needs_nothing_that_is_restored() -> None:
    lost = [one for one in TOPOLOGY.partitions if is_synthetic(one)]
    half = [one for one in lost if one not in ("O1[7]", "O1Keys[7]")]
    waits = {"O1[7]", "O1Keys[7]", "O2[3]", "O2Keys[3]", "O3[1]", "O3Keys[1]", "O4[0]"}
    assert set(going_on(TOPOLOGY, lost, half)) == set(lost) - waits
    assert going_on(TOPOLOGY, lost, lost) == lost
    assert going_on(TOPOLOGY, ["O1[7]"], []) == []


KILLED = 5.2
RECOVERED = times(
    *(plan(epoch) for epoch in range(1, 9)),
    commit(5.1, 5),
    # `a` goes on, `b` replays until 9.5; epochs from 9 on were not planned meanwhile.
    commit(6.2, 3, a=6),
    commit(8.2, 5, a=8),
    commit(9.5, 6, a=8),
    *(plan(epoch) for epoch in range(9, 13)),
    commit(11.9, 11),
)


def test_latencies_after_a_kill() -> None:
    found = latencies(
        RECOVERED,
        killed=KILLED,
        epoch=1.0,
        lost=["a", "b"],
        active=["a"],
        query="b",
        tentative={5: 5.3, 7: 7.4, 6: 6.6},
    )
    assert found.active == pytest.approx(1.0)
    assert found.output == pytest.approx(4.3)
    assert found.caught_up == pytest.approx(6.7), "at 9.5 it lacked three epochs, one of them not planned yet"
    assert found.tentative == pytest.approx(1.4), "epoch 5 was complete at the kill"


def test_what_did_not_happen_is_none() -> None:
    found = latencies(
        RECOVERED, killed=11.95, epoch=1.0, lost=["a"], active=[], query="a", tentative={5: 5.3}
    )
    assert (found.output, found.caught_up, found.active, found.tentative) == (None, None, None, None)


def test_epochs_are_due_whether_planned_or_not() -> None:
    early = times(plan(1), plan(2))
    assert [newest_due(early, at, 1.0) for at in (0.5, 1.0, 2.9, 5.1)] == [0, 1, 2, 5]
    assert caught_up(early, "a", 0.5, 1.0) is None
    assert not keeps_pace(early, 3.0, 1.0)
    assert keeps_pace(times(plan(1), plan(2), commit(2.5, 1)), 3.0, 1.0)


# ---- what is said of it

BASE: dict[str, Any] = {
    "rate": 500, "killed": 3, "lost": 15, "replicated": 0, "going_on": 0, "taken_over": 0, "restored": 15,
    "plans": 1, "age": 15.0, "interval": 15.0, "active": None, "tentative": None, "load": 1.0, "others": 0.1,
    "failure": "correlated",
}  # fmt: skip
PASSIVE = {**BASE, "technique": "checkpoint, 15 s", "share": 0.0, "output": 20.0, "caught_up": 25.0}
HALF = {
    **BASE, "technique": "PPA-0.5", "share": 0.5, "output": 18.0, "caught_up": 20.0, "taken_over": 8,
    "restored": 7, "active": 2.5, "tentative": 1.5,
}  # fmt: skip
ACTIVE = {
    **BASE, "technique": "PPA-1", "share": 1.0, "output": 2.0, "caught_up": 3.0, "taken_over": 15,
    "restored": 0, "active": 2.0,
}  # fmt: skip
CLEAN = {"rate": 500, "clean": True, "rows": 1000, "faults": {}}


def failing(rows: list[dict[str, Any]], verified: list[dict[str, Any]]) -> list[str]:
    return [one.name for one in criteria(rows, verified, bound=8.0, wanted=3) if not one.holds]


def test_good_kills_meet_all_criteria() -> None:
    assert failing([PASSIVE, HALF, ACTIVE], [CLEAN]) == []
    kills_table([PASSIVE, HALF, ACTIVE])


@pytest.mark.parametrize(
    ("rows", "verified", "criterion"),
    [
        ([PASSIVE, ACTIVE], [CLEAN], "kills measured / kills"),
        ([{**PASSIVE, "killed": 0}, HALF, ACTIVE], [CLEAN], "nodes killed, least"),
        ([{**PASSIVE, "lost": 0}, HALF, ACTIVE], [CLEAN], "partitions lost, least"),
        ([{**PASSIVE, "restored": 0}, HALF, ACTIVE], [CLEAN], "partitions restored without replicas, least"),
        (
            [PASSIVE, HALF, {**ACTIVE, "taken_over": 14}],
            [CLEAN],
            "taken over / lost, with all replicas, least",
        ),
        ([PASSIVE, HALF, {**ACTIVE, "output": 8.5}], [CLEAN], "s to output with all replicas, at worst"),
        (
            [{**PASSIVE, "output": 1.9}, HALF, ACTIVE],
            [CLEAN],
            "output: quickest passive / replica, least",
        ),
        (
            [PASSIVE, {**HALF, "taken_over": 0}, ACTIVE],
            [CLEAN],
            "taken over with half of the replicas, least",
        ),
        (
            [PASSIVE, {**HALF, "tentative": None}, ACTIVE],
            [CLEAN],
            "full recovery / first tentative output, least",
        ),
        ([PASSIVE, HALF, ACTIVE], [{**CLEAN, "clean": False}], "runs verified clean / runs"),
        ([PASSIVE, HALF, ACTIVE], [{**CLEAN, "rows": 0}], "rows compared, least"),
    ],
)
def test_what_did_not_happen_fails_the_run(
    rows: list[dict[str, Any]], verified: list[dict[str, Any]], criterion: str
) -> None:
    assert failing(rows, verified) == [criterion]


def test_nothing_measured_fails() -> None:
    assert "kills measured / kills" in failing([], [])


def test_a_replica_is_compared_with_the_same_failure_at_the_same_rate() -> None:
    other = [{**PASSIVE, "output": 1.0, "rate": 1000}, {**PASSIVE, "output": 1.0, "failure": "single"}]
    assert failing([PASSIVE, *other, ACTIVE], [CLEAN]) == []


def block(interval: float, *, agents: float, checkpoints: int = 3) -> Block:
    return Block(
        interval=interval, checkpoints=checkpoints, nodes=0.6, agents=agents, storing=agents / 10,
        driver=0.1, operators=0.2,
    )  # fmt: skip


def test_blocks_are_compared_with_the_baseline_of_their_round() -> None:
    found = compared(
        [
            block(0.0, agents=0.1, checkpoints=0),
            block(5.0, agents=0.12),
            block(0.0, agents=0.3, checkpoints=0),
            block(5.0, agents=0.34, checkpoints=2),
        ]
    )
    assert found == {
        "5": {
            "checkpoints": 2,
            "cores": pytest.approx(0.03),
            "of_all": pytest.approx((0.025 + 0.04) / 2, abs=1e-4),
            "storing": pytest.approx(0.023),
            "of_operators": pytest.approx(0.115),
        }
    }


def test_the_figures_are_drawn() -> None:
    cpu = {"intervals": {"1": {"of_operators": 0.3}, "5": {"of_operators": 0.1}}}
    drawn = draw({"kills": [PASSIVE, HALF, ACTIVE], "cpu": cpu})
    titles = [axis.get_title(loc="left") for axis in drawn.axes if axis.get_visible()]
    assert titles == ["Fig. 8: all nodes, 500/s", "Fig. 10: all nodes, 500/s", "Fig. 9: checkpoints, each"]
    assert len(draw({"kills": [PASSIVE]}).axes) == 2
