"""A drained node may take partitions again before the incident ends."""

from __future__ import annotations

import pytest

from domain.recovery.events import (
    DrainAsked,
    NodeArrived,
    NodeReturned,
    PartitionsLost,
    PlanPublished,
    RebalanceAsked,
)
from domain.recovery.incident import NodeView, Phase, State
from domain.recovery.instructions import CreatePlan, Instruction, Tell
from domain.recovery.machine import IncidentMachine
from domain.recovery.memory import Memory
from tests.unit.domain.recovery.chains import machine, plan_of, report
from tests.unit.domain.recovery.test_machine import arrive, lose, state, story

MINE = {"Source[1]", "A[1]", "B[1]", "Unused[1]"}
"""What runs on node-2."""


def drain(subject: IncidentMachine, at: float = 1.0) -> list[Instruction]:
    return subject.handle_stimulus(DrainAsked(at=at, node="node-2", actor="kim", reason="new kernel"))


def activate(subject: IncidentMachine, at: float = 5.0) -> list[Instruction]:
    subject.nodes["node-2"].usable = True
    return subject.handle_stimulus(NodeArrived(at=at, node="node-2"))


def applied(subject: IncidentMachine, plan: CreatePlan, *absent: str) -> list[Instruction]:
    subject.handle_stimulus(PlanPublished(at=6.0, topology="t0", generation=plan.generation))
    return report(subject, "degraded" if absent else "running", absent=absent, generation=plan.generation)


def test_what_was_to_move_stays_and_the_incident_ends() -> None:
    subject = machine()
    asked = drain(subject)
    said = activate(subject)
    assert (
        "node-2 may take partitions again. To stay there: t0: A[1], B[1], Source[1] and Unused[1]."
        in story(said)
    )
    assert subject.cases["t0"].phase is Phase.DROPPED
    assert state(subject) is State.CLOSED
    recalled = Memory.recall(
        one.fact for one in [*asked, *said] if isinstance(one, Tell) and one.fact is not None
    )
    assert (recalled.drained, recalled.failed_under("t0", 3)) == (set(), set())


def test_what_runs_is_not_restored_with_what_is_down() -> None:
    subject = machine()
    plan = plan_of(lose(subject, "node-3"))
    down = set(subject.cases["t0"].failed)
    applied(subject, plan, *down)
    drain(subject, at=21.0)
    runs = {"Source[1]", "A[1]", "B[1]"}
    assert subject.cases["t0"].failed > down | runs
    activate(subject, at=22.0)
    assert subject.cases["t0"].failed == down
    plan = plan_of(arrive(subject, "node-4", at=23.0))
    assert set(plan.restore).isdisjoint(runs)
    assert {plan.assignment[p] for p in runs} == {"node-2"}


def test_it_may_be_drained_again() -> None:
    subject = machine()
    subject.nodes["node-4"] = NodeView(name="node-4", alive=True, usable=True)
    applied(subject, plan_of(drain(subject)))
    activate(subject, at=21.0)
    moves = {"Source[1]": "node-2", "A[1]": "node-2"}
    back = RebalanceAsked(at=22.0, topology="t0", moves=moves, actor="kim", reason="uneven")
    applied(subject, plan_of(subject.handle_stimulus(back)))
    assert set(plan_of(drain(subject, at=30.0)).restore) == moves.keys()


@pytest.mark.parametrize("how", ["its executor was gone", "it is a new process"])
def test_what_was_down_there_is_still_to_be_restored(how: str) -> None:
    subject = machine()
    subject.may_plan = False
    if how == "it is a new process":
        lose(subject, "node-2")
        subject.nodes["node-2"].alive = subject.nodes["node-2"].usable = True
        subject.handle_stimulus(NodeArrived(at=2.0, node="node-2"))
    else:
        absent = PartitionsLost(
            at=1.0, topology="t0", generation=3, partitions=frozenset(MINE), evidence="absent for 60 s"
        )
        subject.handle_stimulus(absent)
    drain(subject, at=3.0)
    activate(subject)
    assert subject.memory.drained == set()
    assert subject.cases["t0"].failed == MINE


def test_a_late_message_that_it_joined_does_not_undo_the_drain() -> None:
    subject = machine()
    drain(subject)
    assert subject.handle_stimulus(NodeArrived(at=5.0, node="node-2")) == []
    assert (subject.memory.drained, subject.cases["t0"].failed) == ({"node-2"}, MINE)


def test_one_that_had_left_and_is_back_is_not_emptied_again() -> None:
    """Its network was cut after it was emptied. What plans put there was to move, to it or to new nodes."""
    subject = machine()
    subject.nodes["node-4"] = NodeView(name="node-4", alive=True, usable=True)
    applied(subject, plan_of(drain(subject)))
    subject.nodes["node-2"].usable = True
    subject.handle_stimulus(NodeReturned(at=21.0, node="node-2", evidence="a new session"))
    plan = plan_of(lose(subject, "node-3", at=22.0))
    assert {plan.assignment[p] for p in plan.restore} == {"node-2"}
    subject.handle_stimulus(PlanPublished(at=23.0, topology="t0", generation=5))
    report(subject, "running", generation=5)
    assert subject.cases["t0"].failed == set()
