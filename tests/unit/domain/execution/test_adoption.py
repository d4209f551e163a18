"""When the driver goes over to a plan for which all of its nodes can work."""

from __future__ import annotations

import pytest

from domain.execution.adoption import CONVENIENCE, PlanAdoption
from domain.execution.instructions import TurnBegun
from domain.messages import Plan

PINNING = 0.3
BEGUN = 100.0


def plan(generation: int) -> Plan:
    return Plan(generation=generation, kind="move", assignment={"A[0]": "n1"})


def adopts(subject: PlanAdoption, *, left: float, at: float = BEGUN, hurried: bool = True) -> bool:
    """left: seconds until the next epoch is due; negative if it was due before."""
    news = TurnBegun(at=at, plan=plan(2), ready={"n1"}, pin_seconds=PINNING)
    found = subject.due(news, plan(1), absent=(), hurried=hurried, next_due=at + left)
    return found is not None


@pytest.mark.parametrize(
    ("left", "adopted"),
    [
        pytest.param(0.4, True, id="tasks are pinned before the next epoch"),
        pytest.param(0.2, False, id="the next epoch would wait for that"),
        pytest.param(-0.2, False, id="the next epoch is about to begin"),
        pytest.param(-0.4, True, id="the next epoch is late"),
    ],
)
def test_a_plan_waits_for_a_moment_at_which_it_delays_no_query(left: float, adopted: bool) -> None:
    assert adopts(PlanAdoption(BEGUN), left=left) == adopted


def test_it_does_not_wait_where_no_query_gives_output_in_time() -> None:
    assert adopts(PlanAdoption(BEGUN), left=0.2, hurried=False)


def test_it_does_not_wait_for_long() -> None:
    subject = PlanAdoption(BEGUN)
    assert not adopts(subject, left=0.2)
    assert not adopts(subject, left=0.2, at=BEGUN + CONVENIENCE - 0.1)
    assert adopts(subject, left=0.2, at=BEGUN + CONVENIENCE + 0.1)
