"""What would find room elsewhere if nodes were drained together."""

from __future__ import annotations

import pytest

from domain.recovery.evacuation import Evacuation, evacuation_of
from domain.recovery.incident import NodeView
from domain.recovery.machine import IncidentMachine
from tests.unit.domain.recovery.chains import machine

BOUND = 0.8


def found(subject: IncidentMachine, *leaving: str) -> Evacuation:
    return evacuation_of(leaving, deployments=subject.deployments, nodes=subject.nodes, max_utilisation=BOUND)


def with_rack(*, capacity: float, load: float = 0.0) -> IncidentMachine:
    """All that runs is on node-1 to node-3, and only node-9 can take it."""
    subject = machine()
    subject.nodes["node-9"] = NodeView(name="node-9", alive=True, usable=True, capacity=capacity, load=load)
    return subject


def hosts(subject: IncidentMachine) -> set[str]:
    return {node for one in subject.deployments.values() for node in one.assignment.values()}


def test_all_of_a_rack_fits_elsewhere() -> None:
    subject = with_rack(capacity=10_000.0)
    answer = found(subject, *hosts(subject))
    assert answer.moving == {name: dict(one.assignment) for name, one in subject.deployments.items()}
    assert (answer.staying, answer.others) == ({}, ("node-9",))
    assert answer.free == pytest.approx(8_000.0)
    assert 0 < answer.needed <= answer.free


def test_nothing_goes_to_a_node_that_leaves_too() -> None:
    """Each of them alone would fit on the others; together they do not."""
    subject = with_rack(capacity=10.0)
    rack = hosts(subject)
    assert len(rack) > 1
    together = found(subject, *rack)
    assert together.others == ("node-9",)
    assert set(together.staying) == set(subject.deployments)
    assert together.needed > together.free


def test_what_is_taken_already_is_no_room() -> None:
    subject = with_rack(capacity=100.0, load=90.0)
    answer = found(subject, *hosts(subject))
    assert answer.free == 0.0
    assert {name: set(left) for name, left in answer.staying.items()} == {
        name: set(one.assignment) for name, one in subject.deployments.items()
    }


def test_standbys_and_draining_nodes_are_no_room() -> None:
    subject = with_rack(capacity=10_000.0)
    for standby in (True, False):
        subject.nodes["node-9"] = NodeView(
            name="node-9", alive=True, usable=False, standby=standby, capacity=10_000.0
        )
        assert found(subject, *hosts(subject)).others == ()
