"""Partitions that run are moved: by a drain, when an operator asks, and where a wave is slow to catch up."""

from __future__ import annotations

import pytest

from domain.execution.catching_up import NEVER
from domain.recovery.events import (
    ApproveAsked,
    CheckpointCompleted,
    DrainAsked,
    DriverReported,
    Looked,
    NodesLost,
    PlanPublished,
    QueriesAwaited,
    RebalanceAsked,
)
from domain.recovery.incident import NodeView, Phase, State
from domain.recovery.instructions import CreatePlan, Instruction, MarkParked, MarkPartitions, MarkPlan
from domain.recovery.machine import IncidentMachine
from domain.recovery.relief import (
    AT_LAST,
    CATCH_UP_LIMIT,
    EASE,
    FULL,
    IDLE_LIMIT,
    LATE_AFTER,
    MUCH_STATE,
    PARK_AFTER,
    PATIENCE,
    TIME_LEFT,
)
from tests.unit.domain.recovery.chains import machine, only_proposal, plan_of, report
from tests.unit.domain.recovery.test_machine import lose, only, story

CHAIN = ("Source[0]", "A[0]")


def asked(subject: IncidentMachine, **moves: str) -> RebalanceAsked:
    names = moves or dict.fromkeys(CHAIN, "node-9")
    return RebalanceAsked(at=1.0, topology="t0", moves=names, actor="kim", reason="node-9 is idle")


def with_idle_node(**policy: object) -> IncidentMachine:
    subject = machine(**policy)  # type: ignore[arg-type]
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True)
    return subject


def test_from_the_order_to_the_proof() -> None:
    subject = with_idle_node()
    said = subject.handle_stimulus(asked(subject))
    plan = plan_of(said)
    assert (plan.kind, plan.method, plan.rollback, plan.buffering) == ("move", "move", False, False)
    assert set(plan.restore) == set(CHAIN)
    assert {plan.assignment[p] for p in CHAIN} == {"node-9"}
    assert plan.assignment["B[0]"] == "node-1", "the rest stays"
    assert plan.explanation["moved_from"] == dict.fromkeys(sorted(CHAIN), "node-1")
    assert "2 partitions of t0 move from node-1 to node-9" in story(said)
    assert not [one for one in only(said, MarkPartitions) if one.state == "failed"]
    subject.handle_stimulus(PlanPublished(at=2.0, topology="t0", generation=4))
    said = report(subject, "running")
    assert "what has moved goes on" in story(said)
    assert "replaying" not in {one.state for one in only(said, MarkPartitions)}
    assert subject.cases["t0"].phase is Phase.VERIFYING
    said = subject.handle_stimulus(CheckpointCompleted(at=30.0, topology="t0", checkpoint=31, generation=4))
    assert subject.state is State.CLOSED
    assert "t0 has moved: checkpoint 31 is complete" in story(said)


def test_asking_twice_moves_once() -> None:
    subject = with_idle_node()
    plan_of(subject.handle_stimulus(asked(subject)))
    again = subject.handle_stimulus(asked(subject))
    assert not only(again, CreatePlan)
    assert "ask again when it has ended" in story(again)


def test_an_operator_confirms_moves_where_the_policy_says_so() -> None:
    subject = with_idle_node(approval="approve")
    assert not only(subject.handle_stimulus(asked(subject)), CreatePlan)
    approval = ApproveAsked(at=2.0, proposal=only_proposal(subject), actor="kim", reason="yes")
    assert plan_of(subject.handle_stimulus(approval)).kind == "move"


def test_a_loss_before_the_plan_comes_first() -> None:
    subject = with_idle_node(approval="approve")
    subject.handle_stimulus(asked(subject))
    lose(subject, "node-3", at=2.0)
    assert subject.cases["t0"].moves == {}, "the moves are void"
    assert subject.cases["t0"].failed == {"Source[2]", "A[2]", "B[2]", "Unused[2]"}


def test_the_target_is_lost_before_the_plan() -> None:
    subject = with_idle_node()
    subject.may_plan = False
    subject.handle_stimulus(asked(subject))
    subject.handle_stimulus(NodesLost(at=2.0, nodes={"node-9": "gone"}))
    subject.may_plan = True
    said = lose(subject, "node-9", at=3.0)
    assert "have no room now; nothing moves" in story(said)
    assert not only(said, CreatePlan)
    assert subject.cases["t0"].phase is Phase.DROPPED


