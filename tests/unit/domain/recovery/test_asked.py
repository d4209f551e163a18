"""Actions of operators in an incremental recovery: confirm, pause, replan, drain, restore a checkpoint."""

from __future__ import annotations

from domain.recovery.events import (
    ApproveAsked,
    DrainAsked,
    Looked,
    PauseAsked,
    PlanPublished,
    RecoveryAsked,
    ReplanAsked,
    ResumeAsked,
)
from domain.recovery.incident import NodeView, Phase
from domain.recovery.instructions import (
    AskForNode,
    CreatePlan,
    MarkPlan,
)
from domain.recovery.policy import RecoveryPolicy
from tests.unit.domain.recovery.chains import machine, only_proposal, plan_of, report
from tests.unit.domain.recovery.test_machine import arrive, lose, only, story


def test_drain_in_peace_moves_what_runs_and_what_is_down_comes_first() -> None:
    subject = machine()
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True)
    drained = subject.handle_stimulus(DrainAsked(at=1.0, node="node-2", actor="kim", reason="new kernel"))
    moved = plan_of(drained)
    assert (moved.kind, moved.method, moved.rollback, moved.buffering) == ("move", "move", False, False)
    assert set(moved.restore) == {"Source[1]", "A[1]", "B[1]", "Unused[1]"}
    assert {moved.assignment[p] for p in moved.restore} == {"node-9"}

    subject = machine(method="incremental")
    subject.may_plan = False
    lose(subject, "node-3")
    subject.handle_stimulus(DrainAsked(at=2.0, node="node-2", actor="kim", reason="new kernel"))
    subject.may_plan = True
    first = plan_of(arrive(subject, "node-4"))
    assert set(first.restore) == {"Source[2]", "A[2]", "B[2]", "Unused[2]"}
    assert first.assignment["A[1]"] == "node-2", "what still runs is not stopped"
    arrive(subject, "node-5", at=6.0)
    second = plan_of(report(subject, "degraded"))
    assert set(second.restore) == {"Source[1]", "A[1]", "B[1]", "Unused[1]"}
    assert "node-2" not in second.assignment.values()


def test_recover_now_with_nothing_down_rolls_everything_back() -> None:
    subject = machine(method="incremental")
    asked = RecoveryAsked(at=1.0, topology="t0", actor="kim", reason="wrong output")
    plan = plan_of(subject.handle_stimulus(asked))
    assert (plan.method, plan.kind, plan.rollback) == ("blocking", "restore", True)


def test_a_chosen_checkpoint_is_gone_back_to_while_it_is_in_storage() -> None:
    for stored, expected in ((frozenset({20, 30}), 20), (frozenset({30}), 30)):
        subject = machine(approval="approve")
        deployment = subject.deployments["t0"]
        deployment.latest, deployment.stored = 30, stored
        asked = RecoveryAsked(at=1.0, topology="t0", actor="kim", reason="bad rollout", checkpoint=20)
        said = subject.handle_stimulus(asked)
        assert "asked to restore checkpoint 20" in story(said)
        proposal = subject.memory.proposals["t0"].proposal
        subject.cases["t0"].origin = subject.memory.origin["t0"].checkpoint  # recalled anew
        approval = ApproveAsked(at=2.0, proposal=proposal, actor="kim", reason="yes")
        plan = plan_of(subject.handle_stimulus(approval))
        assert (plan.kind, plan.rollback, plan.checkpoint) == ("restore", True, expected)
        report(subject, "running")
        assert "t0" not in subject.memory.origin


def test_a_confirmation_is_for_the_checkpoint_that_was_proposed() -> None:
    """The proposal to go back to the newest one stood as it was, and was carried out with the chosen one."""
    subject = machine(approval="approve")
    subject.deployments["t0"].latest, subject.deployments["t0"].stored = 30, frozenset({20, 30})
    for checkpoint, words in ((None, "checkpoint 30, the newest"), (20, "checkpoint 20, which an operator")):
        asked = RecoveryAsked(at=1.0, topology="t0", actor="kim", reason="bad", checkpoint=checkpoint)
        subject.handle_stimulus(asked)
        assert words in subject.open_proposals()["t0"].reason


def test_who_asks_again_without_a_checkpoint_gets_the_newest() -> None:
    subject = machine(approval="approve")
    subject.deployments["t0"].latest, subject.deployments["t0"].stored = 30, frozenset({20, 30})
    for checkpoint in (20, None):
        subject.handle_stimulus(
            RecoveryAsked(at=1.0, topology="t0", actor="kim", reason="bad", checkpoint=checkpoint)
        )
        chosen = subject.memory.origin.get("t0")
        assert subject.cases["t0"].origin == (chosen.checkpoint if chosen else None) == checkpoint


def test_a_checkpoint_is_not_chosen_while_partitions_are_down() -> None:
    subject = machine()
    lose(subject, "node-2", "node-3")
    asked = RecoveryAsked(at=1.0, topology="t0", actor="kim", reason="now", checkpoint=20)
    assert "recover it first" in story(subject.handle_stimulus(asked))
    assert "t0" not in subject.memory.origin


