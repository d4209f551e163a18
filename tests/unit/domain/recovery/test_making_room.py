"""Moves of what runs, where a query that is out has no room on any single node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from domain.recovery.events import Looked, NodeArrived, PlanPublished
from domain.recovery.facts import RoomMade
from domain.recovery.incident import NodeView
from domain.recovery.instructions import AskForNode, CreatePlan, Instruction, Tell
from domain.recovery.machine import IncidentMachine
from domain.recovery.making_room import BYTES_PER_SECOND, PATIENCE
from domain.recovery.memory import Memory
from tests.unit.domain.recovery.chains import machine, plan_of, report
from tests.unit.domain.recovery.test_machine import arrive, lose, only, story

SMALL = ("node-5", "node-6")
DOWN = ("B[1]", "B[2]", "Unused[1]", "Unused[2]")


def in_pieces(subject: IncidentMachine) -> IncidentMachine:
    """node-2 and node-3 are lost. node-4 has taken Source and A of two chains. B[1] and B[2] take 20 each;
    node-1 is full of partitions of 16, and the two nodes that came then take 16 each."""
    subject.deployments["t0"].priorities = {"B[1]": 5, "B[2]": 4}
    lose(subject, "node-2", "node-3")
    arrive(subject, "node-4")
    for request in subject.requests.values():
        request.state = "joined"
    assert subject.cases["t0"].restore == {"Source[1]", "Source[2]", "A[1]", "A[2]"}
    for name in SMALL:
        subject.nodes[name] = NodeView(name=name, alive=True, usable=True, capacity=20.0)
    return subject


def caught_up(subject: IncidentMachine) -> list[Instruction]:
    """The wave has caught up, and nothing but a look follows."""
    subject.handle_stimulus(PlanPublished(at=8.0, topology="t0", generation=4))
    return report(subject, "degraded", absent=DOWN)


def rooms(instructions: list[Instruction]) -> list[RoomMade]:
    return [one.fact for one in only(instructions, Tell) if isinstance(one.fact, RoomMade)]


@pytest.mark.parametrize("planner", ["best_density", "optimal"])
def test_small_partitions_make_room_for_large_ones(planner: str) -> None:
    subject = in_pieces(machine(planner=planner))
    said = caught_up(subject)
    plan = plan_of(said)
    assert (plan.kind, plan.rollback) == ("move", False)
    assert {p: plan.assignment[p] for p in plan.restore} == {"A[0]": "node-5", "All[0]": "node-6"}
    assert not {"B[1]", "B[2]"} & plan.assignment.keys()
    assert not only(said, AskForNode), "there is enough"
    assert "Enough CPU is free for B[1] and B[2] of t0, but on no single node." in story(said)
    assert "cannot move yet" not in story(said), "what is down does not move"
    subject.handle_stimulus(PlanPublished(at=21.0, topology="t0", generation=5))
    wave = plan_of(report(subject, "degraded", generation=5, absent=DOWN))
    assert (wave.kind, wave.restore) == ("recover", ("B[1]", "B[2]"))
    assert {wave.assignment[p] for p in wave.restore} == {"node-1"}
    assert wave.assignment["A[0]"] == "node-5", "what has moved stays there"


@pytest.mark.parametrize(
    "why",
    ["rebalancing", "approval", "rollback", "state", "expected", "replaying"],
)
def test_nothing_moves(why: str) -> None:
    """Where an operator decides, where all goes back to a checkpoint, where state is large, where a node is
    expected, and while anything of the topology replays."""
    policies = {"rebalancing": "manual", "approval": "approve", "rollback": "global"}
    subject = in_pieces(machine())
    deployment = subject.deployments["t0"]
    if why in policies:
        deployment.policy = replace(deployment.policy, **{why: policies[why]})  # type: ignore[arg-type]
    if why == "state":
        deployment.state = dict.fromkeys(deployment.topology.partitions, int(600 * BYTES_PER_SECOND))
    if why == "expected":
        next(iter(subject.requests.values())).state = "started"
    subject.handle_stimulus(PlanPublished(at=8.0, topology="t0", generation=4))
    behind = ("A[1]",) if why == "replaying" else ()
    said = report(subject, "degraded" if not behind else "replaying", absent=DOWN, behind=behind)
    assert not rooms(said)
    assert not only(said, CreatePlan)


def test_what_has_moved_in_vain_does_not_move_again_until_a_node_joins() -> None:
    """The room that was made is taken by something else meanwhile."""
    subject = in_pieces(machine())
    assert len(rooms(caught_up(subject))) == 1
    subject.nodes["node-1"].load = 30.0
    subject.handle_stimulus(PlanPublished(at=21.0, topology="t0", generation=5))
    said = report(subject, "degraded", generation=5, absent=DOWN)
    assert not rooms(said)
    assert only(said, AskForNode), "a node is asked for instead"
    for request in subject.requests.values():
        request.state = "failed"
    assert not rooms(subject.handle_stimulus(Looked(at=30.0)))
    for name in ("node-8", "node-9"):
        subject.nodes[name] = NodeView(name=name, alive=True, usable=True, capacity=20.0)
    for request in subject.requests.values():
        request.state = "joined"
    (made,) = rooms(subject.handle_stimulus(NodeArrived(at=31.0, node="node-9")))
    assert made == subject.memory.room_made == Memory.recall([made]).room_made


def test_nodes_that_are_expected_are_awaited_for_a_while_only() -> None:
    """The plan was applied at 20, as the report says."""
    subject = in_pieces(machine())
    next(iter(subject.requests.values())).state = "started"
    assert not rooms(caught_up(subject))
    assert not rooms(subject.handle_stimulus(Looked(at=20.0 + PATIENCE - 1.0)))
    assert rooms(subject.handle_stimulus(Looked(at=20.0 + PATIENCE)))