def test_moves_without_room_are_left_out() -> None:
    """A node takes four partitions of 20 %; here it is to take five."""
    subject = with_idle_node()
    five = ("Source[0]", "A[0]", "B[0]", "Unused[0]", "Source[1]")
    plan = plan_of(subject.handle_stimulus(asked(subject, **dict.fromkeys(five, "node-9"))))
    assert list(plan.assignment.values()).count("node-9") == len(plan.restore) == 4


def test_two_change_places_on_nodes_that_are_full() -> None:
    subject = with_idle_node()
    swap = {"Source[1]": "node-3", "Source[2]": "node-2"}
    at = list(subject.deployments["t0"].assignment.values())
    assert at.count("node-2") == at.count("node-3") == 4
    plan = plan_of(subject.handle_stimulus(asked(subject, **swap)))
    assert {p: plan.assignment[p] for p in swap} == swap


def test_a_plan_of_moves_that_is_discarded_restores_what_it_was_to_move() -> None:
    """The driver may have applied it or not."""
    subject = with_idle_node()
    plan_of(subject.handle_stimulus(asked(subject)))
    said = lose(subject, "node-9", at=2.0)
    assert ("t0", 4, "superseded") in {(m.topology, m.generation, m.state) for m in only(said, MarkPlan)}
    (plan,) = only(said, CreatePlan)
    assert plan.kind == "recover"
    assert set(CHAIN) <= set(plan.restore)
    assert subject.memory.moves == {}


def slow(subject: IncidentMachine) -> IncidentMachine:
    """node-3 is lost, its partitions go to the idle node-8, and they replay; node-9 comes later."""
    subject.nodes["node-8"] = NodeView(name="node-8", alive=True, usable=True)
    plan = plan_of(lose(subject, "node-3"))
    subject.handle_stimulus(PlanPublished(at=2.0, topology="t0", generation=4))
    assert {plan.assignment[p] for p in plan.restore} == {"node-8"}
    behind = ("Source[2]", "A[2]", "B[2]", "Unused[2]")
    report(subject, "replaying", behind=behind)  # at 20.0
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True)
    return subject


def late(
    subject: IncidentMachine, at: float, *behind: str, load: float = 0.0, head: int = 40
) -> list[Instruction]:
    report = DriverReported(
        at=at, topology="t0", generation=4, state="replaying", head=head, committed=30, checkpoint=0,
        behind=frozenset(behind), load=load, catch_up=NEVER, not_gaining=at - 20.0,
    )  # fmt: skip
    return subject.handle_stimulus(report, Looked(at=at))


def test_a_wave_that_is_slow_is_eased() -> None:
    subject = slow(machine())
    assert not only(late(subject, 20.0 + IDLE_LIMIT - 1, "A[2]"), CreatePlan)
    said = late(subject, 20.0 + IDLE_LIMIT, "A[2]")
    plan = plan_of(said)
    assert plan.kind == "move"
    assert {plan.assignment[p] for p in plan.restore} == {"node-9"}
    assert "has not caught up 5.0 s after its plan was applied" in story(said)


def test_a_wave_is_left_alone_where_queries_that_give_output_leave_it_time() -> None:
    """They would stand still while state changes its node, for nothing."""
    subject = slow(machine(overload="manual"))
    assert not only(late(subject, 20.0 + CATCH_UP_LIMIT, "A[2]", load=TIME_LEFT - 0.01), CreatePlan)
    assert not only(late(subject, 20.0 + CATCH_UP_LIMIT, "A[2]", load=FULL - 0.01), CreatePlan)
    assert only(late(subject, 20.0 + CATCH_UP_LIMIT, "A[2]", load=FULL), CreatePlan)


def test_state_that_takes_long_to_move_stays_for_a_while() -> None:
    """Everything since the checkpoint, which is epoch 10, would go along."""
    subject = slow(machine(overload="manual"))
    head = 10 + round(MUCH_STATE) + 1
    assert not only(late(subject, 20.0 + AT_LAST - 1, "A[2]", load=FULL, head=head), CreatePlan)
    assert plan_of(late(subject, 20.0 + AT_LAST, "A[2]", load=FULL, head=head)).kind == "move"


