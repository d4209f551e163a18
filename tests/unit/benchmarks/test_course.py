"""The course that the recovery benchmark reads from events, and the optimum that it compares it with."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest

from benchmarks.recovery.course import Course, course_of, percentile
from benchmarks.recovery.optimum import clairvoyant, counted_costs, planned_curve, reached_share
from benchmarks.recovery.scenario import Outcome, areas
from benchmarks.stack import Verdict
from domain.availability import area
from domain.topology import Topology, load_topology
from spark_jobs.operators.catalogue import catalogue

FAILED_AT = 1_000_000.0


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(FAILED_AT + seconds, UTC).isoformat()


def report(at: float, **queries: tuple[float, bool]) -> dict[str, Any]:
    """An event that says of each query: latency, available."""
    changes = [
        {
            "entity": "query",
            "key": f"t/{name}[0]",
            "fields": {"topology": "t", "partition": f"{name}[0]", "latency": latency, "available": up},
        }
        for name, (latency, up) in queries.items()
    ]
    return {"at": iso(at), "kind": "topology.metrics", "node": "", "changes": changes}


def as_sent(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A change with all fields only if the availability of a query changed; otherwise with its measurements
    only."""
    known: dict[str, bool] = {}
    for change in (change for event in events for change in event["changes"]):
        fields, key = change["fields"], change["key"]
        if known.setdefault(key, True) == fields["available"]:
            change["fields"] = {"latency": fields["latency"]}
        known[key] = fields["available"]
    return events


def joined(at: float, node: str) -> dict[str, Any]:
    return {"at": iso(at), "kind": "node.joined", "node": node, "changes": []}


def plan(wave: int, at: float, restore: list[str]) -> dict[str, Any]:
    return {
        "topology": "t", "generation": wave + 1, "wave": wave, "method": "incremental", "rollback": False,
        "created_at": iso(at), "published_at": iso(at + 0.1), "applied_at": iso(at + 3), "caught_up_at": None,
        "restore": restore, "explanation": {},
    }  # fmt: skip


@pytest.fixture
def course() -> Course:
    """A and B fail. B is noticed late and returns first, A changes several times; C never fails."""
    events = [
        report(-2, A=(1.0, True), B=(1.0, True), C=(1.0, True)),
        report(1, A=(2.0, True), B=(2.0, True), C=(1.1, True)),
        report(4, A=(5.0, False), B=(5.0, False), C=(1.2, True)),
        joined(5, "node-9"),
        report(10, A=(11.0, False), B=(1.0, True), C=(1.0, True)),
        report(20, A=(1.0, True), B=(1.0, True), C=(1.0, True)),
        report(21, A=(3.0, False), B=(1.0, True), C=(1.0, True)),
        report(22, A=(1.0, True), B=(1.0, True), C=(1.0, True)),
    ]
    return course_of(
        as_sent(events),
        [plan(2, 15, ["A[0]"]), plan(1, 5, ["B[0]"])],
        topology="t",
        failed_at=FAILED_AT,
        failed=["A[0]", "B[0]"],
        priorities={"A[0]": 3, "B[0]": 1, "C[0]": 5},
        baselines={"A[0]": 1.0, "B[0]": 1.0, "C[0]": 1.0},
    )


def test_a_failed_query_is_down_from_the_failure_until_it_is_seen_to_return(course: Course) -> None:
    assert course.returned == {"A[0]": pytest.approx(20), "B[0]": pytest.approx(10)}
    assert course.milestones.first == pytest.approx(10)
    assert course.milestones.all == pytest.approx(20)
    assert [course.up("A[0]", at) for at in (-1, 0.5, 3, 19, 20.5, 21.5, 23)] == [
        True, False, False, False, True, False, True,
    ]  # fmt: skip
    assert course.untouched == ("C[0]",)
    assert course.up("C[0]", 5)


def test_the_curve_weighs_priorities(course: Course) -> None:
    # B (1 of 4) is up from 10 to 20, both until 21, B until 22, both until 24.
    expected = (10 * 0.25 + 1 + 0.25 + 2) / 24
    assert area(course.availability(), 0, 24) == pytest.approx(expected)


def test_an_event_that_tells_of_health_alone_observes_no_latency() -> None:
    health = report(2.0, A=(1.0, True))
    health["changes"][0]["fields"] = {"health": {"state": "recovering"}}
    found = course_of(
        [report(1.0, A=(1.0, True)), health], [], topology="t", failed_at=FAILED_AT, failed=["A[0]"],
        priorities={"A[0]": 1}, baselines={"A[0]": 1.0},
    )  # fmt: skip
    assert [one.at for one in found.observations["A[0]"]] == [pytest.approx(1.0)]


def test_relative_latency_is_a_mean_over_queries(course: Course) -> None:
    assert course.relative(course.failed, 11) == pytest.approx((11 + 1) / 2)
    assert course.relative(course.untouched, 4.5) == pytest.approx(1.2)
    assert course.relative(course.failed, -5) is None
    assert sorted(course.latencies(course.untouched, 0, 10.5)) == pytest.approx([1.0, 1.1, 1.2])


