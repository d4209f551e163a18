"""A wave that turns out to be too much for its nodes: queries are parked until there is room for them."""

from __future__ import annotations

from typing import Any

import pytest

from domain.capacity import Pace
from domain.execution.catching_up import NEVER, SOON
from domain.recovery import relief
from domain.recovery.costs import costs_raised
from domain.recovery.events import DriverReported, Looked, NodeArrived, ParkAsked, PlanPublished
from domain.recovery.incident import NodeView
from domain.recovery.instructions import AskForNode, CreatePlan, Instruction, KeepCosts, MarkParked
from domain.recovery.machine import IncidentMachine
from domain.recovery.overload import HOLD, LONGEST_HOLD, Parking, parking_for
from domain.recovery.relief import (
    LIGHT,
    LIGHT_AFTER,
    LITTLE_TIME,
    LONG,
    LONG_REPLAY,
    PARK_AFTER,
    PATIENCE,
    TIME_LEFT,
)
from tests.unit.domain.recovery.chains import machine, plan_of
from tests.unit.domain.recovery.test_machine import lose, only, story

APPLIED_AT = 3.0
ENDED = APPLIED_AT + PARK_AFTER + 2.0
"""When the plan that parks is applied."""
LATE = ("A[2]", "B[2]")
PARKED = {"All[0]", "B[0]"}
"""Worth least; others of their stage may stop with them."""


def overfull(**given: Any) -> IncidentMachine:
    """node-3 is lost; what ran there is restored on node-8, and all nodes are full by what is planned."""
    subject = machine(**given)
    subject.nodes["node-8"] = NodeView(name="node-8", alive=True, usable=True)
    plan = plan_of(lose(subject, "node-3"))
    subject.handle_stimulus(PlanPublished(at=2.0, topology="t0", generation=plan.generation))
    told(subject, APPLIED_AT)
    subject.deployments["t0"].priorities = {"B[0]": 1, "B[1]": 9, "B[2]": 8, "All[0]": 2}
    return subject


def told(
    subject: IncidentMachine,
    at: float,
    *,
    load: float = 1.0,
    behind: tuple[str, ...] = LATE,
    catch_up: float | None = NEVER,
    not_gaining: float | None = None,
) -> list[Instruction]:
    """The driver has reported, and the coordinator looks. not_gaining: since the plan was applied, where that
    is not given and those behind do not arrive soon."""
    if not_gaining is None:
        not_gaining = at - APPLIED_AT if (catch_up or 0.0) > SOON else 0.0
    report = DriverReported(
        at=at, topology="t0", generation=subject.deployments["t0"].generation, state="replaying", head=40,
        committed=30, checkpoint=0, behind=frozenset(behind), load=load, catch_up=catch_up,
        not_gaining=not_gaining,
    )  # fmt: skip
    return subject.handle_stimulus(report, Looked(at=at))


def parked(said: list[Instruction]) -> frozenset[str]:
    return only(said, MarkParked)[0].queries


def test_the_least_valuable_query_is_parked() -> None:
    subject = overfull()
    assert not only(told(subject, APPLIED_AT + PARK_AFTER - 1), MarkParked)
    said = told(subject, APPLIED_AT + PARK_AFTER)
    assert parked(said) >= PARKED
    assert not parked(said) & plan_of(said).assignment.keys()
    assert {"A[0]", "A[1]", "A[2]"} <= plan_of(said).assignment.keys(), "they are worth more"
    assert "t0 has not caught up 45.0 s after its plan was applied, and cannot" in story(said)
    assert subject.memory.parked_by_policy["t0"] == parked(said)


@pytest.mark.parametrize(
    ("policy", "load", "after", "behind"),
    [
        ({}, TIME_LEFT - 0.01, PARK_AFTER, LATE),
        ({}, 1.3, PARK_AFTER, ()),
        ({"overload": "manual"}, 1.3, LONG, LATE),
        ({}, LITTLE_TIME - 0.01, LONG, LATE),
    ],
    ids=["it keeps pace", "it has caught up", "the policy forbids it", "there is time for the replay"],
)
def test_nothing_is_parked_where(
    policy: dict[str, Any], load: float, after: float, behind: tuple[str, ...]
) -> None:
    said = told(overfull(**policy), APPLIED_AT + after, load=load, behind=behind)
    assert not only(said, MarkParked)


def test_what_arrives_soon_is_not_parked() -> None:
    assert not told(overfull(), APPLIED_AT + 500.0, load=2.0, catch_up=SOON)


