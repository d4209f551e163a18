"""What is reported of a recovery with scarce CPU."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.horizons import ARRIVAL, BLOCKING, RECOVERY, SLOWEST, horizons_of
from benchmarks.outcome import Outcome, described, for_good, longest_gap, on_time, on_time_curve
from benchmarks.recovery.course import Course, Observation
from benchmarks.recovery.optimum import Failure
from benchmarks.stack import Verdict
from domain.topology import load_topology
from spark_jobs.operators.catalogue import catalogue

PEACE = [Observation(-float(n), 0.5, True) for n in range(5, 0, -1)]


def late(start: int, end: int, latency: float) -> list[Observation]:
    return [Observation(float(n), latency, False) for n in range(start, end)]


def back(start: int, end: int) -> list[Observation]:
    return [Observation(float(n), 0.5, True) for n in range(start, end)]


def course(**observations: list[Observation]) -> Course:
    queries = tuple(f"{name}[0]" for name in observations)
    return Course(
        failed=queries,
        priorities={query: number for number, query in enumerate(queries, start=1)},
        baselines=dict.fromkeys(queries, 0.5),
        observations={f"{name}[0]": [*PEACE, *seen] for name, seen in observations.items()},
        arrivals=[(20.0, "node-6")],
        waves=[],
    )


def test_a_gap_reaches_from_one_new_tuple_to_the_next() -> None:
    waiting = [Observation(float(n), n + 0.5, False) for n in range(1, 10)]
    assert longest_gap([*PEACE, *waiting, *back(12, 20)]) == pytest.approx(10.0)


def test_replayed_tuples_do_not_end_a_gap() -> None:
    replayed = [Observation(5.0, 12.0, False), Observation(6.0, 9.0, False)]
    assert longest_gap([*PEACE, *replayed, *back(8, 12)]) == pytest.approx(9.0)


def test_a_gap_may_last_to_the_end() -> None:
    waiting = [Observation(float(n), n + 0.5, False) for n in range(1, 31)]
    assert longest_gap([*PEACE, *waiting]) == pytest.approx(30.0, abs=1.0)
    assert longest_gap([]) == 0.0


def test_on_time_is_an_age_and_has_to_hold() -> None:
    seen = course(O0=[*late(1, 10, 9.0), *back(10, 12), *late(12, 14, 4.0), *back(14, 30)], O1=back(1, 30))
    assert on_time(seen).first == 0.0
    assert on_time(seen).all == 14.0


def test_the_curve_of_what_is_on_time_is_weighted_by_priority() -> None:
    seen = course(O0=[*late(1, 5, 9.0), *back(5, 9)], O1=back(1, 9))
    weights = {one.at: one.weighted for one in on_time_curve(seen)}
    assert weights[1.0] == pytest.approx(2 / 3)
    assert weights[5.0] == 1.0


def test_a_second_outage_delays_what_is_for_good() -> None:
    seen = course(O0=[*late(1, 10, 9.0), *back(10, 20), *late(20, 25, 4.0), *back(25, 30)], O1=back(1, 30))
    assert on_time(seen).all == 10.0
    assert for_good(on_time_curve(seen)) == 25.0
    assert for_good(on_time_curve(course(O0=late(1, 10, 9.0)))) is None


def test_an_outcome_as_plain_data() -> None:
    outcome = Outcome(
        killed=["node-1"],
        arrived=[20.0],
        busy=0.5,
        throttled=0.9,
        course=course(O0=[*late(1, 10, 9.0), *back(10, 41)], O1=[*late(1, 30, 9.0), *back(30, 41)]),
        verdict=Verdict(clean=True, queries=2, rows=7, faults={}),
        moved=0,
        unfinished=0,
        checkpoints=(9, 12),
        quotas=(20.0,),
    )
    horizons = horizons_of(recovered=30.0, arrivals=outcome.arrived, blocking=None, slowest=40.0)
    row = described(outcome, 40.0, horizons)
    assert (row["first"], row["half"], row["all"]) == (10.0, 10.0, 30.0)
    assert row["availability"] == pytest.approx((20 / 3 + 10) / 40, abs=1e-4)
    assert {name: found["seconds"] for name, found in row["areas"].items()} == {
        RECOVERY: 30.0, ARRIVAL: 20.0, SLOWEST: 40.0,
    }  # fmt: skip
    assert row["areas"][RECOVERY]["availability"] == pytest.approx((20 / 3) / 30, abs=1e-4)
    assert row["areas"][ARRIVAL]["availability"] == pytest.approx((10 / 3) / 20, abs=1e-4)
    assert row["areas"][SLOWEST]["availability"] == row["availability"]
    assert row["areas"][SLOWEST]["on_time"] == row["on_time"]["availability"]
    assert (row["baseline"], row["verified_rows"], row["checkpoints"]) == (0.5, 7, (9, 12))
    assert row["on_time"]["all"] == 30.0
    assert outcome.horizon(600.0) == 30.0


def test_beside_an_area_is_that_of_the_best_schedule() -> None:
    """Two nodes are lost with a query each. A node has room for one of them; O1 is worth twice as much."""
    operators: list[dict[str, Any]] = [
        {"name": "S", "kind": "source", "params": {"reader": "file"}},
        *(
            {
                "name": name, "kind": "flat_map_regex", "output": True, "priority": priority,
                "inputs": [{"from": "S"}], "params": {"pattern": "a", "field": "text"},
            }
            for name, priority in (("O0", 1), ("O1", 2))
        ),
    ]  # fmt: skip
    outcome = Outcome(
        killed=["n2", "n3"], arrived=[10.0, 25.0], busy=0.5, throttled=0.9,
        course=course(O0=[*late(1, 15, 9.0), *back(15, 41)], O1=[*late(1, 35, 9.0), *back(35, 41)]),
        verdict=Verdict(clean=True, queries=2, rows=7, faults={}), moved=0, unfinished=0,
        failure=Failure(
            topology=load_topology({"name": "t", "operators": operators}, catalogue),
            homes={"S[0]": "n1", "O0[0]": "n2", "O1[0]": "n3"},
            measured={"S[0]": 10.0, "O0[0]": 10.0, "O1[0]": 10.0},
            survivors={"n1": 20.0}, victims={"n2": 20.0, "n3": 20.0}, share=4.0,
            priorities={"O0[0]": 1, "O1[0]": 2}, max_utilisation=0.8,
        ),
    )  # fmt: skip
    row = described(outcome, 40.0, {"before": 5.0, "between": 20.0, "end": 40.0})
    areas = row["areas"]
    assert row["partitions_percent"] == 30.0
    assert (areas["before"]["optimum"], areas["before"]["share"]) == (0.0, None)
    # A node has room for 12 % of a core beside its own share: O1 from 10 on, O0 from 25 on.
    assert areas["between"]["optimum"] == pytest.approx(10 * 2 / (20 * 3), abs=1e-4)
    assert areas["end"]["optimum"] == pytest.approx((30 * 2 + 15 * 1) / (40 * 3), abs=1e-4)
    assert areas["end"]["share"] == pytest.approx((25 * 1 + 5 * 2) / (30 * 2 + 15 * 1), abs=1e-3)
    assert all(one["optimum_proven"] for one in areas.values())


def test_without_any_query_back_the_horizon_is_the_patience() -> None:
    outcome = Outcome(
        killed=[], arrived=[], busy=0.0, throttled=0.0, course=course(O0=late(1, 30, 9.0)),
        verdict=Verdict(clean=False, queries=0, rows=0, faults={}), moved=0, unfinished=1,
    )  # fmt: skip
    assert outcome.horizon(600.0) == 600.0
    horizons = horizons_of(recovered=600.0, arrivals=outcome.arrived, blocking=400.0, slowest=600.0)
    assert described(outcome, 600.0, horizons)["areas"].keys() == {RECOVERY, BLOCKING, SLOWEST}
