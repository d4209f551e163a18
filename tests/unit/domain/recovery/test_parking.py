"""Queries that are parked: what only they need stops, and returns when they are unparked."""

from __future__ import annotations

from typing import Any

import pytest

from domain.recovery.events import (
    AbortAsked,
    CheckpointCompleted,
    DrainAsked,
    Looked,
    ParkAsked,
    PlanPublished,
)
from domain.recovery.incident import NodeView, Phase, State
from domain.recovery.instructions import AskForNode, CreatePlan, Instruction, MarkParked, MarkPartitions
from domain.recovery.machine import IncidentMachine
from tests.unit.domain.recovery.chains import machine, plan_of, report
from tests.unit.domain.recovery.test_machine import lose, only, state, story
from tests.unit.domain.recovery.test_machine import machine as three_levels


def park(subject: IncidentMachine, *queries: str, actor: str = "kim", at: float = 1.0) -> list[Instruction]:
    event = ParkAsked(
        at=at, topology="t0", queries=frozenset(queries), actor=actor, reason="input has doubled"
    )
    return subject.handle_stimulus(event)


def parked(*queries: str, **given: Any) -> IncidentMachine:
    """These are parked, and the driver has applied it."""
    subject = machine(**given)
    park(subject, *queries)
    applied(subject)
    return subject


def applied(subject: IncidentMachine) -> list[Instruction]:
    plan = subject.deployments["t0"].generation
    subject.handle_stimulus(PlanPublished(at=2.0, topology="t0", generation=plan))
    down = tuple(sorted(subject.cases["t0"].failed))
    return report(subject, "degraded", absent=down, generation=plan)


def test_what_only_a_parked_query_needs_stops_and_nothing_else() -> None:
    subject = machine()
    said = park(subject, "B[1]", "B[2]")
    plan = plan_of(said)
    everything = set(subject.deployments["t0"].topology.partitions)
    assert everything - plan.assignment.keys() == {"B[1]", "B[2]"}, "A[1] and Source[1] work for others, too"
    assert (plan.restore, plan.rollback, plan.method) == ((), False, "incremental")
    assert only(said, MarkParked) == [MarkParked(topology="t0", queries=frozenset({"B[1]", "B[2]"}))]
    assert plan.reason == (
        "B[1] and B[2] stop: only parked queries of t0 need that. Everything else keeps running."
    )
    marked = only(said, MarkPartitions)[-1]
    assert (marked.state, marked.partitions) == ("failed", {"B[1]", "B[2]"})
    assert "kim changed which queries of t0 are parked: input has doubled. B[1] and B[2] stop." in story(said)


def test_what_is_parked_and_runs_again_stops_again() -> None:
    """The topology was deployed anew, or a node returned that ran it."""
    subject = parked("B[1]")
    deployment, home = subject.deployments["t0"], subject.deployments["t0"].assignment["A[1]"]
    deployment.assignment["B[1]"] = home
    subject.cases["t0"].failed.discard("B[1]")
    said = subject.handle_stimulus(Looked(at=30.0))
    assert "t0 runs what is parked. To stop: B[1]." in story(said)
    plan = plan_of(said)
    assert set(deployment.topology.partitions) - plan.assignment.keys() == {"B[1]"}
    assert (plan.restore, plan.rollback) == ((), False)
    assert not only(said, MarkParked), "it was parked all the time"
    subject.validate_state()


def test_while_a_plan_is_under_way_what_is_parked_stops_after_it() -> None:
    subject = machine()
    park(subject, "B[1]")
    subject.deployments["t0"].assignment["B[1]"] = subject.deployments["t0"].assignment["A[1]"]
    subject.cases["t0"].failed.discard("B[1]")
    assert "B[1]" not in story(subject.handle_stimulus(Looked(at=1.5)))
    assert "t0 runs what is parked. To stop: B[1]." in story(applied(subject))


def test_they_stay_stopped_whatever_room_there_is() -> None:
    subject = parked("B[1]")
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True)
    said = subject.handle_stimulus(Looked(at=30.0))
    assert not only(said, CreatePlan)
    assert not only(said, AskForNode)
    assert state(subject) is State.ACQUIRING
    assert "Nothing else of t0 is down: 1 query parked." in "\n".join(text for _, _, text in subject.story)


