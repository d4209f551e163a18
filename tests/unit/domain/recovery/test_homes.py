"""Partitions return to a node that is back, because its disk may still have their state."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    found = homeward(tight, homes={"a": "node-2"}, costs=costs, limits=limits)
    assert (found.placed, found.load) == (tight.placed, tight.load)


def test_only_those_that_are_in_the_way_stay_away_from_home() -> None:
    """The large one fits on node-1 only, so one of the three that run there has to leave it."""
    placement = Placement(
        assignment={},
        placed={"large": "node-1", "a": "node-2", "b": "node-2", "c": "node-2"},
        load={"node-1": 70.0, "node-2": 60.0, "node-3": 70.0},
    )
    costs = {"large": 70.0, "a": 20.0, "b": 20.0, "c": 20.0}
    homes = {"a": "node-1", "b": "node-1", "c": "node-1"}
    limits = {"node-1": 90.0, "node-2": 60.0, "node-3": 80.0}
    found = homeward(placement, homes=homes, costs=costs, limits=limits, running=set(homes))
    assert found.placed == {"large": "node-1", "a": "node-1", "b": "node-2", "c": "node-2"}
    assert found.load == {"node-1": 90.0, "node-2": 40.0, "node-3": 70.0}


def test_those_that_run_come_before_those_that_ran() -> None:
    placement = Placement(
        assignment={}, placed={"a": "node-2", "b": "node-2"}, load={"node-1": 50.0, "node-2": 50.0}
    )
    costs, limits = {"a": 30.0, "b": 20.0}, {"node-1": 80.0, "node-2": 80.0}
    homes = {"a": "node-1", "b": "node-1"}
    found = homeward(placement, homes=homes, costs=costs, limits=limits, running={"b"})
    assert found.placed == {"a": "node-2", "b": "node-1"}
    found = homeward(placement, homes=homes, costs=costs, limits=limits)
    assert found.placed == {"a": "node-1", "b": "node-2"}


def test_chains_go_home_as_one_or_not_at_all() -> None:
    placement = Placement(
        assignment={"x": "node-2"},
        placed={"a": "node-2", "b": "node-2", "c": "node-2", "y": "node-2"},
        load={"node-1": 20.0, "node-2": 70.0},
    )
    costs = {"a": 20.0, "b": 20.0, "c": 10.0, "y": 10.0, "x": 10.0}
    homes = {"a": "node-1", "b": "node-7", "c": "node-1", "y": "node-1"}
    limits = {"node-1": 80.0, "node-2": 80.0}
    chains = [("a", "b"), ("x", "y")]
    found = homeward(placement, homes=homes, costs=costs, limits=limits, running=set(homes), chains=chains)
    assert found.placed == {"a": "node-1", "b": "node-1", "c": "node-1", "y": "node-2"}, "x stays"
    tight = {"node-1": 55.0, "node-2": 80.0}
    found = homeward(placement, homes=homes, costs=costs, limits=tight, running=set(homes), chains=chains)
    assert found.placed == {"a": "node-2", "b": "node-2", "c": "node-1", "y": "node-2"}


@given(data=st.data())
def test_whatever_goes_home_the_placement_fits(data: st.DataObject) -> None:
    names = [f"p{i}" for i in range(data.draw(st.integers(1, 12)))]
    nodes = [f"node-{i}" for i in range(data.draw(st.integers(1, 4)))]
    costs = {name: float(data.draw(st.integers(1, 40))) for name in names}
    placed = {name: data.draw(st.sampled_from(nodes)) for name in names}
    others = {node: float(data.draw(st.integers(0, 30))) for node in nodes}
    load = {node: others[node] + sum(costs[p] for p in names if placed[p] == node) for node in nodes}
    limits = {node: load[node] + data.draw(st.integers(0, 30)) for node in nodes}
    homes = {name: data.draw(st.sampled_from([*nodes, "gone"])) for name in names}
    running = {name for name in names if homes[name] != "gone" and data.draw(st.booleans())}
    chain = names[: data.draw(st.integers(0, 4))]
    before = Placement(assignment={}, placed=placed, load=load)
    found = homeward(
        before, homes=homes, costs=costs, limits=limits, running=running, chains=[chain] if chain else []
    )
    assert found.placed.keys() == placed.keys()
    for node in nodes:
        total = others[node] + sum(costs[p] for p in names if found.placed[p] == node)
        assert found.load[node] == pytest.approx(total)
        assert total <= limits[node] + 1e-3

    def apart(chosen: dict[str, str]) -> int:
        return len({chosen[member] for member in chain})

    assert apart(found.placed) <= apart(placed)


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