def test_one_slow_look_parks_nothing() -> None:
    """As of a replay whose executors have just started, or of a single slow job."""
    subject = overfull()
    said = told(subject, APPLIED_AT + LONG, load=2.0, catch_up=NEVER, not_gaining=PARK_AFTER - 1.0)
    assert not only(said, MarkParked)
    assert parked(told(subject, APPLIED_AT + LONG + 1.0, load=2.0, catch_up=NEVER, not_gaining=PARK_AFTER))


def test_a_pace_that_is_unknown_parks_nothing_by_itself() -> None:
    """Also long after the plan: another group of partitions may just have begun. The driver says how long."""
    subject = overfull()
    assert not told(subject, APPLIED_AT + 500.0, load=2.0, catch_up=None, not_gaining=0.0)
    assert parked(told(subject, APPLIED_AT + 501.0, load=2.0, catch_up=None, not_gaining=PARK_AFTER))


def test_a_replay_with_little_time_is_given_more_in_the_end() -> None:
    assert parked(told(overfull(), APPLIED_AT + LONG, load=LITTLE_TIME))


@pytest.mark.parametrize(("slow_for", "parks"), [(PARK_AFTER - 1.0, False), (PARK_AFTER, True)])
def test_so_is_one_beside_which_nothing_gives_output(slow_for: float, *, parks: bool) -> None:
    """Then there is no load that would say so."""
    said = told(overfull(), APPLIED_AT + LONG, load=0.0, not_gaining=slow_for)
    assert bool(only(said, MarkParked)) == parks


def test_its_nodes_take_no_more_than_the_rest_until_another_node_has_room() -> None:
    subject = overfull()
    told(subject, APPLIED_AT + PARK_AFTER)
    limits = subject.memory.limits["t0"]
    assert limits["node-1"] == pytest.approx(60.0, abs=0.1)
    said = told(subject, APPLIED_AT + PARK_AFTER + 5, load=0.5)
    assert not only(said, CreatePlan), "it has just proved too much"
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True)
    arrived = NodeArrived(at=30.0, node="node-9")
    subject.handle_stimulus(arrived)
    said = told(subject, 31.0, load=0.5)
    assert parked(said) == frozenset()
    assert "of t0 may return: other nodes have room." in story(said)


def test_what_the_topology_has_no_more_does_not_return() -> None:
    """It was deployed anew with other queries."""
    subject = overfull()
    told(subject, APPLIED_AT + PARK_AFTER)
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True)
    subject.handle_stimulus(NodeArrived(at=ENDED, node="node-9"))
    gone = subject.memory.parked_by_policy["t0"]
    subject.memory.parked_by_policy["t0"] = frozenset({"C[0]"})
    assert not only(told(subject, ENDED + 1.0, load=0.5), MarkParked)
    subject.memory.parked_by_policy["t0"] = gone | {"C[0]"}
    assert parked(told(subject, ENDED + 2.0, load=0.5)) == subject.memory.parked["t0"] - gone


def test_nodes_with_time_are_not_limited() -> None:
    """Where one node alone has too much, the others take what they could take before."""
    subject = overfull()
    for partition in ("Source[1]", "A[1]", "B[1]", "Unused[1]"):
        subject.deployments["t0"].costs[partition] = 5.0
    told(subject, APPLIED_AT + PARK_AFTER)
    assert subject.memory.limits["t0"].keys() == {"node-1", "node-8"}


def test_what_was_parked_again_returns_at_once_only_to_nodes_that_have_joined_since() -> None:
    subject = overfull()
    told(subject, APPLIED_AT + PARK_AFTER)
    subject.memory.overloads["t0"] = 2
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True)
    assert not only(told(subject, ENDED, load=0.5, behind=()), MarkParked), "it was there before"
    subject.handle_stimulus(NodeArrived(at=ENDED, node="node-9"))
    assert parked(told(subject, ENDED + 1.0, load=0.5, behind=())) == frozenset()


def test_what_was_parked_again_returns_elsewhere_as_late_as_by_the_load() -> None:
    subject = overfull()
    plan = plan_of(told(subject, APPLIED_AT + PARK_AFTER))
    subject.handle_stimulus(PlanPublished(at=ENDED, topology="t0", generation=plan.generation))
    subject.memory.overloads["t0"] = 2
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True)
    assert not only(told(subject, ENDED, load=0.5, behind=()), MarkParked)
    assert not only(told(subject, ENDED + 2 * HOLD - 1.0, load=0.5, behind=()), MarkParked)
    assert parked(told(subject, ENDED + 2 * HOLD, load=0.5, behind=())) == frozenset()