def test_a_failure_restores_everything_but_them() -> None:
    subject = parked("B[1]")
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True)
    plan = plan_of(lose(subject, "node-2", at=30.0))
    assert set(plan.restore) == {"Source[1]", "A[1]", "Unused[1]"}
    assert "B[1]" not in plan.assignment
    assert "B[1]" not in plan.explanation["queries"]
    assert "stay down" not in plan.reason


def test_unparked_they_return_from_the_checkpoint_and_the_incident_ends() -> None:
    subject = parked("B[1]", "B[2]")
    some = plan_of(park(subject, "B[2]", at=40.0))
    assert some.restore == ("B[1]",)
    applied(subject)
    rest = plan_of(park(subject, at=50.0))
    assert (rest.restore, rest.checkpoint, rest.rollback) == (("B[2]",), 10, False)
    subject.handle_stimulus(PlanPublished(at=51.0, topology="t0", generation=rest.generation))
    report(subject, "running", generation=rest.generation)
    done = CheckpointCompleted(at=60.0, topology="t0", checkpoint=31, generation=rest.generation)
    subject.handle_stimulus(done)
    assert state(subject) is State.CLOSED
    subject.validate_state()


@pytest.mark.parametrize("policy", [{"method": "blocking"}, {"rollback": "global"}, {"deterministic": False}])
def test_parking_puts_nothing_back(policy: dict[str, Any]) -> None:
    subject = machine(**policy)
    plan = plan_of(park(subject, "B[1]"))
    assert (plan.method, plan.rollback, plan.restore) == ("incremental", False, ())


def test_a_query_whose_partitions_all_work_for_others_cannot_be_parked() -> None:
    """A[1] is a query, and B[1] and All[0] need it."""
    subject = machine()
    said = park(subject, "A[1]")
    assert "A[1] of t0 cannot be parked: other queries need all that runs for them." in story(said)
    assert not only(said, MarkParked)
    assert not subject.cases


def test_of_what_holds_nothing_the_policy_returns_its_own_only() -> None:
    """A[1] and A[2] work for the queries that return. One of the two was parked by an operator."""
    subject = parked("A[1]", "B[1]", "All[0]")
    park(subject, "A[1]", "B[1]", "All[0]", "A[2]", "B[2]", actor="", at=30.0)
    applied(subject)
    assert subject.memory.parked_by_policy["t0"] == {"A[2]", "B[2]"}
    said = park(subject, "A[1]", "A[2]", actor="", at=40.0)
    assert only(said, MarkParked) == [MarkParked(topology="t0", queries=frozenset({"A[1]"}))]
    assert not subject.memory.parked_by_policy.get("t0")


def test_a_drained_node_is_emptied_all_the_same() -> None:
    subject = parked("B[1]")
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True)
    drain = DrainAsked(at=30.0, node="node-2", actor="kim", reason="new kernel")
    plan = plan_of(subject.handle_stimulus(drain))
    assert "node-2" not in plan.assignment.values()
    assert "B[1]" not in plan.assignment


def test_an_abort_leaves_them_down_and_not_parked() -> None:
    subject = parked("B[1]")
    said = subject.handle_stimulus(AbortAsked(at=30.0, actor="kim", reason="enough"))
    assert only(said, MarkParked) == [MarkParked(topology="t0", queries=frozenset())]
    assert not subject.memory.parked


def test_nothing_is_restored_until_they_are_unparked() -> None:
    """To recover first, as the refusal said, changed nothing."""
    subject = parked("B[1]")
    assert subject.restore_refusal("t0") == "queries of topology 't0' are parked: unpark them first"
    lose(subject, "node-2", at=30.0)
    subject.cases["t0"].phase = Phase.FAILED
    assert subject.restore_refusal("t0") == "partitions of topology 't0' are down: recover it first"


def test_a_plan_that_would_run_nothing_is_not_made() -> None:
    """Its driver could not tell it from one whose nodes are missing."""
    subject = three_levels(costs=5.0)
    said = park(subject, *subject.deployments["t0"].topology.queries)
    assert not only(said, CreatePlan)
    assert plan_of(park(subject, "Top[0]", at=2.0)).assignment


def test_the_same_order_again_does_nothing() -> None:
    subject = parked("B[1]")
    assert park(subject, "B[1]", at=20.5) == []