def test_a_wave_beside_a_present_that_has_just_no_time_left_is_eased_later() -> None:
    subject = slow(machine(overload="manual"))
    assert not only(late(subject, 19.0 + PATIENCE, "A[2]", load=TIME_LEFT), CreatePlan)
    assert only(late(subject, 20.0 + PATIENCE, "A[2]", load=TIME_LEFT), CreatePlan)


def test_where_queries_may_be_parked_that_comes_first() -> None:
    """It takes effect at once, and what has stopped returns to the idle node."""
    subject = slow(machine())
    assert not only(late(subject, 19.0 + PARK_AFTER, "A[2]", load=FULL), CreatePlan)
    said = late(subject, 20.0 + PARK_AFTER, "A[2]", load=FULL)
    parked = only(said, MarkParked)
    assert parked
    assert parked[0].queries
    assert plan_of(said).kind == "recover"


def test_moves_come_first_where_parking_was_not_enough() -> None:
    subject = slow(machine())
    subject.memory.overloads["t0"] = 1
    assert plan_of(late(subject, 20.0 + CATCH_UP_LIMIT, "A[2]", load=FULL)).kind == "move"
    assert not subject.memory.parked


def test_a_wave_that_has_caught_up_is_left_alone() -> None:
    subject = slow(machine())
    report(subject, "degraded")
    assert not only(late(subject, 20.0 + 2 * CATCH_UP_LIMIT), CreatePlan)


def caught_up(subject: IncidentMachine, *, topology: str = "t0") -> IncidentMachine:
    """At 20.0, with a query that is late all the same."""
    report(subject, "running")
    subject.handle_stimulus(QueriesAwaited(at=20.0, queries=frozenset({f"{topology}/B[2]"})))
    return subject


@pytest.mark.parametrize("verified", [False, True])
def test_where_queries_stay_late_nodes_are_evened_out(*, verified: bool) -> None:
    """node-9 joined when nothing was down any more; the others are entitled to 80 %."""
    subject = caught_up(slow(machine()))
    if verified:
        subject.handle_stimulus(CheckpointCompleted(at=25.0, topology="t0", checkpoint=41, generation=4))
    assert subject.cases["t0"].phase is (Phase.VERIFIED if verified else Phase.VERIFYING)
    assert not only(subject.handle_stimulus(Looked(at=19.0 + LATE_AFTER)), CreatePlan)
    said = subject.handle_stimulus(Looked(at=20.0 + LATE_AFTER))
    plan = plan_of(said)
    assert plan.kind == "move"
    assert {plan.assignment[p] for p in plan.restore} == {"node-9"}
    assert "Queries of t0 are later than usual 10.0 s after all of it had caught up" in story(said)


@pytest.mark.parametrize("load", [0.0, EASE - 0.01, EASE])
def test_where_nodes_do_not_keep_pace_with_ease_that_does_not_wait(load: float) -> None:
    subject = caught_up(slow(machine()))
    subject.cases["t0"].load = load
    assert bool(only(subject.handle_stimulus(Looked(at=21.0)), CreatePlan)) == (load >= EASE)


def test_nor_where_they_would_not_by_where_partitions_are() -> None:
    """What the driver has measured is from before all of it ran."""
    subject = caught_up(slow(machine()))
    subject.deployments["t0"].usual_load = EASE
    assert plan_of(subject.handle_stimulus(Looked(at=21.0))).kind == "move"


def test_nothing_is_evened_out_where_queries_are_available_or_others_are_late() -> None:
    subject = caught_up(slow(machine()), topology="t1")
    assert not only(subject.handle_stimulus(Looked(at=20.0 + LATE_AFTER)), CreatePlan)
    subject = caught_up(slow(machine()))
    subject.handle_stimulus(QueriesAwaited(at=30.0, queries=frozenset()))
    assert not only(subject.handle_stimulus(Looked(at=20.0 + LATE_AFTER)), CreatePlan)


