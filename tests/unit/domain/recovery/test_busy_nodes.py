"""A later wave does not replay on nodes that have little time left, as long as others have room."""

from __future__ import annotations

import pytest

from domain.recovery.incident import NodeView, Phase, TopologyCase
from domain.recovery.incremental import Incremental
from domain.recovery.method import Situation, Waiting, Wave
from domain.recovery.pace import KEEPS_PACE, LEAVES_TIME, predicted_load
from domain.recovery.wave_choice import MUCH, SOME
from tests.unit.domain.recovery.test_pace import costs, deployment

BOUND = 0.8
RUNNING, DOWN = "01", "2"
"""Chains: two run on node-1, 30 % of a core together; one more, which was at home there, takes 5."""
COSTS = {**costs(), "Source2[0]": 3.0, "Query2[0]": 2.0}
WITH_TIME, BUSY = 31.0 / (SOME * BOUND), 29.0 / (SOME * BOUND)
"""Capacities of node-1 of which 30 % of a core are a little less and more than the share from which it has
little time left, beside a node with much room. There is room for all three chains on both."""
BUSIER = 29.0 / (MUCH * BOUND)
"""A capacity of which they are more than the share from which it has little time beside any node."""


def next_wave(
    *, number: int, capacity: float, room: float = 100.0, load: float | None = None, expected: int = 0
) -> Wave | Waiting:
    """The wave after so many of the incident. capacity: of node-1; room: capacity of node-2, which joined.
    load: predicted with all three chains on node-1."""
    subject = deployment()
    subject.homes = dict.fromkeys(subject.homes, "node-1")
    subject.assignment = {p: "node-1" for p in subject.homes if p[-4] in RUNNING}
    down = {p for p in subject.homes if p[-4] in DOWN}
    case = TopologyCase(name="t0", phase=Phase.FAILED, wave=number, failed=down)
    situation = Situation(
        cases={"t0": case},
        deployments={"t0": subject},
        nodes={
            "node-1": NodeView(name="node-1", alive=True, usable=True, capacity=capacity),
            "node-2": NodeView(name="node-2", alive=True, usable=True, capacity=room),
        },
        costs={"t0": COSTS},
        lost=frozenset(),
        expected=expected,
        expedited=frozenset(),
        max_utilisation=BOUND,
    )
    if load is not None:
        together = dict.fromkeys([*subject.assignment, *down], "node-1")
        subject.usual_load = 0.0
        predicted = predicted_load(subject, together, COSTS, situation.nodes)
        assert predicted is not None
        subject.usual_load = load - predicted
    return Incremental().next_waves([case], situation)["t0"]


def wave(*, number: int, capacity: float, room: float = 100.0) -> Wave:
    found = next_wave(number=number, capacity=capacity, room=room)
    assert isinstance(found, Wave)
    assert {p[-4] for p in found.restore} == {DOWN}
    return found


def targets(found: Wave) -> set[str]:
    return {found.assignment[p] for p in found.restore}


@pytest.mark.parametrize(("number", "capacity"), [(1, WITH_TIME), (0, BUSY)], ids=["with time", "first wave"])
def test_a_partition_goes_home(number: int, capacity: float) -> None:
    assert targets(wave(number=number, capacity=capacity)) == {"node-1"}


def test_it_replays_elsewhere_where_its_home_has_no_time() -> None:
    assert targets(wave(number=1, capacity=BUSY)) == {"node-2"}


def test_a_node_without_time_takes_what_has_no_room_elsewhere() -> None:
    assert targets(wave(number=1, capacity=BUSIER, room=5.0)) == {"node-1"}


@pytest.mark.parametrize(("capacity", "target"), [(55.0, "node-1"), (BUSIER, "node-2")])
def test_what_all_have_is_not_much_up_to_a_share(capacity: float, target: str) -> None:
    """node-2 has room for the wave alone, so that more than half of all nodes would be used: 55 and 60 %."""
    assert targets(wave(number=1, capacity=capacity, room=7.0)) == {target}


@pytest.mark.parametrize("number", [0, 1])
def test_a_later_wave_waits_where_it_would_replay_beside_what_came_back(number: int) -> None:
    """node-2 takes nothing, and another node is expected."""
    load = (LEAVES_TIME + KEEPS_PACE) / 2
    found = next_wave(number=number, capacity=BUSY, room=1.0, load=load, expected=1)
    assert isinstance(found, Waiting if number else Wave)
