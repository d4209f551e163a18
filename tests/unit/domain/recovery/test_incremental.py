"""Incremental recovery: waves, rollback, costs and further nodes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from domain.recovery import decisions
from domain.recovery import machine as machines
from domain.recovery.costs import costs_fix
from domain.recovery.events import (
    CheckpointCompleted,
    Looked,
    NodeArrived,
    NodeReturned,
    NodesLost,
    ReplanAsked,
)
from domain.recovery.incident import NodeView, Phase, State
from domain.recovery.instructions import (
    AskForNode,
    CreatePlan,
    GiveUpRequest,
    KeepCosts,
    MarkPartitions,
    MarkPlan,
)
from domain.recovery.machine import IncidentMachine
from domain.recovery.policy import RecoveryPolicy, largest_burst, lost_together, method_choose
from domain.recovery.replacements import NO_MORE
from tests.unit.domain.recovery.chains import machine, plan_of, report
from tests.unit.domain.recovery.test_machine import arrive, lose, only, state, story


def test_two_nodes_lost_together_return_wave_by_wave() -> None:
    subject = machine()
    said = lose(subject, "node-2", "node-3")
    assert "by the incremental method, because its waves do not touch what runs" in story(said)
    assert not only(said, CreatePlan), "node-1 has no room"
    assert len(only(said, AskForNode)) == 2
    assert (
        "5 failed queries cannot be restored yet: the 1 node that can take partitions has nothing free, "
        "and even A[1] of t0, which needs least, takes 0.4 cores." in story(said)
    )

    first = plan_of(arrive(subject, "node-4"))
    assert (first.method, first.wave, first.generation, first.rollback, first.buffering) == (
        "incremental", 1, 4, False, True,
    )  # fmt: skip
    # `All` needs both chains' Source and A: priority 7 for 80 %, against 4 for one chain.
    assert set(first.restore) == {"Source[1]", "A[1]", "Source[2]", "A[2]"}
    assert set(first.explanation["queries"]) == {"All[0]", "A[1]", "A[2]"}
    assert set(first.assignment) == set(subject.deployments["t0"].topology.partitions) - {
        "B[1]", "Unused[1]", "B[2]", "Unused[2]",
    }  # fmt: skip
    assert {one["query"]: one["selected"] for one in first.explanation["explanations"]} == {
        "All[0]": True, "A[1]": True, "A[2]": True, "B[1]": False, "B[2]": False,
    }  # fmt: skip
    assert (
        "This wave wins back 13 of the 15 points of priority that are down and takes 0.8 of the 0.8 cores "
        "that are free (planner: best density)." in first.reason
    )
    assert state(subject) is State.RESTORING

    assert not only(arrive(subject, "node-5", at=6.0), CreatePlan), "the first is not applied yet"
    second = plan_of(report(subject, "degraded", absent=("B[1]", "B[2]"), behind=("A[1]",)))
    assert (second.wave, second.generation, second.rollback) == (2, 5, False)
    assert set(second.restore) == {"B[1]", "Unused[1]", "B[2]", "Unused[2]"}
    assert set(second.assignment) == set(subject.deployments["t0"].topology.partitions)
    report(subject, "replaying", behind=("B[1]",), generation=5)
    assert state(subject) is State.REPLAYING
    said = report(subject, "running", generation=5)
    assert MarkPlan(topology="t0", generation=5, state="caught_up") in said
    assert state(subject) is State.VERIFYING
    subject.handle_stimulus(CheckpointCompleted(at=21.0, topology="t0", checkpoint=31, generation=5))
    assert state(subject) is State.CLOSED
    subject.validate_state()


def test_a_wave_has_caught_up_although_others_are_down() -> None:
    subject = machine()
    lose(subject, "node-2", "node-3")
    first = plan_of(arrive(subject, "node-4"))
    down = tuple(subject.cases["t0"].failed)
    assert not only(report(subject, "degraded", absent=down, behind=("A[2]",)), MarkPartitions)[1:]
    assert state(subject) is State.REPLAYING
    said = report(subject, "degraded", absent=down)
    assert MarkPlan(topology="t0", generation=4, state="caught_up") in said
    (marked,) = only(said, MarkPartitions)
    assert (marked.state, marked.partitions) == ("running", frozenset(first.restore))
    assert "wave 1 has caught up" in story(said)
    assert state(subject) is State.ACQUIRING, "the rest waits for a node"
    assert report(subject, "degraded", absent=down) == [], "told once"


def test_global_rollback_is_for_the_first_wave_only() -> None:
    subject = machine(rollback="global")
    lose(subject, "node-2", "node-3")
    assert plan_of(arrive(subject, "node-4")).rollback
    arrive(subject, "node-5", at=6.0)
    assert not plan_of(report(subject, "degraded")).rollback


def test_rollback_is_inherited_by_the_next_plan_while_none_is_applied() -> None:
    for policy in ("global", "ancestors"):
        subject = machine(rollback=policy)
        lose(subject, "node-2", "node-3")
        arrive(subject, "node-4")
        arrive(subject, "node-5", at=6.0)
        lose(subject, "node-5", at=7.0)
        assert state(subject) is State.RESTORING, "the plan has nothing on node-5: it stays"
        lose(subject, "node-4", at=8.0)
        assert plan_of(arrive(subject, "node-6", at=9.0)).rollback is (policy == "global")


def test_a_blocking_plan_that_was_thrown_away_leaves_its_rollback_to_the_next_wave() -> None:
    subject = machine(method="blocking")
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True)
    blocking = plan_of(lose(subject, "node-2"))
    assert (blocking.method, blocking.rollback) == ("blocking", True)
    subject.deployments["t0"].policy = RecoveryPolicy()
    said = lose(subject, "node-3", at=4.0)
    assert "by the incremental method" in story(said)
    wave = plan_of(said)
    assert (wave.method, wave.generation, wave.rollback) == ("incremental", 5, True)
    arrive(subject, "node-4", at=6.0)
    assert not plan_of(report(subject, "degraded", generation=5)).rollback, "it is applied"


def test_a_topology_that_is_not_deterministic_rolls_back_in_every_wave() -> None:
    subject = machine(deterministic=False)
    lose(subject, "node-2", "node-3")
    assert plan_of(arrive(subject, "node-4")).rollback
    arrive(subject, "node-5", at=6.0)
    assert plan_of(report(subject, "degraded")).rollback


def test_where_waves_put_back_what_runs_it_counts_how_many_nodes_were_lost_together() -> None:
    def lost_after_a_checkpoint(checkpoint_at: float, second: float) -> str:
        subject = machine(rollback="global")
        said = lose(subject, "node-2", at=1.0)
        assert "by the blocking method, because every wave would put back what runs" in story(said)
        subject.deployments["t0"].checkpoint_at = checkpoint_at
        return story(lose(subject, "node-3", at=second))

    assert "incremental" not in lost_after_a_checkpoint(5.0, 11.5)
    assert "because 2 nodes were lost together" in lost_after_a_checkpoint(5.0, 11.0)
    assert "because 2 nodes were lost together" in lost_after_a_checkpoint(0.0, 60.0)


def test_one_lost_node_is_no_reason_to_wait_where_there_is_room() -> None:
    subject = machine()
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True)
    plan = plan_of(lose(subject, "node-2"))
    assert (plan.method, plan.rollback) == ("incremental", False)
    assert set(plan.restore) == {"Source[1]", "A[1]", "B[1]", "Unused[1]"}


def test_a_node_that_comes_back_was_not_lost() -> None:
    subject = machine(rollback="global")
    lose(subject, "node-2", "node-3")
    subject.nodes["node-3"].alive = subject.nodes["node-3"].usable = True
    said = subject.handle_stimulus(NodeReturned(at=3.0, node="node-3", evidence="a new session"))
    assert "by the blocking method" in story(said)
    assert [one.key for one in only(said, GiveUpRequest)] == ["incident-7/node-3/1"]
    assert subject.cases["t0"].failed == {"Source[1]", "A[1]", "B[1]", "Unused[1]"}


def test_a_topology_stays_incremental_within_an_incident() -> None:
    subject = machine()
    lose(subject, "node-2", "node-3")
    arrive(subject, "node-4")
    subject.deployments["t0"].policy = RecoveryPolicy(method="blocking")
    arrive(subject, "node-5", at=6.0)
    assert plan_of(report(subject, "degraded")).method == "incremental"


def test_failures_during_recovery_touch_only_the_newly_failed() -> None:
    subject = machine()
    lose(subject, "node-2", "node-3")
    arrive(subject, "node-4")
    arrive(subject, "node-5", at=6.0)
    second = plan_of(report(subject, "degraded"))
    report(subject, "running", generation=5)
    assert state(subject) is State.VERIFYING
    lose(subject, "node-5", at=25.0)
    assert subject.cases["t0"].failed == set(second.restore)
    assert subject.cases["t0"].phase is Phase.REPLAYING
    third = plan_of(arrive(subject, "node-6", at=26.0))
    assert set(third.restore) == set(second.restore)
    assert third.wave == 3
    assert not third.rollback


def test_topologies_are_planned_together() -> None:
    subject = machine(topologies=2)
    subject.deployments["t1"].priorities = dict.fromkeys(subject.deployments["t1"].topology.queries, 10)
    subject.may_plan = False
    lose(subject, "node-2", "node-3")
    subject.may_plan = True
    plans = {plan.topology: plan for plan in only(arrive(subject, "node-4"), CreatePlan)}
    assert len(plans["t1"].restore) > len(plans["t0"].restore), "t1 is worth more"
    for plan in plans.values():
        assert max(plan.explanation["planned_load_percent"].values()) <= 80.0 + 1e-6


def test_a_look_at_many_topologies_reads_nodes_and_homes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as for one: with 300 topologies, a plan would else take minutes."""
    counted: Counter[str] = Counter()

    def count(module: Any, name: str) -> None:
        real = getattr(module, name)

        def counting(*given: Any, **named: Any) -> Any:
            counted[name] += 1
            return real(*given, **named)

        monkeypatch.setattr(module, name, counting)

    count(decisions, "expedited")
    count(IncidentMachine, "_alive")
    for topologies in (1, 5):
        subject = machine(topologies=topologies, method="incremental")
        counted.clear()
        subject.handle_stimulus(NodesLost(at=1.0, nodes={"node-2": "silent", "node-3": "silent"}))
        assert counted["expedited"] == 1
        counted.clear()
        subject._overlooked()  # after each event
        assert counted["_alive"] == 1