def test_where_queries_stay_late_on_even_nodes_nothing_moves() -> None:
    subject = slow(machine())
    del subject.nodes["node-9"]
    assert not only(caught_up(subject).handle_stimulus(Looked(at=500.0)), CreatePlan)


def test_evening_out_is_left_to_operators_where_the_policy_says_so() -> None:
    subject = caught_up(slow(machine(rebalancing="manual")))
    assert not only(subject.handle_stimulus(Looked(at=500.0)), CreatePlan)


def test_a_wave_whose_executor_is_still_being_started_is_not_slow() -> None:
    """Its node has joined, and Spark is not there yet: moving what runs would not help."""
    subject, wave = slow(machine()), ("Source[2]", "A[2]", "B[2]", "Unused[2]")
    report(subject, "degraded", absent=wave)
    assert not only(subject.handle_stimulus(Looked(at=20.0 + IDLE_LIMIT)), CreatePlan)
    report(subject, "replaying", behind=wave)
    assert not only(subject.handle_stimulus(Looked(at=30.0)), CreatePlan), "its pace is unknown"
    assert plan_of(late(subject, 31.0, *wave)).kind == "move"


def test_moves_are_proposed_to_an_operator_who_confirms_plans() -> None:
    subject = machine(approval="approve")
    subject.nodes["node-8"] = NodeView(name="node-8", alive=True, usable=True)
    lose(subject, "node-3")
    approval = ApproveAsked(at=2.0, proposal=only_proposal(subject), actor="kim", reason="yes")
    plan_of(subject.handle_stimulus(approval))
    subject.handle_stimulus(PlanPublished(at=2.0, topology="t0", generation=4))
    report(subject, "replaying", behind=("A[2]",))
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True)
    said = late(subject, 21.0 + CATCH_UP_LIMIT, "A[2]")
    assert not only(said, CreatePlan)
    (proposed,) = subject.open_proposals().values()
    assert proposed.method == "move"
    assert only_proposal(subject)


def test_a_drained_node_without_room_elsewhere_waits() -> None:
    subject = machine()
    said = subject.handle_stimulus(DrainAsked(at=1.0, node="node-2", actor="kim", reason="new kernel"))
    assert not only(said, CreatePlan)
    assert "4 partitions to move" in story(said)


def all_have_come(subject: IncidentMachine) -> None:
    """No node is expected, and nothing more is asked for."""
    for request in subject.requests.values():
        request.state, request.node = "joined", "node-9"


def test_a_drained_node_is_emptied_where_what_is_down_finds_no_room() -> None:
    """Otherwise each would wait for the other: what is down is larger than any node's room, and what is to
    move makes the drained node slow."""
    subject = machine()
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True, capacity=50.0)
    costs = dict.fromkeys(subject.deployments["t0"].topology.partitions, 20.0)
    subject.memory.costs["t0"] = costs | dict.fromkeys(("Source[2]", "A[2]", "B[2]", "Unused[2]"), 60.0)
    lose(subject, "node-3", at=1.0)
    all_have_come(subject)
    said = subject.handle_stimulus(DrainAsked(at=3.0, node="node-2", actor="kim", reason="new kernel"))
    all_have_come(subject)
    plan = plan_of([*said, *subject.handle_stimulus(Looked(at=4.0))])
    assert plan.restore
    assert set(plan.restore) <= {"Source[1]", "A[1]", "B[1]", "Unused[1]"}
    assert {plan.assignment[p] for p in plan.restore} <= {"node-1", "node-9"}


def test_where_limits_leave_no_room_for_what_is_down_others_move_first() -> None:
    """The one that makes epochs long may be what they wait for."""
    subject = slow(machine())
    subject.cases["t0"].failed |= {"Unused[0]"}
    subject.memory.costs["t0"]["Unused[0]"] = 90.0
    subject.memory.overloads["t0"] = 1
    assert not only(late(subject, 20.0 + CATCH_UP_LIMIT, "A[2]", load=FULL), CreatePlan)
    subject.memory.limits["t0"] = dict.fromkeys(("node-1", "node-2", "node-8"), 0.0)
    all_have_come(subject)
    said = late(subject, 21.0 + CATCH_UP_LIMIT, "A[2]", load=FULL)
    assert plan_of(said).kind == "move"
