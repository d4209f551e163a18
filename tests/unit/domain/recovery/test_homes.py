"""Partitions return to a node that is back, because its disk may still have their state."""

from __future__ import annotations

from domain.planning import Placement
from domain.recovery.events import NodeArrived
from domain.recovery.homes import homeward
from domain.recovery.incident import NodeView
from domain.recovery.instructions import CreatePlan
from tests.unit.domain.recovery.chains import machine
from tests.unit.domain.recovery.test_machine import lose, only

PLACED = Placement(
    assignment={"x": "node-9", "a": "node-1", "b": "node-1", "c": "node-2"},
    placed={"a": "node-1", "b": "node-1", "c": "node-2"},
    load={"node-1": 50.0, "node-2": 30.0, "node-3": 60.0},
)
COSTS = {"a": 20.0, "b": 30.0, "c": 30.0}
LIMITS = {"node-1": 80.0, "node-2": 80.0, "node-3": 80.0}


def moved(homes: dict[str, str]) -> Placement:
    return homeward(PLACED, homes=homes, costs=COSTS, limits=LIMITS)


def test_home_if_there_is_room() -> None:
    found = moved({"a": "node-3", "b": "node-3", "c": "node-7"})
    assert found.placed == {"a": "node-3", "b": "node-1", "c": "node-2"}, "no room for b, no node-7"
    assert found.assignment == {"x": "node-9", "a": "node-3", "b": "node-1", "c": "node-2"}
    assert found.load == {"node-1": 30.0, "node-2": 30.0, "node-3": 80.0}


def test_who_is_in_the_way_makes_room() -> None:
    full = Placement(
        assignment={}, placed={"a": "node-1", "b": "node-1"}, load={"node-1": 80.0, "node-2": 50.0}
    )
    costs, limits = {"a": 30.0, "b": 20.0}, {"node-1": 80.0, "node-2": 80.0}
    found = homeward(full, homes={"a": "node-2"}, costs=costs, limits=limits)
    assert (found.placed, found.load) == (
        {"a": "node-2", "b": "node-1"},
        {"node-1": 50.0, "node-2": 80.0},
    )


def test_the_placement_stays_where_going_home_leaves_a_partition_out() -> None:
    tight = Placement(
        assignment={}, placed={"a": "node-1", "b": "node-2"}, load={"node-1": 60.0, "node-2": 80.0}
    )
    costs, limits = {"a": 60.0, "b": 80.0}, {"node-1": 60.0, "node-2": 80.0}
    assert homeward(tight, homes={"a": "node-2"}, costs=costs, limits=limits) is tight


def test_a_new_process_under_the_old_name_gets_its_partitions_back() -> None:
    subject = machine()
    subject.nodes["node-9"] = NodeView(name="node-9", alive=False, usable=False)
    lose(subject, "node-2", "node-3")
    for name in ("node-9", "node-3"):
        subject.nodes[name].alive = subject.nodes[name].usable = True
    (plan,) = only(subject.handle_stimulus(NodeArrived(at=5.0, node="node-3")), CreatePlan)
    assert len(plan.restore) == 8
    for partition in ("Source[2]", "A[2]", "B[2]", "Unused[2]"):
        assert plan.assignment[partition] == "node-3"
        assert plan.assignment[partition.replace("2", "1")] == "node-9"