@pytest.mark.parametrize(
    ("waited", "load", "moves"), [(LONG, 1.0, True), (LONG - 1, 1.0, False), (LONG, 0.99, False)]
)
def test_what_goes_on_and_is_too_much_for_its_node_moves(waited: float, load: float, moves: bool) -> None:
    """Nothing more can be parked: what remains is worth more, and nothing is behind."""
    subject = overfull()
    plan = plan_of(told(subject, APPLIED_AT + PARK_AFTER))
    subject.handle_stimulus(PlanPublished(at=ENDED, topology="t0", generation=plan.generation))
    told(subject, ENDED, load=0.5, behind=())
    subject.memory.overloads["t0"] = 3  # so that nothing returns
    subject.nodes["node-1"].load = 40.0
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True)
    subject.memory.limits["t0"].pop("node-2", None)
    said = told(subject, ENDED + waited, load=load, behind=())
    assert bool(only(said, CreatePlan)) == moves
    if moves:
        plan = plan_of(said)
        assert plan.kind == "move"
        assert {plan.assignment[p] for p in plan.restore} <= {"node-2", "node-9"}
        assert "What runs live of t0 is too much for its nodes: each second of input takes 1.00 s" in story(
            said
        )
        assert "has not caught up" not in story(said)


def test_one_node_more_is_asked_for() -> None:
    """Everything that was lost has been replaced, and the nodes cannot take what is parked."""
    subject = overfull()
    for request in subject.requests.values():
        request.state, request.node = "joined", "node-8"
    said = told(subject, APPLIED_AT + PARK_AFTER)
    plan = plan_of(said)
    subject.handle_stimulus(PlanPublished(at=ENDED, topology="t0", generation=plan.generation))
    said += told(subject, ENDED, load=0.7, catch_up=SOON)
    assert only(said, AskForNode)


def test_costs_that_were_too_low_rise_to_what_is_measured() -> None:
    subject = overfull()
    subject.deployments["t0"].costs["B[1]"] = 33.0
    subject.deployments["t0"].costs["A[1]"] = 5.0
    (kept,) = only(told(subject, APPLIED_AT + PARK_AFTER), KeepCosts)
    assert kept.costs["t0"]["B[1]"] == pytest.approx(33.0, abs=1e-3)
    assert kept.costs["t0"]["A[1]"] == pytest.approx(20.0, abs=1e-3), "they only rise"


def test_no_cost_rises_above_what_the_largest_node_can_take() -> None:
    deployment = overfull().deployments["t0"]
    deployment.costs["B[1]"] = 500.0
    raised = costs_raised(dict.fromkeys(deployment.topology.partitions, 20.0), deployment, most=80.0)
    assert raised["B[1]"] == pytest.approx(80.0)


def later(subject: IncidentMachine, load: float, now: float) -> Parking | None:
    return parking_for(
        "t0",
        subject.deployments,
        usable=[node for node in subject.nodes.values() if node.usable],
        costs=subject.memory.costs,
        pace=Pace(load, 0.0, None),
        overloaded=False,
        case=subject.cases["t0"],
        memory=subject.memory,
        now=now,
    )


def test_the_limits_end_when_there_is_time() -> None:
    subject = overfull()
    plan = plan_of(told(subject, APPLIED_AT + PARK_AFTER))
    subject.handle_stimulus(PlanPublished(at=ENDED, topology="t0", generation=plan.generation))
    told(subject, ENDED, load=0.5, behind=())
    assert later(subject, 0.3, ENDED + HOLD - 1) is None
    parking = later(subject, 0.3, ENDED + HOLD)
    assert parking is not None
    assert (parking.queries, parking.limits) == (frozenset(), {})
    event = ParkAsked(
        at=ENDED + HOLD, topology="t0", queries=parking.queries, actor="", reason=parking.reason
    )
    said = subject.handle_stimulus(event)
    assert "t0" not in subject.memory.limits
    assert set(PARKED) <= set(plan_of(said).restore)


def test_the_busiest_nodes_alone_are_limited_where_the_load_leaves_no_time() -> None:
    """So that what is parked may return to others."""
    subject = overfull()
    plan = plan_of(told(subject, APPLIED_AT + PARK_AFTER))
    subject.handle_stimulus(PlanPublished(at=ENDED, topology="t0", generation=plan.generation))
    told(subject, ENDED, load=0.5, behind=())
    subject.memory.limits.clear()
    subject.deployments["t0"].costs.update({"Source[1]": 1.0, "A[1]": 1.0, "B[1]": 1.0, "Unused[1]": 1.0})
    parking = later(subject, 0.89, ENDED + HOLD)
    assert parking is not None
    assert parking.queries >= PARKED
    assert "node-2" not in parking.limits
    assert parking.limits.keys() <= {"node-1", "node-8"}


