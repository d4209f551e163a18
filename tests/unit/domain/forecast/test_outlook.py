"""What is still to happen, in each stage."""

from __future__ import annotations

import pytest

from domain.forecast import Outlook, Pace, PlanView, QueryView, outlook_of
from domain.planning import Arrival

PACE = Pace(start=6.0, speed=3.0, settle=5.0, verify=10.0)
CHECKPOINT, NOW = 90.0, 100.0


def plan(generation: int = 2, **more: float) -> PlanView:
    return PlanView(topology="t", generation=generation, decided_at=NOW, checkpoint_at=CHECKPOINT, **more)


def query(name: str = "Q", of: int | None = 2, *, priority: int = 1, cost: float = 0.0) -> QueryView:
    return QueryView(
        topology="t", query=name, plan=of, checkpoint_at=CHECKPOINT, priority=priority, cost=cost
    )


def look(
    *queries: QueryView,
    plans: tuple[PlanView, ...] = (),
    at: float = NOW,
    arrivals: tuple[Arrival, ...] = (),
    together: bool = False,
    held: str = "",
) -> Outlook:
    return outlook_of(
        at=at, plans=plans, queries=queries, arrivals=arrivals, pace=PACE, together=together, held=held
    )


def seconds(outlook: Outlook) -> dict[str, float]:
    return {one.subject: one.seconds for one in outlook.queries}


def test_a_plan_that_is_not_applied() -> None:
    found = look(query(), plans=(plan(),))
    # 6 s of start, then 16 s of input at a net pace of 2.
    assert [(one.stage, one.seconds) for one in found.waves] == [("start", 14.0)]
    assert seconds(found) == {"t/Q": 19.0}
    assert found.incident is not None
    assert (found.incident.stage, found.incident.seconds) == ("start", 24.0)


def test_a_replay_is_as_long_as_the_driver_says() -> None:
    unknown = look(query(), plans=(plan(applied_at=104.0),), at=105.0)
    assert seconds(unknown) == {"t/Q": 7.0 - 1.0 + 5.0}
    told = look(query(), plans=(plan(applied_at=104.0, catch_up=40.0),), at=105.0)
    assert seconds(told) == {"t/Q": 45.0}
    assert told.waves[0].stage == "replay"


def test_a_query_settles_and_the_incident_is_verified() -> None:
    found = look(query(), plans=(plan(applied_at=104.0, caught_up_at=110.0),), at=112.0)
    assert [(one.stage, one.seconds) for one in found.queries] == [("settle", 3.0)]
    assert found.waves == ()
    assert found.incident is not None
    assert found.incident.seconds == 8.0


def test_what_takes_longer_than_expected_is_not_over_at_once() -> None:
    assert look(query(), plans=(plan(applied_at=104.0),), at=304.0).waves[0].seconds == pytest.approx(20.0)


def test_nodes_are_awaited_in_the_order_of_priority() -> None:
    arrivals = (Arrival(20.0, 10.0), Arrival(50.0, 10.0))
    first, second = query("A", None, priority=2, cost=10.0), query("B", None, priority=1, cost=10.0)
    found = look(second, first, arrivals=arrivals)
    waits = {"t/A": 20.0, "t/B": 50.0}
    assert seconds(found) == {name: wait + 6.0 + (wait + 16.0) / 2 + 5.0 for name, wait in waits.items()}
    assert found.incident is not None
    assert found.incident.stage == "nodes"
    both = seconds(look(first, second, arrivals=arrivals, together=True))
    assert set(both.values()) == {50.0 + 6.0 + 33.0 + 5.0}


def test_how_long_an_operator_takes_is_not_known() -> None:
    found = look(
        query("A"), query("B", None), plans=(plan(),), arrivals=(Arrival(9.0, 1.0),), held="approval"
    )
    assert (found.incident, found.held) == (None, "approval")
    assert set(seconds(found)) == {"t/A"}, "what a plan restores has an estimate"
    assert look(query("B", None)).held, "no node is on its way"
