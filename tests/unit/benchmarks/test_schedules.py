"""Randomised kill schedules have the promised steps, and a seed always gives the same schedule."""

from __future__ import annotations

from benchmarks.recovery.correlated import all_but_the_sources
from benchmarks.schedules import SERVERS, WORKERS, freeze_draw, schedule_draw, victims_draw
from benchmarks.stack import verdict_of

NODES = 5
DRAWN = [schedule_draw(f"7/{number}", nodes=NODES) for number in range(1, 201)]


def test_a_seed_gives_one_schedule() -> None:
    assert schedule_draw("7/3", nodes=NODES) == DRAWN[2]
    assert len({schedule.steps for schedule in DRAWN}) == len(DRAWN)


def test_schedules_hold_one_to_four_kills_and_everything_occurs() -> None:
    for schedule in DRAWN:
        kills = [step for step in schedule.steps if step.kind == "kill"]
        assert 1 <= len(kills) <= 4
        assert all(1 <= step.count <= NODES for step in kills)
        assert all(0 <= step.after <= 16 for step in schedule.steps)
    steps = [step for schedule in DRAWN for step in schedule.steps]
    assert {step.kind for step in steps} == {"kill", "driver", "worker", "restart", "policy"}
    assert {step.target for step in steps if step.target} == {*SERVERS, *WORKERS}
    assert {step.count for step in steps if step.kind == "kill"} == set(range(1, NODES + 1))


def test_processes_freeze_after_some_nodes_have_died() -> None:
    drawn = [freeze_draw(f"7/{number}", kind="executor", seconds=30.0) for number in range(100)]
    assert drawn[3] == freeze_draw("7/3", kind="executor", seconds=30.0)
    assert {schedule.steps[0].count for schedule in drawn} == {1, 2}
    for schedule in drawn:
        kill, freeze = schedule.steps
        assert (kill.kind, freeze.kind, freeze.target, freeze.seconds) == ("kill", "freeze", "executor", 30.0)
        assert 0 <= freeze.after <= 2
    assert freeze_draw("7/3", kind="detection", seconds=5.0).steps[1].after == 0


def test_victims_are_alive_and_drawn_from_the_seed() -> None:
    alive = ["node-3", "node-1", "node-8"]
    drawn = victims_draw("7/3", 2, alive, 2)
    assert drawn == victims_draw("7/3", 2, alive[::-1], 2)
    assert len(drawn) == 2
    assert set(drawn) <= set(alive)
    assert victims_draw("7/3", 2, alive, 9) == sorted(alive)


def test_the_sources_survive_and_all_windows_fail() -> None:
    homes = {
        "node-1": ["Source[0]", "Parser[0]", "O13[0]"],
        "node-2": ["O0[0]", "O9[0]"],
        "node-3": ["O1[0]"],
        "node-10": ["O4[0]"],
        "node-9": ["O5[0]"],
    }
    assert all_but_the_sources(homes, 3) == ["node-2", "node-3", "node-10"]
    assert all_but_the_sources(homes, 4) == ["node-2", "node-3", "node-9", "node-10"]


def test_a_verdict_is_clean_only_if_every_query_was_compared() -> None:
    query = {
        "query": "O0[0]", "clean": True, "found": 5, "missing": 0, "duplicate": 0, "unexpected": 0,
        "different": 0, "skipped": "",
    }  # fmt: skip
    assert verdict_of({"clean": True, "queries": [query]}).clean
    assert not verdict_of({"clean": True, "queries": [{**query, "skipped": "no oracle"}]}).clean
    assert not verdict_of({"clean": True, "queries": []}).clean
    wrong = verdict_of({"clean": False, "queries": [{**query, "clean": False, "duplicate": 2}]})
    assert (wrong.clean, wrong.faults, wrong.rows) == (False, {"O0[0]": {"duplicate": 2}}, 5)
