"""Partitions that stay absent on living nodes, and what a driver's report proves about nodes."""

from __future__ import annotations

from typing import Any

import msgspec

from domain.messages import DriverStatus, Plan
from domain.recovery.absence import AbsenceClock, nodes_seen

PLAN = Plan(generation=2, kind="deploy", assignment={"A[0]": "n1", "A[1]": "n1", "B[0]": "n2"})


def status(*absent: str, state: Any = "degraded", generation: int = 2) -> DriverStatus:
    return DriverStatus(
        topology="t", pid=1, session="s", generation=generation, state=state, head=1, committed=1,
        checkpoint=0, absent=list(absent), at=0.0,
    )  # fmt: skip


def test_a_node_is_unreachable_when_all_its_partitions_are() -> None:
    assert nodes_seen(status("A[0]", "A[1]"), PLAN) == (frozenset({"n1"}), frozenset({"n2"}))
    assert nodes_seen(status("A[0]"), PLAN) == (frozenset(), frozenset({"n1", "n2"}))


def test_a_driver_that_starts_or_has_another_plan_says_nothing() -> None:
    nothing: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
    assert nodes_seen(status("A[0]", "A[1]", state="restoring"), PLAN) == nothing
    assert nodes_seen(status("A[0]", "A[1]", generation=1), PLAN) == nothing
    assert nodes_seen(None, PLAN) == nothing
    assert nodes_seen(status(), None) == nothing


def overdue(clock: AbsenceClock, at: float, driver: DriverStatus | None, alive: set[str]) -> set[str]:
    return set(clock.overdue(at=at, topology="t", driver=driver, plan=PLAN, alive=alive))


def test_absence_on_living_nodes_becomes_overdue() -> None:
    clock = AbsenceClock(limit=10.0)
    alive = {"n1", "n2"}
    assert overdue(clock, 0.0, status("A[0]"), alive) == set()
    assert overdue(clock, 9.0, status("A[0]", "B[0]"), alive) == set()
    assert overdue(clock, 10.0, status("A[0]", "B[0]"), alive) == {"A[0]"}
    clock.forget("t")
    assert overdue(clock, 11.0, status("A[0]", "B[0]"), alive) == set()


def test_a_node_that_has_not_worked_yet_has_longer() -> None:
    """Its first executor is being started."""
    clock = AbsenceClock(limit=10.0, starting=30.0)
    alive = {"n1", "n2"}
    for at in (0.0, 12.0, 29.0):
        assert overdue(clock, at, status("A[0]", "B[0]"), alive) == ({"A[0]"} if at > 10.0 else set())
    assert overdue(clock, 30.0, status("A[0]", "B[0]"), alive) == {"A[0]", "B[0]"}
    assert overdue(clock, 31.0, status(), alive) == set()
    assert overdue(clock, 32.0, status("B[0]"), alive) == set()
    assert overdue(clock, 42.0, status("B[0]"), alive) == {"B[0]"}, "it has worked"
    assert overdue(clock, 43.0, status("B[0]"), {"n1"}) == set()
    assert overdue(clock, 44.0, status("B[0]"), alive) == set()
    assert overdue(clock, 60.0, status("B[0]"), alive) == set(), "it has joined anew"


def test_absence_ends_with_the_node_the_plan_or_the_partition_coming_back() -> None:
    for change in (status(), status("A[0]", generation=3), status("A[0]", state="starting"), None):
        clock = AbsenceClock(limit=10.0)
        overdue(clock, 0.0, status("A[0]"), {"n1"})
        overdue(clock, 5.0, change, {"n1"})
        assert overdue(clock, 12.0, status("A[0]"), {"n1"}) == set()
    clock = AbsenceClock(limit=10.0)
    overdue(clock, 0.0, status("A[0]"), {"n1"})
    assert overdue(clock, 12.0, status("A[0]"), set()) == set(), "a lost node is another matter"


def test_where_a_replica_acts_counts_and_where_its_partition_was_proves_nothing() -> None:
    acting = msgspec.structs.replace(status(), acting={"A[0]": "n3", "A[1]": "n3"})
    assert nodes_seen(acting, PLAN) == (frozenset(), frozenset({"n2", "n3"}))
    clock = AbsenceClock(limit=10.0)
    gone = msgspec.structs.replace(acting, absent=["A[0]"])
    for at in (0.0, 11.0):
        found = clock.overdue(at=at, topology="t", driver=gone, plan=PLAN, alive={"n3"})
    assert set(found) == {"A[0]"}
