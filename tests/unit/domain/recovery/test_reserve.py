"""A wave keeps room for its replay, until it has caught up."""

from __future__ import annotations

from domain.recovery.events import Looked, QueriesAwaited
from domain.recovery.instructions import AskForNode, CreatePlan, Instruction
from domain.recovery.machine import IncidentMachine
from domain.recovery.reserve import PATIENCE
from tests.unit.domain.recovery.chains import COST, machine, plan_of, report
from tests.unit.domain.recovery.test_machine import arrive, lose, only, story

FULL, WITH_RESERVE = 4, 3
"""Partitions of 20 % that a node takes: 80 % may be planned on it, or 1.6 times as much on all of it."""


def lost_two(reserve: float = 1.6, **given: object) -> tuple[IncidentMachine, CreatePlan]:
    """Two of three nodes are lost, and one comes: the first wave."""
    subject = machine(**given)  # type: ignore[arg-type]  # passed on as they are
    subject.replay_reserve = reserve
    lose(subject, "node-2", "node-3")
    return subject, plan_of(arrive(subject, "node-4"))


def applied(subject: IncidentMachine, first: CreatePlan, *, caught_up: bool) -> list[Instruction]:
    down = tuple(sorted(subject.cases["t0"].failed))
    return report(subject, "degraded", absent=down, behind=() if caught_up else first.restore)


def some(number: int) -> frozenset[str]:
    return frozenset(f"t0/B[{index}]" for index in range(number))


def look(subject: IncidentMachine, at: float) -> list[CreatePlan]:
    return only(subject.handle_stimulus(Looked(at=at)), CreatePlan)


def test_a_wave_is_smaller_than_its_node_and_the_next_follows_when_it_has_caught_up() -> None:
    assert WITH_RESERVE * COST * 1.6 <= 100.0 < FULL * COST * 1.6
    subject, first = lost_two()
    assert len(first.restore) == WITH_RESERVE
    assert first.explanation["queries"]
    assert not only(applied(subject, first, caught_up=False), CreatePlan)
    second = plan_of(applied(subject, first, caught_up=True))
    assert list(second.assignment.values()).count("node-4") == FULL


def test_the_next_wave_waits_until_the_queries_of_the_first_are_available() -> None:
    subject, first = lost_two()
    down = len(subject.deployments["t0"].topology.failed_queries(subject.cases["t0"].failed))
    assert down > 0
    subject.handle_stimulus(QueriesAwaited(at=19.0, queries=some(down + 1)))
    assert not only(applied(subject, first, caught_up=True), CreatePlan), "one is back, but not available yet"
    assert plan_of(subject.handle_stimulus(QueriesAwaited(at=24.0, queries=some(down)))).restore

    subject, first = lost_two()
    subject.handle_stimulus(QueriesAwaited(at=19.0, queries=some(down + 1)))
    applied(subject, first, caught_up=True)
    (late,) = look(subject, 20.0 + PATIENCE + 1.0)
    assert late.restore, "it may be that it never becomes available"


def test_a_reserve_of_one_keeps_no_room() -> None:
    assert len(lost_two(1.0)[1].restore) == FULL


def test_another_node_is_used_while_the_first_wave_replays() -> None:
    subject, first = lost_two()
    applied(subject, first, caught_up=False)
    second = plan_of(arrive(subject, "node-5", at=21.0))
    assert {second.assignment[p] for p in second.restore} == {"node-5"}
    assert len(second.restore) == WITH_RESERVE


def test_while_a_wave_replays_no_further_node_is_asked_for() -> None:
    subject, first = lost_two()
    for request in subject.requests.values():
        request.state = "joined"
    said = applied(subject, first, caught_up=False)
    assert not only(said, AskForNode)
    assert "Partitions that still catch up are planned with more CPU than usual." in story(said)


def test_a_wave_that_never_catches_up_keeps_its_room_only_for_a_while() -> None:
    subject, first = lost_two(rebalancing="manual")
    applied(subject, first, caught_up=False)
    assert not look(subject, 20.0 + PATIENCE)
    (second,) = look(subject, 20.5 + PATIENCE)
    assert second.restore


def test_what_fits_only_without_a_reserve_is_restored_all_the_same() -> None:
    """Every query needs two partitions at least, which a reserve of 4 leaves no room for."""
    _, first = lost_two(4.0)
    assert first.explanation["queries"]


def test_waves_that_put_everything_back_are_few() -> None:
    assert len(lost_two(deterministic=False)[1].restore) == FULL
