"""The incident state machine: events, instructions, and the entries of the story."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from domain.recovery.events import (
    AbortAsked,
    CheckpointCompleted,
    DrainAsked,
    DriverReported,
    Looked,
    NodeArrived,
    NodeReturned,
    NodesLost,
    PartitionsLost,
    PlanPublished,
    PlanRefused,
    RecoveryAsked,
    TopologyWithdrawn,
)
from domain.recovery.incident import Deployment, NodeView, Phase, Request, State
from domain.recovery.instructions import (
    AskForCheckpoint,
    AskForNode,
    CreatePlan,
    EnterState,
    GiveUpRequest,
    Instruction,
    MarkPlan,
    Tell,
)
from domain.recovery.liveness import ImpossibleTransitionError
from domain.recovery.machine import IncidentMachine
from domain.recovery.memory import Memory, PlanRecord, case_rebuild
from domain.recovery.policy import RecoveryPolicy
from domain.recovery.replacements import JOIN_LIMIT
from domain.topology import Topology
from tests.simulation.incident_graphs import topology


def machine(nodes: int = 4, *, costs: float = 0.0, may_plan: bool = True) -> IncidentMachine:
    """Topology t0 of 4+4+4 partitions spread over node-1..node-N, checkpoint 10 complete."""
    graph = topology("t0", 4)
    assignment = {p: f"node-{1 + i % nodes}" for i, p in enumerate(graph.partitions)}
    return IncidentMachine(
        number=7,
        deployments={
            "t0": Deployment(
                topology=graph,
                generation=3,
                assignment=assignment,
                latest=10,
                costs=dict.fromkeys(graph.partitions, costs) if costs else {},
                policy=RecoveryPolicy(method="blocking"),
            )
        },
        nodes={f"node-{i}": NodeView(name=f"node-{i}", alive=True, usable=True) for i in range(1, nodes + 1)},
        may_plan=may_plan,
        opened_at=0.0,
    )


def arrive(subject: IncidentMachine, name: str, at: float = 5.0) -> list[Instruction]:
    """A node registers: the state of the store, and the event."""
    subject.nodes[name] = NodeView(name=name, alive=True, usable=True)
    waiting = next((r for r in subject.requests.values() if r.state in ("pending", "started")), None)
    if waiting is not None:
        waiting.state, waiting.node = "joined", name
    return subject.handle_stimulus(NodeArrived(at=at, node=name))


def lose(subject: IncidentMachine, *names: str, at: float = 1.0) -> list[Instruction]:
    return subject.handle_stimulus(NodesLost(at=at, nodes=dict.fromkeys(names, "its registration is gone")))


def report(subject: IncidentMachine, state: str, at: float = 9.0, generation: int = 4) -> list[Instruction]:
    return subject.handle_stimulus(
        DriverReported(
            at=at, topology="t0", generation=generation, state=state, head=30, committed=30, checkpoint=0
        )
    )


def only(instructions: list[Instruction], kind: type) -> list:  # type: ignore[type-arg]
    return [one for one in instructions if isinstance(one, kind)]


def state(subject: IncidentMachine) -> State:
    """A function, because a type checker would assume that the attribute keeps the value of the last
    comparison."""
    return subject.state


def story(instructions: list[Instruction]) -> str:
    return "\n".join(f"{one.kind}: {one.text}" for one in only(instructions, Tell))


def test_blocking_recovery_from_loss_to_close() -> None:
    subject = machine()
    said = lose(subject, "node-2", "node-3")
    assert [one.key for one in only(said, AskForNode)] == ["incident-7/node-2/1", "incident-7/node-3/1"]
    assert only(said, EnterState) == [EnterState(state=State.ACQUIRING)]
    assert not only(said, CreatePlan)
    assert "Lost node-2 and node-3" in story(said)
    assert "node-2: its registration is gone" in story(said)

    assert not only(arrive(subject, "node-5"), CreatePlan), "blocking waits for all"
    said = arrive(subject, "node-6")
    (plan,) = only(said, CreatePlan)
    assert (plan.expected, plan.generation, plan.wave, plan.rollback, plan.checkpoint) == (3, 4, 1, True, 10)
    assert len(plan.restore) == 6
    assert not {"node-2", "node-3"} & set(plan.assignment.values())
    assert "because" in story(said) or "most free capacity" in story(said)
    assert state(subject) is State.RESTORING

    said = subject.handle_stimulus(PlanPublished(at=6.0, topology="t0", generation=4))
    assert only(said, MarkPlan) == [MarkPlan(topology="t0", generation=4, state="published")]
    assert report(subject, "restoring") == []
    report(subject, "replaying")
    assert state(subject) is State.REPLAYING
    said = report(subject, "running")
    assert only(said, AskForCheckpoint)
    assert state(subject) is State.VERIFYING
    # The checkpoint the plan came from proves nothing, nor does one of an older generation.
    subject.handle_stimulus(CheckpointCompleted(at=9.5, topology="t0", checkpoint=10, generation=4))
    subject.handle_stimulus(CheckpointCompleted(at=9.5, topology="t0", checkpoint=11, generation=3))
    assert state(subject) is State.VERIFYING
    said = subject.handle_stimulus(CheckpointCompleted(at=10.0, topology="t0", checkpoint=31, generation=4))
    assert state(subject) is State.CLOSED
    assert "recovered and verified. It took 10.0 s" in story(said)
    subject.validate_state()


def test_repeated_and_late_events_do_nothing() -> None:
    subject = machine()
    lose(subject, "node-2")
    assert lose(subject, "node-2") == []
    arrive(subject, "node-5")
    assert subject.handle_stimulus(NodeArrived(at=6.0, node="node-5")) == []
    published = PlanPublished(at=6.0, topology="t0", generation=4)
    subject.handle_stimulus(published)
    assert subject.handle_stimulus(published) == []
    report(subject, "running")
    assert subject.handle_stimulus(published) == []
    assert report(subject, "running") == []
    assert report(subject, "starting") == [], "a restarted driver takes nothing back"
    assert report(subject, "degraded", generation=3) == []


def test_driver_may_be_ahead_of_the_record() -> None:
    """The worker died between publishing a plan and recording that it had."""
    subject = machine()
    lose(subject, "node-2")
    arrive(subject, "node-5")
    said = report(subject, "replaying")
    assert [one.state for one in only(said, MarkPlan)] == ["published", "applied"]


def test_failure_during_replay_touches_only_what_failed_newly() -> None:
    subject = machine()
    lose(subject, "node-2")
    arrive(subject, "node-5")
    report(subject, "replaying")
    said = lose(subject, "node-5", at=12.0)
    assert not only(said, MarkPlan), "the plan stays in force until another replaces it"
    assert "while the recovery was under way" in story(said)
    assert state(subject) is State.ACQUIRING
    (plan,) = only(arrive(subject, "node-6", at=15.0), CreatePlan)
    assert (plan.expected, plan.generation, plan.wave) == (4, 5, 2)
    assert set(plan.restore) == {p for p, n in plan.assignment.items() if n == "node-6"}


def test_failure_before_the_plan_is_applied_throws_it_away() -> None:
    subject = machine()
    lose(subject, "node-2")
    (first,) = only(arrive(subject, "node-5"), CreatePlan)
    said = lose(subject, "node-3", at=12.0)
    assert MarkPlan(topology="t0", generation=4, state="superseded", reason="lost node-3") in said
    assert subject.cases["t0"].failed >= set(first.restore)
    (plan,) = only(arrive(subject, "node-6", at=15.0), CreatePlan)
    assert (plan.expected, plan.generation, plan.wave) == (4, 5, 2)
    assert set(first.restore) < set(plan.restore)


def test_failure_while_verifying_goes_back_to_replaying() -> None:
    subject = machine()
    lose(subject, "node-2")
    arrive(subject, "node-5")
    report(subject, "running")
    assert state(subject) is State.VERIFYING
    said = lose(subject, "node-3", at=12.0)
    assert "no checkpoint is awaited any more" in story(said)
    subject.handle_stimulus(CheckpointCompleted(at=13.0, topology="t0", checkpoint=31, generation=4))
    assert state(subject) is State.ACQUIRING


def test_returned_node_keeps_what_no_plan_has_moved() -> None:
    subject = machine()
    lose(subject, "node-2")
    subject.nodes["node-2"].alive = subject.nodes["node-2"].usable = True
    said = subject.handle_stimulus(NodeReturned(at=3.0, node="node-2", evidence="a new session"))
    assert "Its processes never stopped" in story(said)
    assert "No plan had moved these partitions yet" in story(said)
    assert only(said, GiveUpRequest), "the replacement is not wanted any more"
    assert subject.memory.dropped == {"t0": 3}, "so a coordinator started anew has nothing to recover either"
    assert state(subject) is State.CLOSED


def test_returned_node_is_empty_once_a_plan_has_moved_its_partitions() -> None:
    subject = machine()
    lose(subject, "node-2")
    arrive(subject, "node-5")
    said = subject.handle_stimulus(NodeReturned(at=9.0, node="node-2", evidence="a new session"))
    assert "counts as an empty node" in story(said)
    assert subject.cases["t0"].phase is Phase.PLANNED


def test_loss_of_an_idle_node_ends_when_its_replacement_has_come() -> None:
    subject = machine()
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True)
    said = lose(subject, "node-9")
    assert "only spare capacity is gone" in story(said)
    assert state(subject) is State.ACQUIRING
    arrive(subject, "node-10")
    assert state(subject) is State.CLOSED


def test_failed_and_overdue_requests_are_asked_again() -> None:
    subject = machine()
    lose(subject, "node-2")
    first = subject.requests["incident-7/node-2/1"]
    first.state = "failed"
    (again,) = only(subject.handle_stimulus(Looked(at=2.0)), AskForNode)
    assert (again.key, again.attempt) == ("incident-7/node-2/2", 2)
    second = subject.requests["incident-7/node-2/2"]
    second.state, second.started_at = "started", 3.0
    assert not only(subject.handle_stimulus(Looked(at=3.0 + JOIN_LIMIT)), AskForNode)
    said = subject.handle_stimulus(Looked(at=4.0 + JOIN_LIMIT))
    assert [one.key for one in only(said, GiveUpRequest)] == ["incident-7/node-2/2"]
    assert [one.attempt for one in only(said, AskForNode)] == [3]


def test_one_more_node_where_the_replacement_is_too_small() -> None:
    subject = machine(costs=25.0)  # 75 % of each node
    lose(subject, "node-2")
    subject.requests["incident-7/node-2/1"].state = "joined"
    subject.nodes["node-5"] = NodeView(name="node-5", alive=True, usable=True, capacity=30.0)
    said = subject.handle_stimulus(NodeArrived(at=4.0, node="node-5"))
    assert "do not fit" in story(said)
    assert [one.attempt for one in only(said, AskForNode)] == [2]
    (plan,) = only(arrive(subject, "node-6"), CreatePlan)
    loads = {n: 25.0 * list(plan.assignment.values()).count(n) for n in set(plan.assignment.values())}
    assert loads["node-6"] <= 80.0


def test_load_above_the_bound_before_the_failure_does_not_block_recovery() -> None:
    subject = machine(costs=40.0)  # 120 % of each node: the topology runs as fast as it can
    lose(subject, "node-2")
    said = arrive(subject, "node-5")
    (plan,) = only(said, CreatePlan)
    assert list(plan.assignment.values()).count("node-5") == 3
    assert "already before the failure" in plan.reason


def test_recover_now_uses_the_nodes_there_are() -> None:
    subject = machine()
    lose(subject, "node-2")
    said = subject.handle_stimulus(RecoveryAsked(at=2.0, topology="t0", actor="kim", reason="cannot wait"))
    (plan,) = only(said, CreatePlan)
    assert set(plan.assignment.values()) == {"node-1", "node-3", "node-4"}
    assert "without waiting for further replacements" in story(said)
    assert "asked not to wait" in plan.reason


def test_recover_now_with_nothing_down_goes_back_to_the_checkpoint() -> None:
    subject = machine()
    said = subject.handle_stimulus(RecoveryAsked(at=2.0, topology="t0", actor="kim", reason="wrong output"))
    (plan,) = only(said, CreatePlan)
    assert (plan.kind, plan.rollback, plan.checkpoint, plan.restore) == ("restore", True, 10, ())
    assert plan.assignment == machine().deployments["t0"].assignment
    assert not only(said, AskForNode)


def test_drain_moves_partitions_at_once_where_there_is_room() -> None:
    subject = machine()
    said = subject.handle_stimulus(DrainAsked(at=1.0, node="node-4", actor="kim", reason="new kernel"))
    (plan,) = only(said, CreatePlan)
    assert "node-4" not in plan.assignment.values()
    assert not only(said, AskForNode)


def test_drain_asks_for_a_node_where_there_is_no_room() -> None:
    subject = machine(costs=25.0)  # 75 % of each node
    said = subject.handle_stimulus(DrainAsked(at=1.0, node="node-4", actor="kim", reason="new kernel"))
    assert not only(said, CreatePlan)
    assert [one.lost_node for one in only(said, AskForNode)] == ["node-4"]
    (plan,) = only(arrive(subject, "node-5"), CreatePlan)
    assert list(plan.assignment.values()).count("node-5") == 3


def test_partitions_absent_on_a_living_node_go_elsewhere() -> None:
    subject = machine()
    said = subject.handle_stimulus(
        PartitionsLost(
            at=1.0,
            topology="t0",
            generation=3,
            partitions=frozenset({"Count[1]"}),
            evidence="The driver has reported them absent for 45 s.",
        )
    )
    (plan,) = only(said, CreatePlan)
    assert plan.restore == ("Count[1]",)
    assert plan.assignment["Count[1]"] != "node-2"
    assert plan.assignment["Top[1]"] == "node-2", "what runs there may stay"
    assert not only(said, AskForNode)
    stale = PartitionsLost(
        at=1.0, topology="t0", generation=2, partitions=frozenset({"Top[1]"}), evidence="of an older plan"
    )
    assert subject.handle_stimulus(stale) == []


def test_refused_plan_is_made_again_above_the_one_in_force() -> None:
    subject = machine()
    lose(subject, "node-2")
    arrive(subject, "node-5")
    said = subject.handle_stimulus(PlanRefused(at=6.0, topology="t0", generation=4, in_force=9))
    (plan,) = only(said, CreatePlan)
    assert (plan.expected, plan.generation) == (9, 10)


def refuse(
    subject: IncidentMachine, generation: int, *restorable: int, state: str = "running"
) -> list[Instruction]:
    """The driver runs on under the plan before, and says that it cannot apply this one."""
    return subject.handle_stimulus(
        DriverReported(
            at=9.0, topology="t0", generation=generation - 1, state=state, head=60, committed=60,
            checkpoint=0, refused=generation, restorable=frozenset(restorable),
        )
    )  # fmt: skip


def planned() -> IncidentMachine:
    """Plan 4 puts all of t0 back to checkpoint 10."""
    subject = machine()
    lose(subject, "node-2")
    (plan,) = only(arrive(subject, "node-5"), CreatePlan)
    assert (plan.generation, plan.checkpoint) == (4, 10)
    return subject


@pytest.mark.parametrize("published", [True, False])
def test_a_plan_that_the_driver_refuses_is_made_again_from_what_is_kept(published: bool) -> None:
    subject = planned()
    if published:
        subject.handle_stimulus(PlanPublished(at=6.0, topology="t0", generation=4))
    said = refuse(subject, 4, 30, 40, 50)
    assert "cannot apply plan 4: checkpoint 10" in story(said)
    assert "can go back to checkpoint 50" in story(said)
    (mark,) = only(said, MarkPlan)
    assert (mark.generation, mark.state) == (4, "superseded")
    (plan,) = only(said, CreatePlan)
    assert (plan.generation, plan.rollback, plan.checkpoint, len(plan.restore)) == (5, True, 50, 3)
    subject.validate_state()
    assert refuse(subject, 4, 40, 50, 60) == [], "a late report is about the plan before"
    assert "t0" in subject.memory.refused
    report(subject, "replaying", generation=5)
    assert "t0" not in subject.memory.refused
    assert state(subject) is State.REPLAYING


def test_a_refused_plan_is_made_again_once_with_each_refusal() -> None:
    """A coordinator that was started anew knows nothing newer than the refused checkpoint."""
    subject = planned()
    refuse(subject, 4, 30, 40)
    subject.deployments["t0"].latest = 10
    again = IncidentMachine(
        number=7,
        deployments=subject.deployments,
        nodes=subject.nodes,
        state=subject.state,
        cases=subject.cases,
        requests=subject.requests.values(),
        memory=subject.memory,
    )
    assert again.deployments["t0"].latest == 40
    (plan,) = only(refuse(again, 5, 60, 70), CreatePlan)
    assert (plan.generation, plan.checkpoint) == (6, 70)


def test_what_the_driver_of_an_earlier_deployment_kept_is_void() -> None:
    subject = planned()
    refuse(subject, 4, 30, 40)
    deployment = subject.deployments["t0"]
    deployment.latest, deployment.before = 0, 6
    IncidentMachine(number=7, deployments=subject.deployments, nodes={}, memory=subject.memory)
    assert deployment.latest == 0


def test_where_no_checkpoint_is_kept_the_story_says_once_what_can_be_done() -> None:
    subject = planned()
    subject.handle_stimulus(PlanPublished(at=6.0, topology="t0", generation=4))
    said = refuse(subject, 4)
    assert "undeploy it and deploy it again" in story(said)
    assert not only(said, CreatePlan)
    assert refuse(subject, 4) == []
    assert state(subject) is State.RESTORING
    (plan,) = only(refuse(subject, 4, 50), CreatePlan)
    assert plan.checkpoint == 50, "an operator has brought one back"


def test_a_refused_plan_is_not_applied_whatever_state_the_driver_is_in() -> None:
    for driver in ("running", "degraded", "waiting_for_nodes", "restoring"):
        (plan,) = only(refuse(planned(), 4, 30, state=driver), CreatePlan)
        assert plan.generation == 5


def test_a_chosen_checkpoint_that_is_gone_is_replaced_by_the_newest() -> None:
    subject = machine()
    deployment = subject.deployments["t0"]
    deployment.latest, deployment.stored = 30, frozenset({10, 20, 30})
    asked = RecoveryAsked(at=1.0, topology="t0", actor="kim", reason="bad rollout", checkpoint=10)
    (plan,) = only(subject.handle_stimulus(asked), CreatePlan)
    assert plan.checkpoint == 10
    said = refuse(subject, 4, 20, 30, 40)
    (plan,) = only(said, CreatePlan)
    assert (plan.kind, plan.checkpoint) == ("restore", 40)
    assert "(10, which an operator chose, is not in storage any more)" in plan.reason


def test_nothing_is_planned_without_knowing_the_checkpoints() -> None:
    subject = machine(may_plan=False)
    lose(subject, "node-2")
    assert not only(arrive(subject, "node-5"), CreatePlan)
    assert state(subject) is State.ACQUIRING


def test_withdrawn_topology_has_nothing_left_to_recover() -> None:
    subject = machine()
    lose(subject, "node-2")
    subject.handle_stimulus(TopologyWithdrawn(at=2.0, topology="t0", reason="it was undeployed"))
    assert subject.cases["t0"].phase is Phase.DROPPED


def test_an_undeployed_topology_is_dropped_once() -> None:
    """A plan of an aborted incident, which no driver got, counts in its generation only: each step told again
    that nothing more is recovered."""
    subject = machine()
    lose(subject, "node-2")
    subject.deployments.clear()
    said = subject.handle_stimulus(TopologyWithdrawn(at=2.0, topology="t0", reason="it was undeployed"))
    memory = Memory.recall(one.fact for one in said if isinstance(one, Tell) and one.fact is not None)
    newest = PlanRecord(generation=3, state="applied", ours=False)
    assert case_rebuild("t0", newest, 4, memory).phase is Phase.DROPPED
    assert case_rebuild("t0", replace(newest, generation=5), 5, memory).phase is Phase.FAILED, "a new one"


def test_completed_topology_needs_no_checkpoint() -> None:
    subject = machine()
    lose(subject, "node-2")
    arrive(subject, "node-5")
    report(subject, "completed")
    assert state(subject) is State.CLOSED


def test_a_bounded_guarantee_waits_for_no_checkpoint() -> None:
    subject = machine()
    deployment = subject.deployments["t0"]
    spec = structs.replace(deployment.topology.spec, guarantee="bounded")
    subject.deployments["t0"] = replace(deployment, topology=Topology(spec), latest=0)
    lose(subject, "node-2")
    (plan,) = only(arrive(subject, "node-5"), CreatePlan)
    subject.handle_stimulus(PlanPublished(at=6.0, topology="t0", generation=plan.generation))
    said = report(subject, "running", generation=plan.generation)
    assert not only(said, AskForCheckpoint)
    assert [one.state for one in only(said, MarkPlan)][-1] == "verified"
    assert "its guarantee is bounded" in story(said)
    assert state(subject) is State.CLOSED


def test_aborted_incident_takes_no_more_events() -> None:
    subject = machine()
    lose(subject, "node-2")
    said = subject.handle_stimulus(AbortAsked(at=2.0, actor="kim", reason="known maintenance"))
    assert only(said, EnterState) == [EnterState(state=State.ABORTED)]
    assert arrive(subject, "node-5") == []


def test_two_topologies_wait_for_the_slower_one() -> None:
    subject = machine()
    other = topology("t1", 2)
    subject.deployments["t1"] = Deployment(
        topology=other,
        generation=1,
        assignment={p: f"node-{1 + i % 4}" for i, p in enumerate(other.partitions)},
        policy=RecoveryPolicy(method="blocking"),
    )
    lose(subject, "node-2")
    plans = only(arrive(subject, "node-5"), CreatePlan)
    assert [plan.topology for plan in plans] == ["t0", "t1"]
    report(subject, "completed")
    assert state(subject) is State.RESTORING
    assert subject.cases["t0"].phase is Phase.VERIFIED


def test_a_verified_topology_that_loses_partitions_again_is_recovered_again() -> None:
    subject = machine()
    other = topology("t1", 2)
    subject.deployments["t1"] = Deployment(
        topology=other,
        generation=1,
        assignment={p: f"node-{1 + i % 4}" for i, p in enumerate(other.partitions)},
        policy=RecoveryPolicy(method="blocking"),
    )
    lose(subject, "node-2")
    arrive(subject, "node-5")
    report(subject, "completed")
    again = {p for p, node in subject.deployments["t0"].assignment.items() if node == "node-5"}
    lose(subject, "node-5", at=12.0)
    assert subject.cases["t0"].phase is Phase.FAILED
    assert subject.cases["t0"].failed == again
    plans = only(arrive(subject, "node-6", at=15.0), CreatePlan)
    assert {plan.topology: plan.wave for plan in plans} == {"t0": 2, "t1": 2}


def test_a_returned_node_does_not_run_what_a_discarded_plan_had_for_it() -> None:
    subject = machine()
    lose(subject, "node-2")
    (plan,) = only(arrive(subject, "node-5"), CreatePlan)
    lose(subject, "node-5", at=12.0)
    subject.may_plan = False
    subject.nodes["node-5"].alive = subject.nodes["node-5"].usable = True
    said = subject.handle_stimulus(NodeReturned(at=13.0, node="node-5", evidence="a new session"))
    assert "counts as an empty node" in story(said)
    assert subject.cases["t0"].failed == set(plan.restore)


@pytest.mark.parametrize("node", ["node-2", "node-5"])
def test_a_lost_node_that_is_back_as_a_new_process_is_not_waited_for(node: str) -> None:
    """One that joined during the incident neither."""
    subject = machine()
    lose(subject, "node-2")
    if node != "node-2":
        arrive(subject, node)
        lose(subject, node, at=7.0)
    subject.nodes[node].alive = subject.nodes[node].usable = True
    (plan,) = only(subject.handle_stimulus(NodeArrived(at=8.0, node=node)), CreatePlan)
    assert {plan.assignment[p] for p in plan.restore} == {node}


def test_impossible_transition_carries_the_story() -> None:
    subject = machine()
    lose(subject, "node-2")
    arrive(subject, "node-5")
    with pytest.raises(
        ImpossibleTransitionError, match="t0 in incident 7 cannot go from planned to verified"
    ) as caught:
        subject._transition(subject.cases["t0"], Phase.VERIFIED, "wishful thinking")
    assert "failed -> planned" in str(caught.value)


def test_broken_invariant_shows_the_story() -> None:
    subject = machine()
    lose(subject, "node-2")
    subject.cases["t0"].failed.clear()
    subject.cases["t0"].unrestored.add("Count[1]")
    with pytest.raises(AssertionError, match=r"incident 7: t0: \['Count\[1\]'\] were not restored") as caught:
        subject.validate_state()
    assert "stimulus: Lost node-2" in str(caught.value)


def test_replacement_request_records_what_was_lost() -> None:
    subject = machine()
    lose(subject, "node-2", "node-4")
    assert {request.lost_node for request in subject.requests.values()} == {"node-2", "node-4"}
    assert all(isinstance(request, Request) for request in subject.requests.values())
