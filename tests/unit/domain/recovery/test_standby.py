"""Standbys take over when nodes are lost, and are left alone otherwise."""

from __future__ import annotations

import pytest

from domain.recovery.events import DrainAsked, PartitionsLost
from domain.recovery.incident import NodeView
from domain.recovery.instructions import AskForNode, CreatePlan
from domain.recovery.machine import IncidentMachine
from domain.recovery.wording import standbys_took_over
from tests.unit.domain.recovery.test_machine import lose, machine, only


def with_standbys(*names: str, nodes: int = 4, costs: float = 20.0) -> IncidentMachine:
    subject = machine(nodes, costs=costs)
    for name in names:
        subject.nodes[name] = NodeView(name=name, alive=True, usable=False, standby=True)
    return subject


def test_blocking_recovery_does_not_wait_for_the_provider() -> None:
    subject = with_standbys("standby-1", "standby-2")
    said = lose(subject, "node-2", "node-3")
    (plan,) = only(said, CreatePlan)
    assert {plan.assignment[p] for p in plan.restore} == {"standby-1", "standby-2"}
    assert len(only(said, AskForNode)) == 2, "so that there are standbys again"


def test_one_standby_for_two_nodes_is_not_enough_for_blocking() -> None:
    subject = with_standbys("standby-1")
    said = lose(subject, "node-2", "node-3")
    assert not only(said, CreatePlan)


def test_a_standby_that_is_lost_or_drained_takes_nothing() -> None:
    subject = with_standbys("standby-1")
    lose(subject, "standby-1")
    assert not only(lose(subject, "node-2", at=2.0), CreatePlan)
    subject = with_standbys("standby-1")
    subject.handle_stimulus(DrainAsked(at=1.0, node="standby-1", actor="a", reason="b"))
    assert not only(lose(subject, "node-2", at=2.0), CreatePlan)


def test_what_does_not_start_on_its_node_goes_to_a_standby() -> None:
    subject = with_standbys("standby-1")
    partitions = frozenset(p for p, node in subject.deployments["t0"].assignment.items() if node == "node-2")
    event = PartitionsLost(at=1.0, topology="t0", generation=3, partitions=partitions, evidence="no executor")
    (plan,) = only(subject.handle_stimulus(event), CreatePlan)
    assert {plan.assignment[p] for p in partitions} == {"standby-1"}


def test_a_node_that_is_drained_leaves_standbys_alone() -> None:
    """They are for failures, which come without a warning."""
    subject = with_standbys("standby-1")
    said = subject.handle_stimulus(DrainAsked(at=1.0, node="node-2", actor="a", reason="b"))
    assert not any("standby-1" in plan.assignment.values() for plan in only(said, CreatePlan))


@pytest.mark.parametrize(
    ("nodes", "successors", "text"),
    [
        (["node-5"], 0, "node-5 was a standby and takes over."),
        (
            ["node-5"],
            1,
            "node-5 was a standby and takes over. The next node that comes becomes a standby in its place.",
        ),
        (
            ["node-10", "node-9"],
            2,
            "node-9 and node-10 were standbys and take over. The next 2 nodes that come become standbys in"
            " their place.",
        ),
    ],
)
def test_it_is_told_who_follows(nodes: list[str], successors: int, text: str) -> None:
    assert standbys_took_over(nodes, successors) == text
