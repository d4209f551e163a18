"""A living node on which partitions did not run: plans leave it alone for a while, not for ever."""

from __future__ import annotations

import pytest

from domain.recovery.events import Looked, PartitionsLost, RecoveryAsked
from domain.recovery.instructions import CreatePlan, Instruction, Tell
from domain.recovery.machine import IncidentMachine
from domain.recovery.memory import AVOIDED_FOR
from tests.unit.domain.recovery.test_machine import arrive, machine, only

LOST = "Count[1]"


def stopped(subject: IncidentMachine, at: float) -> list[Instruction]:
    event = PartitionsLost(
        at=at,
        topology="t0",
        generation=subject.deployments["t0"].generation,
        partitions=frozenset({LOST}),
        evidence="The driver has reported them absent for 60 s.",
    )
    return subject.handle_stimulus(event)


@pytest.fixture
def subject() -> IncidentMachine:
    """Two nodes of 100 %, of which 80 may be planned and 72 are: neither has room for a partition more."""
    made = machine(nodes=2, costs=12.0)
    assert not only(stopped(made, 1.0), CreatePlan)
    return made


def planned(instructions: list[Instruction]) -> str | None:
    """The node on which what was lost is planned."""
    plans = only(instructions, CreatePlan)
    return plans[0].assignment[LOST] if plans else None


def look(subject: IncidentMachine, at: float) -> str | None:
    return planned(subject.handle_stimulus(Looked(at=at)))


def test_it_is_tried_again_after_a_while(subject: IncidentMachine) -> None:
    assert look(subject, 1.0 + AVOIDED_FOR - 0.1) is None
    assert look(subject, 1.0 + AVOIDED_FOR) == "node-2"


def test_each_further_time_takes_twice_as_long(subject: IncidentMachine) -> None:
    began = 1.0
    for doubled in (1, 2, 4):
        assert look(subject, began + doubled * AVOIDED_FOR - 0.1) is None
        assert look(subject, began + doubled * AVOIDED_FOR) == "node-2"
        subject.cases.pop("t0")  # the plan was applied, and that was all
        began += doubled * AVOIDED_FOR + 90.0
        stopped(subject, began)


def test_an_operator_who_asks_to_recover_now_has_it_tried_at_once(subject: IncidentMachine) -> None:
    asked = RecoveryAsked(at=9.0, topology="t0", actor="kim", reason="the disk has room again")
    assert planned(subject.handle_stimulus(asked)) == "node-2"


def test_a_node_that_joins_anew_is_used_at_once(subject: IncidentMachine) -> None:
    assert planned(arrive(subject, "node-2", at=9.0)) == "node-2"


def test_the_story_says_until_when() -> None:
    told = [one.text for one in only(stopped(machine(nodes=2, costs=12.0), 1.0), Tell)]
    assert any(text.startswith("No plan uses node-2 for 5 min 0 s, unless") for text in told), told