def test_what_could_not_return_for_long_waits_for_room_like_what_has_failed() -> None:
    """Others went to where it was, and by the load no query may return."""
    subject = overfull()
    plan = plan_of(told(subject, APPLIED_AT + PARK_AFTER))
    subject.handle_stimulus(PlanPublished(at=ENDED, topology="t0", generation=plan.generation))
    told(subject, ENDED, load=0.94, behind=())
    assert later(subject, 0.94, ENDED + HOLD) is None
    assert later(subject, 0.94, ENDED + LONGEST_HOLD - 1.0) is None
    parking = later(subject, 0.94, ENDED + LONGEST_HOLD)
    assert parking is not None
    assert (parking.queries, parking.limits) == (frozenset(), subject.memory.limits["t0"])
    event = ParkAsked(
        at=ENDED + LONGEST_HOLD, topology="t0", queries=parking.queries, actor="", reason=parking.reason,
        limits=parking.limits,
    )  # fmt: skip
    said = subject.handle_stimulus(event)
    assert "nothing could return for 10 minutes" in story(said)
    assert not subject.memory.parked_by_policy["t0"]
    assert set(plan_of(said).restore) >= {"All[0]", "B[1]", "B[2]"}, "in the room of what no query needs"
    assert subject.cases["t0"].failed, "the rest waits for a node"


def crowded(**policy: Any) -> IncidentMachine:
    """node-8 has all that node-3 had, and is behind. node-1 does more than the others, and node-9 has joined
    since with nothing to do."""
    subject = overfull(**policy)
    subject.nodes["node-1"].load = 50.0
    subject.deployments["t0"].state = dict.fromkeys(subject.deployments["t0"].costs, LIGHT + 1)
    subject.handle_stimulus(NodeArrived(at=4.0, node="node-9"))
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True)
    return subject


def test_what_has_little_state_moves_before_anything_is_parked() -> None:
    """Also where queries that give output have time left."""
    subject = crowded()
    at = APPLIED_AT + LIGHT_AFTER
    assert not only(told(subject, at, load=0.5), CreatePlan)
    light = dict.fromkeys(("Source[0]", "A[0]", "B[0]", "Unused[0]"), LIGHT)
    subject.deployments["t0"].state.update({**light, "All[0]": LIGHT + 1})
    assert not only(told(subject, at + 1.0, load=2.0, catch_up=SOON), CreatePlan), "the replay arrives"
    assert not only(told(subject, at + 1.0, load=2.0, not_gaining=LIGHT_AFTER - 1.0), CreatePlan)
    said = told(subject, at + 2.0, load=0.5)
    plan = plan_of(said)
    assert plan.kind == "move"
    assert set(plan.restore) <= light.keys()
    assert {plan.assignment[p] for p in plan.restore} == {"node-9"}
    assert "more time" in story(said)


@pytest.mark.parametrize(
    ("waited", "catch_up", "moves"),
    [
        (PATIENCE, LONG_REPLAY + 1.0, True),
        (PATIENCE, LONG_REPLAY, False),
        (PATIENCE, None, False),
        (PATIENCE - 1.0, SOON, False),
    ],
)
def test_what_has_little_state_moves_while_a_replay_takes_minutes(
    waited: float, catch_up: float | None, moves: bool
) -> None:
    subject = crowded()
    subject.deployments["t0"].state = dict.fromkeys(subject.deployments["t0"].state, LIGHT)
    said = told(subject, APPLIED_AT + waited, load=0.5, catch_up=catch_up)
    assert bool(only(said, CreatePlan)) == moves


def test_what_remains_of_a_torn_chain_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a part of it is down, without room."""
    subject = crowded()
    deployment, case = subject.deployments["t0"], subject.cases["t0"]
    deployment.state = dict.fromkeys(deployment.state, LIGHT)
    found = relief._light_moves(case, subject.deployments, subject._situation())
    assert found
    moving = min(found)
    monkeypatch.setattr(relief, "chains", lambda _: [(moving, "B[1]")])
    assert moving in relief._light_moves(case, subject.deployments, subject._situation())
    case.failed |= {"B[1]"}
    assert moving not in relief._light_moves(case, subject.deployments, subject._situation())


def test_nothing_moves_to_where_parked_queries_return() -> None:
    """The nodes that they were on seem to have room."""
    subject = crowded()
    subject.deployments["t0"].state = dict.fromkeys(subject.deployments["t0"].state, 0)
    subject.memory.parked_by_policy["t0"] = frozenset({"B[0]"})
    assert not only(told(subject, APPLIED_AT + LIGHT_AFTER, load=0.5), CreatePlan)


def test_nothing_moves_where_the_policy_leaves_that_to_operators() -> None:
    subject = crowded(rebalancing="manual")
    subject.deployments["t0"].state = dict.fromkeys(subject.deployments["t0"].state, 0)
    assert not only(told(subject, APPLIED_AT + LIGHT_AFTER, load=0.5), CreatePlan)