def test_what_topologies_report_has_no_others_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step brings a report of each: with 300 topologies all partitions would be read 300 times."""
    counted: Counter[str] = Counter()
    down = IncidentMachine._down

    def counting(name: str, real: Any) -> Any:
        return lambda *given, **named: counted.update([name]) or real(*given, **named)

    monkeypatch.setattr(IncidentMachine, "_down", counting("down", down))
    monkeypatch.setattr(machines, "costs_fix", counting("costs", costs_fix))
    subject = machine(topologies=10)
    subject.may_plan = False
    lose(subject, "node-2", "node-3")
    counted.clear()
    reports = [
        CheckpointCompleted(at=2.0, topology=t, checkpoint=10, generation=3) for t in subject.deployments
    ]
    subject.handle_stimulus(*reports, Looked(at=2.0))
    assert counted["down"] <= 3 * len(reports)
    assert counted["costs"] == 0


def test_what_runs_for_nothing_makes_room() -> None:
    subject = machine()
    plan = plan_of(lose(subject, "node-3"))
    # All[0] needs the lost chain, no query needs the partitions of Unused, and A[2] fits without them.
    assert plan.kind == "recover"
    assert plan.explanation["queries"] == ["A[2]"]
    assert set(plan.restore) == {"Source[2]", "A[2]"}
    assert plan.explanation["parked"] == ["All[0]", "Unused[0]", "Unused[1]"]
    assert not {"All[0]", "Unused[0]", "Unused[1]"} & plan.assignment.keys()
    assert {"Source[0]", "A[0]", "B[0]", "Source[1]", "A[1]", "B[1]"} <= plan.assignment.keys()
    assert max(plan.explanation["planned_load_percent"].values()) <= 80.0 + 1e-6
    assert "To make room, All[0], Unused[0] and Unused[1] stop" in plan.reason
    # It returns with the next node, like everything else that is down.
    assert {"All[0]", "Unused[0]", "Unused[1]", "B[2]", "Unused[2]"} == subject.cases["t0"].failed
    arrive(subject, "node-4")
    second = plan_of(report(subject, "degraded"))
    assert second.explanation["queries"] == ["All[0]", "B[2]"]
    assert second.explanation["parked"] == []
    again = [p for p in subject.deployments["t0"].topology.partitions if p not in second.assignment]
    assert set(again) == subject.cases["t0"].failed


def test_nothing_is_parked_where_everything_fits_or_nothing_more_would_return() -> None:
    subject = machine()
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True)
    plan = plan_of(lose(subject, "node-3"))
    assert plan.explanation["parked"] == []
    assert set(plan.assignment) == set(subject.deployments["t0"].topology.partitions)
    subject = machine()
    subject.deployments["t0"].costs["A[2]"] = 70.0
    assert not only(lose(subject, "node-3"), CreatePlan), "no node has room for A[2], whatever stops"


def test_a_topology_gives_up_what_runs_for_nothing_to_another() -> None:
    subject = machine(topologies=2)
    subject.deployments["t1"].priorities = dict.fromkeys(subject.deployments["t1"].topology.queries, 10)
    plans = {plan.topology: plan for plan in only(lose(subject, "node-2", "node-3"), CreatePlan)}
    assert plans["t1"].explanation["queries"]
    assert (plans["t0"].kind, plans["t0"].restore) == ("recover", ())
    assert plans["t0"].explanation["parked"] == ["All[0]", "Unused[0]"]
    assert plans["t0"].reason.startswith("no query of t0 returns yet. ")


def test_priorities_are_read_afresh_at_every_look() -> None:
    subject = machine()
    lose(subject, "node-2", "node-3")
    subject.deployments["t0"].priorities = {"B[1]": 10, "All[0]": 1}
    assert {"Source[1]", "A[1]", "B[1]"} <= set(plan_of(arrive(subject, "node-4")).restore)


def test_costs_are_fixed_once_and_reduced_to_the_bound() -> None:
    subject = machine()
    said = lose(subject, "node-2", "node-3")
    (kept,) = only(said, KeepCosts)
    # node-1 carried 100 %: its partitions count 16 % each, so that five of them are 80 %.
    assert kept.costs["t0"]["A[0]"] == pytest.approx(16.0, abs=1e-3)
    assert kept.costs["t0"]["A[1]"] == pytest.approx(20.0, abs=1e-3)
    subject.deployments["t0"].costs = dict.fromkeys(subject.deployments["t0"].topology.partitions, 90.0)
    assert not only(arrive(subject, "node-4"), KeepCosts)
    assert len(subject.cases["t0"].restore) == 4


def test_one_node_more_is_asked_for_where_the_rest_does_not_fit() -> None:
    subject = machine()
    lose(subject, "node-2", "node-3")
    arrive(subject, "node-4")
    subject.requests["incident-7/node-3/1"].state = "joined"
    subject.nodes["node-5"] = NodeView(name="node-5", alive=True, usable=True, capacity=20.0)
    subject.handle_stimulus(NodeArrived(at=6.0, node="node-5"))
    said = report(subject, "degraded")
    assert not only(said, CreatePlan), "16 % takes none of them"
    assert [one.lost_node for one in only(said, AskForNode)] == ["node-2"]
    assert "one more node" in story(said)
    assert not only(subject.handle_stimulus(Looked(at=30.0)), AskForNode)
    assert plan_of(arrive(subject, "node-6", at=31.0)).wave == 2


def test_what_is_still_free_is_not_told_again_when_only_its_amount_has_changed() -> None:
    subject = machine()
    assert "cannot be restored yet" in story(lose(subject, "node-2", "node-3"))
    for at, capacity in ((6.0, 20.0), (8.0, 21.0)):
        subject.nodes["node-4"] = NodeView(name="node-4", alive=True, usable=True, capacity=capacity)
        said = story(subject.handle_stimulus(NodeArrived(at=at, node="node-4")))
        assert ("cannot be restored yet: the 2 nodes" in said) is (at == 6.0), "0.16 and then 0.17 cores"


def test_what_the_rest_waits_for_is_told_again_after_a_wave() -> None:
    subject = machine()
    lose(subject, "node-2", "node-3")
    arrive(subject, "node-4")
    before = story(report(subject, "degraded", absent=("B[1]", "B[2]"), behind=("A[1]",)))
    after = story(report(subject, "degraded", absent=("B[1]", "B[2]")))
    assert ("cannot be restored yet" in before, "cannot be restored yet" in after) == (True, True)
    assert "cannot be restored yet" not in story(subject.handle_stimulus(Looked(at=30.0)))


def test_it_is_said_when_no_further_node_is_asked_for() -> None:
    subject = machine(rebalancing="manual")
    lose(subject, "node-2", "node-3")
    arrive(subject, "node-4")
    for request in subject.requests.values():
        request.state = "joined"
    for number in range(5, 40):
        name = f"node-{number}"
        subject.nodes[name] = NodeView(name=name, alive=True, usable=True, capacity=20.0)
        said = [*subject.handle_stimulus(NodeArrived(at=number, node=name)), *report(subject, "degraded")]
        asked = only(said, AskForNode)
        if not asked and NO_MORE in story(said):
            break
        for one in asked:
            subject.requests[one.key].state = "joined"
    else:
        pytest.fail("nodes were asked for without end, or the end was not told")
    assert NO_MORE not in story(subject.handle_stimulus(Looked(at=99.0))), "once is enough"


def test_what_an_abort_left_down_is_known_to_the_next_incident() -> None:
    subject = machine()
    subject.may_plan = False
    lose(subject, "node-2")
    deployment = subject.deployments["t0"]
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True)
    later = IncidentMachine(number=8, deployments={"t0": deployment}, nodes=subject.nodes)
    said = lose(later, "node-3", at=50.0)
    assert "Down since before, of t0: A[1], B[1]" in story(said)
    (plan,) = only(later.handle_stimulus(ReplanAsked(at=51.0, actor="kim", reason="now")), CreatePlan) or [
        None
    ]
    assert plan is None or "node-2" not in plan.assignment.values()


def test_bursts() -> None:
    assert largest_burst([], 10.0) == 0
    assert largest_burst([1.0, 30.0, 35.0, 44.9, 80.0], 10.0) == 3
    assert largest_burst([1.0, 1.0], 0.0) == 2


def test_losses_count_together_since_the_last_checkpoint_and_in_bursts() -> None:
    # The paper's Figure 10: a minute between the losses, and no checkpoint in between.
    assert lost_together([0.0, 60.0, 120.0], checkpoint_at=-5.0, window=10.0) == 3
    assert lost_together([0.0, 60.0, 120.0], checkpoint_at=90.0, window=10.0) == 1
    assert lost_together([0.0, 5.0, 120.0], checkpoint_at=90.0, window=10.0) == 2
    assert lost_together([], checkpoint_at=float("-inf"), window=10.0) == 0


@pytest.mark.parametrize(
    ("given", "wanted", "because"),
    [
        ({"down": ()}, "blocking", "nothing of it is down"),
        ({"so_far": "incremental", "disturbs": True, "room": False}, "incremental", "incremental wave"),
        ({"together": 1, "disturbs": False, "room": False}, "incremental", "nothing to gain by waiting"),
        ({"together": 2, "disturbs": True, "room": False}, "incremental", "2 nodes were lost together"),
        ({"together": 1, "disturbs": True, "room": True}, "incremental", "fits on the present nodes"),
        ({"together": 1, "disturbs": True, "room": False}, "blocking", "not correlated"),
        ({"policy": RecoveryPolicy(method="blocking")}, "blocking", "its policy says so"),
        ({"policy": RecoveryPolicy(method="incremental"), "down": ()}, "blocking", "nothing of it is down"),
        ({"so_far": "incremental", "down": (), "moves": True}, "move", "still runs"),
        ({"policy": RecoveryPolicy(method="blocking"), "down": (), "moves": True}, "move", "still runs"),
    ],
)
def test_the_method_that_auto_chooses(given: dict[str, Any], wanted: str, because: str) -> None:
    usual = {"policy": RecoveryPolicy(), "so_far": "", "down": {"A[0]"}, "together": 1, "disturbs": False}
    whole = {**usual, "moves": False, "room": True, **given}
    room, policy = whole.pop("room"), whole.pop("policy")
    chosen, why = method_choose(policy, room=lambda: room, **whole)
    assert chosen == wanted
    assert because in why


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("planner", "wishful", "no planner 'wishful'; known: adaptive_density"),
        ("correlation_threshold", 0, "at least 1"),
        ("correlation_window", -1.0, "at least 0 s"),
        ("correlation_window", float("nan"), "at least 0 s"),
    ],
)
def test_policies_that_cannot_be(field: str, value: object, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        RecoveryPolicy(**{field: value})  # type: ignore[arg-type]


def test_lost_event_is_also_known_by_time() -> None:
    subject = machine()
    subject.handle_stimulus(NodesLost(at=4.0, nodes={"node-2": "gone"}))
    assert subject.memory.loss_times == [(4.0, "node-2")]