def test_a_proposal_waits_for_its_own_confirmation() -> None:
    subject = machine(approval="approve")
    lose(subject, "node-2", "node-3")
    said = arrive(subject, "node-4")
    assert not only(said, CreatePlan)
    assert "Plan proposed for t0" in story(said)
    old = only_proposal(subject)
    assert subject.handle_stimulus(Looked(at=6.0)) == [], "proposed once"
    # One more node is here: another plan, another proposal.
    assert not only(arrive(subject, "node-5", at=7.0), CreatePlan)
    new = only_proposal(subject)
    assert new != old
    late = ApproveAsked(at=8.0, actor="kim", reason="fine", proposal=old)
    assert "the situation has changed since" in story(subject.handle_stimulus(late))
    approved = ApproveAsked(at=9.0, actor="kim", reason="fine", proposal=new)
    said = subject.handle_stimulus(approved)
    assert len(plan_of(said).restore) == 8
    assert "kim confirmed proposal" in story(said)
    assert subject.handle_stimulus(approved) == []
    assert subject.open_proposals() == {}


def test_a_proposal_is_withdrawn_when_its_node_is_lost() -> None:
    subject = machine(approval="approve")
    lose(subject, "node-2", "node-3")
    arrive(subject, "node-4")
    proposal = only_proposal(subject)
    assert f"Proposal {proposal} is withdrawn" in story(lose(subject, "node-4", at=7.0))
    assert subject.open_proposals() == {}


def test_a_confirmation_is_void_after_replan() -> None:
    """It was given while the recovery was paused, so nothing had come of it."""
    subject = machine(approval="approve")
    lose(subject, "node-3")
    proposal = only_proposal(subject)
    subject.handle_stimulus(PauseAsked(at=2.0, actor="kim", reason="wait"))
    subject.handle_stimulus(ApproveAsked(at=3.0, actor="kim", reason="yes", proposal=proposal))
    subject.handle_stimulus(ReplanAsked(at=4.0, actor="ada", reason="look again"))
    said = subject.handle_stimulus(ResumeAsked(at=5.0, actor="kim", reason="go on"))
    assert not only(said, CreatePlan)
    assert only_proposal(subject) == proposal


def test_a_proposal_ends_with_a_plan_that_needs_none() -> None:
    """The policy was changed meanwhile."""
    subject = machine(approval="approve")
    lose(subject, "node-3")
    only_proposal(subject)
    subject.deployments["t0"].policy = RecoveryPolicy()
    plan = plan_of(subject.handle_stimulus(Looked(at=2.0)))
    subject.handle_stimulus(PlanPublished(at=3.0, topology="t0", generation=plan.generation))
    said = report(subject, "degraded", absent=tuple(subject.cases["t0"].failed))
    assert subject.cases["t0"].awaits_wave
    assert subject.open_proposals() == {}
    assert "withdrawn" not in story(said)


def test_nothing_is_planned_or_asked_for_while_paused() -> None:
    subject = machine()
    lose(subject, "node-2", "node-3")
    paused = PauseAsked(at=2.0, actor="kim", reason="the provider is broken")
    assert "kim paused the recovery" in story(subject.handle_stimulus(paused))
    assert subject.handle_stimulus(paused) == []
    said = arrive(subject, "node-4")
    said += lose(subject, "node-1", at=6.0)
    assert not only(said, CreatePlan)
    assert not only(said, AskForNode)
    resumed = ResumeAsked(at=7.0, actor="kim", reason="it works again")
    said = subject.handle_stimulus(resumed)
    assert plan_of(said).wave == 1
    assert [one.lost_node for one in only(said, AskForNode)] == ["node-1"]
    assert subject.handle_stimulus(resumed) == []


def test_what_is_under_way_goes_on_while_paused() -> None:
    subject = machine()
    lose(subject, "node-2", "node-3")
    arrive(subject, "node-4")
    subject.handle_stimulus(PauseAsked(at=2.0, actor="kim", reason="wait"))
    subject.handle_stimulus(PlanPublished(at=6.0, topology="t0", generation=4))
    report(subject, "degraded")
    assert subject.cases["t0"].phase is Phase.REPLAYING


def test_replan_throws_away_what_is_not_applied_and_ends_a_wait() -> None:
    subject = machine()
    lose(subject, "node-2", "node-3")
    arrive(subject, "node-4")
    arrive(subject, "node-5", at=6.0)
    said = subject.handle_stimulus(ReplanAsked(at=7.0, actor="kim", reason="both are here"))
    assert MarkPlan(topology="t0", generation=4, state="superseded", reason="kim asked to replan") in said
    assert len(plan_of(said).restore) == 8

    subject = machine(method="blocking")
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True)
    lose(subject, "node-2", "node-3")
    assert not only(subject.handle_stimulus(Looked(at=2.0)), CreatePlan), "waits for both"
    subject.nodes["node-8"] = NodeView(name="node-8", alive=True, usable=True)
    lost_nothing = subject.handle_stimulus(ReplanAsked(at=3.0, actor="kim", reason="enough room"))
    assert plan_of(lost_nothing).method == "blocking"
