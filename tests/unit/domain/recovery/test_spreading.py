"""What a wave has not begun with is planned again when further nodes join."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from domain.recovery import facts
from domain.recovery.events import ApproveAsked, DriverReported, PlanPublished
from domain.recovery.incident import NodeView, Phase, TopologyCase
from domain.recovery.instructions import CreatePlan, Instruction, Tell
from domain.recovery.machine import IncidentMachine
from domain.recovery.memory import Memory
from domain.recovery.spreading import STARTED, STARTING, not_begun
from tests.unit.domain.recovery.chains import machine, plan_of
from tests.unit.domain.recovery.test_machine import arrive, lose, only


def small(**policy: Any) -> IncidentMachine:
    """All partitions are so small that one node has room for all of them; node-2 and node-3 are lost, and
    node-1 has no room."""
    subject = machine(**policy)
    subject.deployments["t0"].costs = dict.fromkeys(subject.deployments["t0"].topology.partitions, 5.0)
    subject.nodes["node-1"].capacity = 10.0
    lose(subject, "node-2", "node-3")
    return subject


def applied(subject: IncidentMachine, generation: int, *absent: str, at: float = 9.0) -> list[Instruction]:
    """The driver has taken the newest plan over; executors of `absent` partitions are still being started."""
    return subject.handle_stimulus(
        PlanPublished(at=at, topology="t0", generation=generation),
        DriverReported(
            at=at, topology="t0", generation=generation, state="degraded", head=30, committed=20,
            checkpoint=0, absent=frozenset(absent),
        ),
    )  # fmt: skip


def joins(subject: IncidentMachine, generation: int, *absent: str) -> list[Instruction]:
    """node-5 registers, and the driver reports again."""
    return [*arrive(subject, "node-5", at=12.0), *applied(subject, generation, *absent, at=9.0 + STARTING)]


def spreads(said: list[Instruction]) -> list[facts.Spread]:
    return [one.fact for one in only(said, Tell) if isinstance(one.fact, facts.Spread)]


def test_a_wave_that_has_not_begun_takes_the_node_that_joined_since() -> None:
    subject = small()
    first = plan_of(arrive(subject, "node-4"))
    assert Counter(first.assignment[p] for p in first.restore) == {"node-4": len(first.restore)}
    assert not only(applied(subject, first.generation, *first.restore), CreatePlan)
    said = joins(subject, first.generation, *first.restore)
    second = plan_of(said)
    assert set(second.restore) == set(first.restore)
    assert Counter(second.assignment[p] for p in second.restore).keys() == {"node-4", "node-5"}
    (spread,) = spreads(said)
    assert (spread.nodes, set(spread.failed.partitions)) == (("node-5",), set(first.restore))
    subject.validate_state()


def test_what_every_plan_puts_back_as_a_whole_is_not_planned_again() -> None:
    subject = small(deterministic=False)
    first = plan_of(arrive(subject, "node-4"))
    applied(subject, first.generation, *first.restore)
    assert not spreads(joins(subject, first.generation, *first.restore))


def test_executors_that_start_soon_are_waited_for() -> None:
    subject = small()
    first = plan_of(arrive(subject, "node-4"))
    applied(subject, first.generation, *first.restore)
    arrive(subject, "node-5", at=12.0)
    assert not spreads(applied(subject, first.generation, *first.restore, at=9.0 + STARTING - 0.1))
    assert spreads(applied(subject, first.generation, *first.restore, at=9.0 + STARTING))


@pytest.mark.parametrize("later", [-0.1, 0.0])
def test_executors_that_are_nearly_ready_are_waited_for(later: float) -> None:
    subject = small()
    first = plan_of(arrive(subject, "node-4"))
    applied(subject, first.generation, *first.restore)
    at = 9.0 + STARTED + later
    said = [*arrive(subject, "node-5", at=at), *applied(subject, first.generation, *first.restore, at=at)]
    assert bool(spreads(said)) == (later < 0)


def test_what_waits_for_it_is_planned_again_with_it() -> None:
    """What ran all the time waits, too, and keeps its state; what does not wait has begun."""
    subject = machine()
    deployment = subject.deployments["t0"]
    deployment.assignment.update({"Source[1]": "node-4", "A[1]": "node-4", "B[1]": "node-1"})
    for name in ("node-4", "node-5"):
        subject.nodes[name] = NodeView(name=name, alive=True, usable=True)
    subject.memory.arrived |= {"node-4", "node-5"}
    case = TopologyCase(
        name="t0",
        phase=Phase.REPLAYING,
        method="incremental",
        restore=frozenset({"Source[1]", "A[1]", "B[1]", "Source[2]"}),
        applied_at=0.0,
        absent=frozenset({"Source[1]", "A[1]"}),
        behind=frozenset({"B[1]", "Source[2]", "All[0]"}),
    )
    subject.cases["t0"] = case
    waiting, joined = not_begun(case, subject.deployments, subject._situation, subject.memory, STARTING)
    assert waiting == frozenset({"Source[1]", "A[1]", "B[1]"})
    assert joined == frozenset({"node-5"})


def test_a_node_is_a_reason_once() -> None:
    """Also for a coordinator that was started anew."""
    subject = small()
    first = plan_of(arrive(subject, "node-4"))
    applied(subject, first.generation, *first.restore)
    said = joins(subject, first.generation, *first.restore)
    second = plan_of(said)
    again = applied(subject, second.generation, *second.restore, at=14.0)
    assert not only(again, CreatePlan)
    assert Memory.recall(spreads(said)).spread == {"t0": {"node-5"}}


def two_waves() -> tuple[IncidentMachine, CreatePlan, set[str]]:
    """node-4 and node-5 were each filled by a wave as they joined. The second wave, and all that waits."""
    subject = machine()
    subject.nodes["node-1"].capacity = 10.0
    lose(subject, "node-2", "node-3")
    first = plan_of(arrive(subject, "node-4"))
    applied(subject, first.generation, *first.restore)
    second = plan_of(arrive(subject, "node-5", at=12.0))
    assert {second.assignment[p] for p in second.restore} == {"node-5"}
    return subject, second, {*first.restore, *second.restore}


def test_what_several_waves_have_filled_is_placed_together() -> None:
    subject, second, absent = two_waves()
    assert not spreads(applied(subject, second.generation, *absent, at=13.0))
    said = applied(subject, second.generation, *absent, at=13.0 + STARTING)
    (spread,) = spreads(said)
    assert (set(spread.nodes), set(spread.failed.partitions)) == ({"node-4", "node-5"}, absent)
    third = plan_of(said)
    assert set(third.restore) == absent
    assert not spreads(applied(subject, third.generation, *absent, at=22.0))
    assert not spreads(applied(subject, third.generation, *absent, at=22.0 + STARTING))
    subject.validate_state()


@pytest.mark.parametrize(
    ("places", "again"),
    [
        ({"Source[1]": "node-4", "A[1]": "node-4", "Source[2]": "node-5", "A[2]": "node-5"}, False),
        ({"Source[1]": "node-4", "A[1]": "node-5", "Source[2]": "node-4", "A[2]": "node-5"}, True),
    ],
    ids=["even in each stage", "a stage on each node"],
)
def test_what_is_even_already_stays(places: dict[str, str], again: bool) -> None:
    subject = machine()
    deployment = subject.deployments["t0"]
    deployment.assignment.update(places)
    for name in ("node-4", "node-5"):
        subject.nodes[name] = NodeView(name=name, alive=True, usable=True)
    subject.memory.arrived |= {"node-4", "node-5"}
    subject.memory.costs["t0"] = dict.fromkeys(deployment.topology.partitions, 5.0)
    case = TopologyCase(
        name="t0",
        phase=Phase.REPLAYING,
        method="incremental",
        restore=frozenset({"Source[2]", "A[2]"}),
        applied_at=0.0,
        absent=frozenset(places),
        behind=frozenset(),
    )
    subject.cases["t0"] = case
    waiting, _ = not_begun(case, subject.deployments, subject._situation, subject.memory, STARTING)
    assert waiting == (frozenset(places) if again else frozenset())


def test_a_wave_beside_one_that_has_begun_stays() -> None:
    subject, second, _ = two_waves()
    applied(subject, second.generation, *second.restore, at=13.0)
    assert not spreads(applied(subject, second.generation, *second.restore, at=13.0 + STARTING))


def test_what_has_begun_stays() -> None:
    subject = small()
    first = plan_of(arrive(subject, "node-4"))
    applied(subject, first.generation, *first.restore)
    applied(subject, first.generation, *first.restore[1:], at=11.0)
    said = joins(subject, first.generation, *first.restore[1:])
    assert not only(said, CreatePlan)
    assert not spreads(said)


@pytest.mark.parametrize("paused", [False, True])
def test_a_paused_incident_plans_nothing_again(paused: bool) -> None:
    subject = small()
    first = plan_of(arrive(subject, "node-4"))
    applied(subject, first.generation, *first.restore)
    subject.memory.paused = paused
    said = joins(subject, first.generation, *first.restore)
    assert bool(spreads(said)) is not paused


def test_a_plan_that_an_operator_confirmed_stays() -> None:
    subject = small(approval="approve")
    arrive(subject, "node-4")
    (proposal,) = subject.open_proposals().values()
    asked = ApproveAsked(at=6.0, proposal=proposal.proposal, actor="kim", reason="good")
    first = plan_of(subject.handle_stimulus(asked))
    applied(subject, first.generation, *first.restore)
    assert not spreads(joins(subject, first.generation, *first.restore))