def test_waves_and_arrivals_are_in_order(course: Course) -> None:
    assert [(wave.wave, round(wave.created)) for wave in course.waves] == [(1, 5), (2, 15)]
    assert [(round(at), node) for at, node in course.arrivals] == [(5, "node-9")]


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)])
def test_percentiles_are_values_that_occurred(share: float, expected: int) -> None:
    assert percentile([float(value) for value in range(100, 0, -1)], share) == expected
    assert percentile([], share) is None


# ---- the optimum


@pytest.fixture
def topology() -> Topology:
    """S feeds A and B; A has the higher priority."""
    operators: list[dict[str, Any]] = [
        {"name": "S", "kind": "source", "params": {"reader": "file"}},
        *(
            {
                "name": name, "kind": "flat_map_regex", "output": True, "priority": priority,
                "inputs": [{"from": "S"}], "params": {"pattern": "a", "field": "text"},
            }
            for name, priority in (("A", 3), ("B", 1))
        ),
    ]  # fmt: skip
    return load_topology({"name": "t", "operators": operators}, catalogue)


HOMES = {"S[0]": "n1", "A[0]": "n2", "B[0]": "n3"}


def test_costs_are_scaled_down_to_the_bound_of_their_node(topology: Topology) -> None:
    costs = counted_costs(
        topology,
        homes=HOMES,
        measured={"S[0]": 1.0, "A[0]": 4.0, "B[0]": 0.5},
        capacities=dict.fromkeys(("n1", "n2", "n3"), 100.0),
        max_utilisation=0.02,
    )
    assert costs == pytest.approx({"S[0]": 1.0, "A[0]": 2.0, "B[0]": 0.5})


def test_the_clairvoyant_puts_the_best_query_on_the_first_node(topology: Topology) -> None:
    schedule = clairvoyant(
        topology,
        failed=["A[0]", "B[0]"],
        homes=HOMES,
        costs={"S[0]": 1.0, "A[0]": 1.0, "B[0]": 1.0},
        survivors={"n1": 100.0},
        arrivals=[(10.0, 100.0), (30.0, 100.0)],
        priorities={"A[0]": 3, "B[0]": 1},
        max_utilisation=0.01,
        horizon=50.0,
    )
    assert schedule.proven
    assert schedule.share == pytest.approx((40 * 3 + 20 * 1) / (50 * 4))


def test_a_measured_course_is_a_share_of_the_optimum(course: Course, topology: Topology) -> None:
    planned = planned_curve(
        topology, failed=["A[0]", "B[0]"], waves=course.waves, priorities=course.priorities
    )
    # B from 5 on, A from 15 on.
    replaced = dataclasses.replace(course.waves[0], created=1.0, applied=None, restored=("A[0]", "B[0]"))
    waves = [replaced, *course.waves]
    assert planned == planned_curve(
        topology, failed=["A[0]", "B[0]"], waves=waves, priorities=course.priorities
    )
    assert area(planned, 0, 25) == pytest.approx((20 * 1 + 10 * 3) / (25 * 4))
    schedule = clairvoyant(
        topology,
        failed=["A[0]", "B[0]"],
        homes=HOMES,
        costs={"S[0]": 1.0, "A[0]": 1.0, "B[0]": 1.0},
        survivors={"n1": 100.0},
        arrivals=[(5.0, 100.0), (15.0, 100.0)],
        priorities=course.priorities,
        max_utilisation=0.01,
        horizon=25.0,
    )
    assert reached_share(planned, schedule) == pytest.approx(50 / (20 * 3 + 10 * 1))


def test_each_horizon_has_its_own_optimum(course: Course, topology: Topology) -> None:
    outcome = Outcome(
        label="incremental",
        victims=["n2", "n3"],
        failed_partitions=["A[0]", "B[0]"],
        homes=HOMES,
        measured={},
        capacities=dict.fromkeys(("n1", "n2", "n3"), 100.0),
        arrivals=[(5.0, 100.0), (15.0, 100.0)],
        course=course,
        detected=1.0,
        closed=None,
        verdict=Verdict(clean=True, queries=2, rows=1, faults={}),
        before=10.0,
        costs={"S[0]": 1.0, "A[0]": 1.0, "B[0]": 1.0},
    )
    found = areas(topology, outcome, {"first": 5.0, "last": 15.0, "end": 20.0})
    # B is back after 10, A after 20; the best is A from 5 on, and B from 15 on.
    assert found["first"]["share"] is None
    assert found["last"]["availability"] == pytest.approx(5 / (15 * 4), abs=1e-5)
    assert found["last"]["optimum"] == pytest.approx(10 * 3 / (15 * 4), abs=1e-5)
    assert found["end"]["availability"] == pytest.approx(10 / (20 * 4), abs=1e-5)
    assert found["end"]["optimum"] == pytest.approx((15 * 3 + 5 * 1) / (20 * 4), abs=1e-5)
    assert found["end"]["share"] == pytest.approx(10 / 50, abs=1e-4)
    assert all(one["optimum_proven"] for one in found.values())
