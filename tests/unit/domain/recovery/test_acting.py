"""What replicas have taken over is not restored, and the next plan has it where it acts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from domain.recovery.acting import PATIENCE
from domain.recovery.events import (
    DrainAsked,
    DriverReported,
    Looked,
    NodesLost,
    RecoveryAsked,
    ReplanAsked,
)
from domain.recovery.facts import Failed, Lost, TakenOver
from domain.recovery.incident import NodeView, Phase, State
from domain.recovery.instructions import CreatePlan, Instruction, MarkPartitions, Tell
from domain.recovery.machine import IncidentMachine
from domain.recovery.memory import Memory
from domain.recovery.policy import RecoveryPolicy
from tests.unit.domain.recovery.test_machine import lose, machine


def failed_of(subject: IncidentMachine) -> set[str]:
    return set(subject.cases["t0"].failed)


def report_of(
    *,
    acting: Mapping[str, str] | None = None,
    standing: Mapping[str, str] | None = None,
    at: float = 2.0,
    generation: int = 3,
) -> DriverReported:
    return DriverReported(
        at=at, topology="t0", generation=generation, state="degraded", head=30, committed=20, checkpoint=0,
        acting=acting or {}, standing=standing or {},
    )  # fmt: skip


def reported(
    subject: IncidentMachine,
    *,
    acting: Mapping[str, str] | None = None,
    standing: Mapping[str, str] | None = None,
    at: float = 2.0,
    generation: int = 3,
) -> list[Instruction]:
    return subject.handle_stimulus(report_of(acting=acting, standing=standing, at=at, generation=generation))


def planning(subject: IncidentMachine, at: float) -> list[Instruction]:
    subject.may_plan = True
    return subject.handle_stimulus(Looked(at=at))


def plans(instructions: list[Instruction]) -> list[CreatePlan]:
    return [one for one in instructions if isinstance(one, CreatePlan)]


def test_nothing_is_left_to_recover_where_replicas_act_for_all() -> None:
    subject = machine(may_plan=False)
    lose(subject, "node-1")
    lost = failed_of(subject)
    told = reported(subject, acting=dict.fromkeys(lost, "node-2"))
    assert MarkPartitions(topology="t0", state="running", partitions=frozenset(lost)) in told
    assert subject.cases["t0"].phase is Phase.DROPPED
    assert not plans(planning(subject, 9.0))
    assert {subject.deployments["t0"].assignment[p] for p in lost} == {"node-2"}
    subject.validate_state()


def test_the_plan_for_the_rest_has_what_acts_where_it_acts() -> None:
    subject = machine(may_plan=False)
    subject.deployments["t0"].policy = RecoveryPolicy(method="incremental")
    lose(subject, "node-1")
    first, *rest = sorted(failed_of(subject))
    reported(subject, acting={first: "node-2"})
    assert failed_of(subject) == set(rest)
    (plan,) = plans(planning(subject, 9.0))
    assert plan.assignment[first] == "node-2"
    assert set(plan.restore) == set(rest)


def test_a_takeover_is_awaited_for_a_moment_and_no_longer() -> None:
    subject = machine(may_plan=False)
    subject.deployments["t0"].policy = RecoveryPolicy(method="incremental")
    lose(subject, "node-1", at=1.0)
    lost = failed_of(subject)
    reported(subject, standing=dict.fromkeys(lost, "node-2"))
    assert not plans(planning(subject, 1.0 + PATIENCE - 0.1))
    (plan,) = plans(planning(subject, 1.0 + PATIENCE + 0.1))
    assert set(plan.restore) == lost


def test_a_replica_on_a_lost_node_takes_nothing_over() -> None:
    subject = machine(may_plan=False)
    lose(subject, "node-1", "node-2")
    lost = failed_of(subject)
    reported(subject, acting=dict.fromkeys(lost, "node-2"), standing=dict.fromkeys(lost, "node-2"))
    assert failed_of(subject) == lost
    assert not subject.cases["t0"].standing


def test_what_is_taken_over_on_a_drained_node_is_to_move() -> None:
    """It runs there, so it is not restored; a plan moves it once, however often it is reported."""
    subject = machine(may_plan=False)
    subject.handle_stimulus(DrainAsked(at=0.5, node="node-2", actor="kim", reason="new kernel"))
    there = failed_of(subject)
    lose(subject, "node-1")
    lost = failed_of(subject) - there
    for at in (2.0, 3.0):
        reported(subject, acting=dict.fromkeys(lost, "node-2"), at=at)
        assert failed_of(subject) == there | lost
        assert {subject.deployments["t0"].assignment[p] for p in lost} == {"node-2"}
    (plan,) = plans(planning(subject, 9.0))
    assert plan.kind == "move"
    assert set(plan.restore) == there | lost
    assert "node-2" not in plan.assignment.values()


def test_what_an_operator_wants_put_back_is_put_back_though_replicas_act() -> None:
    """A node was lost before the restore was planned, the plan was discarded, and replicas took over: it was
    forgotten, since nothing was down any more."""
    subject = machine(may_plan=False)
    subject.deployments["t0"].policy = RecoveryPolicy(method="incremental")
    subject.deployments["t0"].latest, subject.deployments["t0"].stored = 30, frozenset({10, 30})
    asked = RecoveryAsked(at=0.5, topology="t0", actor="kim", reason="bad", checkpoint=10)
    subject.handle_stimulus(asked)
    lose(subject, "node-1")
    lost = failed_of(subject)
    planning(subject, 5.0)
    subject.may_plan = False
    subject.handle_stimulus(ReplanAsked(at=6.0, actor="kim", reason="it cannot be applied"))
    reported(subject, acting=dict.fromkeys(lost, "node-2"), at=7.0)
    (plan,) = plans(planning(subject, 9.0))
    assert (plan.kind, plan.rollback, plan.checkpoint) == ("restore", True, 10)


def test_a_takeover_is_remembered() -> None:
    subject = machine(may_plan=False)
    lose(subject, "node-1")
    lost = failed_of(subject)
    told = reported(subject, acting=dict.fromkeys(lost, "node-2"))
    (fact,) = [one.fact for one in told if isinstance(one, Tell) and isinstance(one.fact, TakenOver)]
    memory = Memory()
    memory.remember(Lost(1.0, ("node-1",), {"t0": Failed(3, tuple(lost))}))
    memory.remember(fact)
    assert memory.failed_under("t0", 3) == set()


def said(subject: IncidentMachine, tentative: Mapping[str, float]) -> list[Tell]:
    """What the machine tells when queries give tentative output."""
    event = dataclasses.replace(
        report_of(acting=None, standing=None, at=2.0, generation=3), tentative=tentative
    )
    return [one for one in subject.handle_stimulus(event) if isinstance(one, Tell)]


def test_queries_that_go_on_without_lost_inputs_are_told_once() -> None:
    subject = machine(may_plan=False)
    lose(subject, "node-1")
    (told,) = said(subject, {"O1[0]": 0.75})
    assert told.text == (
        "O1[0] of t0 goes on with about 75 % of the input. Its output is tentative until it has caught up."
    )
    assert not said(subject, {"O1[0]": 0.5})
    (told,) = said(subject, {"O1[0]": 0.5, "O2[0]": 0.25, "O3[0]": 0.5})
    assert told.text == (
        "O2[0] and O3[0] of t0 go on with about 25 to 50 % of the input. "
        "Their output is tentative until they have caught up."
    )
    memory = Memory.recall([told.fact] if told.fact else [])
    assert memory.tentative == {"t0": {"O2[0]", "O3[0]"}}


def test_no_plan_is_made_before_all_of_a_step_is_known() -> None:
    subject = machine()
    subject.deployments["t0"].policy = RecoveryPolicy(method="incremental")
    lost = [p for p, node in subject.deployments["t0"].assignment.items() if node == "node-1"]
    done = subject.handle_stimulus(
        NodesLost(at=1.0, nodes={"node-1": "its registration is gone"}),
        report_of(acting=dict.fromkeys(lost, "node-2")),
    )
    assert not plans(done)
    assert subject.cases["t0"].phase is Phase.DROPPED


def take_over(subject: IncidentMachine, partition: str, node: str) -> None:
    """What a machine is loaded with once the driver has told it."""
    deployment = subject.deployments["t0"]
    deployment.assignment[partition] = deployment.taken[partition] = node


def test_a_takeover_that_becomes_known_after_its_node_was_lost_has_failed() -> None:
    subject = machine(may_plan=False)
    subject.deployments["t0"].policy = RecoveryPolicy(method="incremental")
    lose(subject, "node-2")
    take_over(subject, "Source[0]", "node-2")
    (plan,) = plans(planning(subject, 9.0))
    assert "Source[0]" in plan.restore
    assert "node-2" not in plan.assignment.values()
    subject.validate_state()


def test_a_topology_that_no_loss_seemed_to_concern_is_taken_up() -> None:
    """Its replica was lost before it was known to act, and then the node of its partition."""
    subject = machine(may_plan=False)
    subject.nodes["node-5"] = NodeView(name="node-5", alive=False, usable=False)
    subject.nodes["node-6"] = NodeView(name="node-6", alive=True, usable=True)
    take_over(subject, "Source[0]", "node-5")
    lose(subject, "node-6")
    assert failed_of(subject) == {"Source[0]"}
    (plan,) = plans(planning(subject, 9.0))
    assert "node-5" not in plan.assignment.values()
    subject.validate_state()


def test_a_topology_of_which_nothing_was_left_to_recover_is_taken_up_again() -> None:
    subject = machine(may_plan=False)
    subject.deployments["t0"].policy = RecoveryPolicy(method="incremental")
    lose(subject, "node-1")
    reported(subject, acting=dict.fromkeys(failed_of(subject), "node-2"))
    assert subject.cases["t0"].phase is Phase.DROPPED
    subject.state = State.OPEN  # there are others
    take_over(subject, "Source[1]", "node-1")
    (plan,) = plans(planning(subject, 9.0))
    assert plan.restore == ("Source[1]",)
    subject.validate_state()


def test_what_a_plan_under_way_restores_has_not_failed_anew() -> None:
    """The driver leaves nothing on a lost node when it goes over to the plan."""
    subject = machine()
    subject.deployments["t0"].policy = RecoveryPolicy(method="incremental")
    lose(subject, "node-1")
    assert subject.cases["t0"].phase is Phase.PLANNED
    take_over(subject, "Source[0]", "node-1")
    assert not plans(planning(subject, 9.0))
    assert subject.cases["t0"].phase is Phase.PLANNED


def planned(subject: IncidentMachine) -> CreatePlan:
    """node-1 and node-2 are lost, where replicas had taken over before, and a plan that knows it is made."""
    subject.deployments["t0"].policy = RecoveryPolicy(method="incremental")
    take_over(subject, "Source[0]", "node-2")
    lose(subject, "node-1", "node-2")
    (plan,) = plans(planning(subject, 9.0))
    subject.deployments["t0"].acting = {"Source[0]": "node-2"}
    assert "Source[0]" in plan.restore
    return plan


def test_what_a_plan_knowingly_stops_is_not_taken_over_again() -> None:
    """The driver has not applied it; the node of the replica has come back meanwhile."""
    subject = machine(may_plan=False)
    plan = planned(subject)
    subject.nodes["node-2"].alive, subject.may_plan = True, False
    lose(subject, plan.assignment["Source[0]"], at=10.0)
    assert "Source[0]" in failed_of(subject)
    reported(subject, acting={"Source[0]": "node-2"}, generation=3)
    assert "Source[0]" in failed_of(subject)
    reported(subject, acting={"Source[0]": "node-2"}, generation=plan.generation)
    assert "Source[0]" not in failed_of(subject), "the driver has applied it: this one came later"


def test_a_takeover_of_an_earlier_deployment_is_none() -> None:
    subject = machine(may_plan=False)
    subject.deployments["t0"].deployed = 3
    lose(subject, "node-1")
    lost = failed_of(subject)
    reported(subject, acting=dict.fromkeys(lost, "node-2"), generation=2)
    assert failed_of(subject) == lost
