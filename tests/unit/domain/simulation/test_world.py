"""Simulated recoveries: deterministic, within bounds, and consistent with themselves."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from domain.planning import UniformDelay
from domain.recovery.reserve import PATIENCE
from domain.simulation.comparison import (
    ALGORITHMS,
    Comparison,
    TookTooLongError,
    common_horizon,
    compare,
    scenario_for,
)
from domain.simulation.outcome import Outcome, availability_curve, curve_data, thinned
from domain.simulation.scenario import Failure
from domain.simulation.world import simulate
from tests.unit.domain.simulation.scenarios import drawn_scenario

INCREMENTAL = [name for name in ALGORITHMS if name not in ("blocking", "dynamic_programming", "optimal")]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_seed_decides_everything(algorithm: str) -> None:
    scenario = scenario_for(drawn_scenario(3), algorithm)
    first, again = simulate(scenario), simulate(scenario)
    assert first.ended
    assert strip(first) == strip(again)
    other = simulate(replace(scenario, seed=4))
    assert [node.at for node in other.arrivals] != [node.at for node in first.arrivals]


def strip(outcome: Outcome) -> Outcome:
    """The outcome without the real time of planning."""
    return replace(
        outcome,
        planning_seconds=0.0,
        waves=tuple(replace(wave, planning_seconds=0.0) for wave in outcome.waves),
    )


def check(outcome: Outcome) -> None:
    """Rules for every outcome."""
    moments = [wave.decided_at for wave in outcome.waves]
    assert moments == sorted(moments), "waves in the order of time"
    assert [wave.number for wave in outcome.waves] == list(range(1, len(moments) + 1))
    for wave in outcome.waves:
        assert wave.highest <= 1.0 + 1e-6, f"a node is planned above its bound: {wave}"
        assert wave.cost <= wave.capacity + 1e-3, f"a plan costs more than there is: {wave}"
        assert wave.restored_at is None or wave.restored_at > wave.decided_at
    for query in outcome.queries:
        begins = [begin for begin, _ in query.gaps]
        ends = [end for _, end in query.gaps]
        assert all(begin < end for begin, end in query.gaps)
        assert all(end <= begin for end, begin in zip(ends, begins[1:], strict=False)), "gaps do not overlap"
        if query.failed:
            assert query.gaps, f"{query.name} failed and was never unavailable"
            if query.available_at is not None:
                assert query.restored_at is not None, "available without being whole"
                assert query.available_at > query.restored_at
    assert all(0 <= one.available <= one.total for one in outcome.curve)
    for horizon in (60.0, 300.0, 900.0):
        # The area under the curve and the sum of the gaps are two ways to compute the same value.
        total = sum(query.priority for query in outcome.queries)
        lost = outcome.lost(horizon) + outcome.lost(horizon, failed=False)
        assert outcome.area(horizon) == pytest.approx(1 - lost / (total * horizon), abs=1e-9)
    if outcome.ended:
        assert outcome.curve[-1].available == len(outcome.queries)
        found = outcome.milestones
        if outcome.failed:
            assert found.first is not None
            assert found.half is not None
            assert found.all is not None
            assert 0 < found.first <= found.half <= found.all


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 50),
    algorithm=st.sampled_from(["blocking", *INCREMENTAL]),
    topologies=st.integers(1, 3),
    dead=st.one_of(st.integers(1, 6), st.tuples(st.integers(1, 3), st.integers(1, 3))),
    load=st.floats(0.2, 0.7),
    rollback=st.sampled_from(["ancestors", "global"]),
    arrivals=st.one_of(
        st.just(UniformDelay(120.0, 360.0)),
        st.lists(st.floats(0.0, 400.0), min_size=6, max_size=9).map(tuple),
    ),
    speed=st.floats(1.5, 20.0),
)
@example(  # its nodes are planned fuller than usual, so that epochs are shorter
    seed=0, algorithm="adaptive_density", topologies=1, dead=2, load=0.5, rollback="ancestors",
    arrivals=UniformDelay(120.0, 360.0), speed=2.0,
)  # fmt: skip
def test_any_recovery(
    seed: int,
    algorithm: str,
    topologies: int,
    dead: int | tuple[int, int],
    load: float,
    rollback: str,
    arrivals: Any,
    speed: float,
) -> None:
    scenario = drawn_scenario(
        seed,
        dead=dead,
        topologies=topologies,
        load=load,
        arrivals=arrivals,
        replay_speed=speed,
        rollback=rollback,
    )
    outcome = simulate(scenario_for(scenario, algorithm))
    check(outcome)
    assert outcome.ended, "as many nodes came as were lost"


def test_blocking_restores_everything_at_once() -> None:
    scenario = scenario_for(drawn_scenario(1), "blocking")
    outcome = simulate(scenario)
    check(outcome)
    assert len(outcome.waves) == 1
    found = outcome.milestones
    assert found.first == found.half == found.all
    assert found.first is not None
    assert found.first > max(node.at for node in outcome.arrivals)
    assert {query.restored_at for query in outcome.failed} == {outcome.waves[0].restored_at}


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 200), dead=st.integers(2, 6), load=st.floats(0.2, 0.6))
def test_incremental_is_never_later_than_blocking(seed: int, dead: int, load: float) -> None:
    """With the same nodes at the same moments the first query is back no later, and availability over time
    is no less."""
    comparison = compare(drawn_scenario(seed, dead=dead, load=load), ["best_density", "blocking"])
    ours, theirs = (comparison.outcomes[name] for name in ("best_density", "blocking"))
    assume(ours.failed)
    # The recovery that ends earlier sees fewer arrivals.
    for one, other in zip(ours.arrivals, theirs.arrivals, strict=False):
        assert one == other
    assert ours.milestones.first is not None
    assert theirs.milestones.first is not None
    assert ours.milestones.first <= theirs.milestones.first + 1e-6
    assert comparison.area("best_density") >= comparison.area("blocking") - 1e-9


def test_many_topologies_share_the_nodes() -> None:
    scenario = drawn_scenario(2, topologies=4, nodes=8, dead=6)
    outcome = simulate(scenario)
    check(outcome)
    assert outcome.ended
    assert {query.name.partition("/")[0] for query in outcome.failed} == {"t0", "t1", "t2", "t3"}
    restored = [{query.partition("/")[0] for query in wave.queries} for wave in outcome.waves]
    assert any(len(topologies) > 1 for topologies in restored), "planned jointly"


def test_a_rack_dies_with_all_its_nodes() -> None:
    scenario = drawn_scenario(0, nodes=6)
    rack = replace(scenario, failures=(Failure(racks=("rack-1",)),))
    assert rack.victims(rack.failures[0]) == ["node-2", "node-5"]
    outcome = simulate(rack)
    check(outcome)
    on_rack = [
        query
        for query in outcome.queries
        if any(
            rack.topologies[0].assignment[partition] in ("node-2", "node-5")
            for partition in rack.topologies[0].topology.query_partitions[query.name.partition("/")[2]]
        )
    ]
    assert outcome.failed == on_rack


def test_failures_during_the_recovery_hit_replacements_too() -> None:
    scenario = drawn_scenario(5, dead=4)
    again = Failure(at=250.0, nodes=("replacement-1",))
    twice = replace(scenario, failures=(*scenario.failures, again), arrivals=UniformDelay(120.0, 200.0))
    outcome = simulate(twice)
    check(outcome)
    assert outcome.ended
    assert outcome.incidents == 1
    hit = [query for query in outcome.failed if any(begin == 250.0 for begin, _ in query.gaps)]
    assert hit, "queries that were back were lost once more"


def test_too_few_nodes_leave_queries_down_and_the_simulation_ends() -> None:
    scenario = drawn_scenario(0, nodes=6, dead=5, load=0.6, arrivals=(30.0, 60.0))
    for algorithm in ("best_density", "blocking"):
        outcome = simulate(scenario_for(scenario, algorithm))
        check(outcome)
        assert not outcome.ended
        assert outcome.milestones.all is None
        assert outcome.curve[-1].available < len(outcome.queries)
    assert simulate(scenario).milestones.first is not None, "what fits is recovered"


def test_what_waits_for_room_that_a_replay_keeps_returns_in_time() -> None:
    """Nothing else happens until a wave that does not catch up keeps no room from the others any more."""
    scenario = drawn_scenario(
        18, nodes=3, dead=(1, 1), load=0.7, replay_reserve=2.0, arrivals=(30.0,), limit=900.0
    )
    outcome = simulate(scenario)
    check(outcome)
    before, last = outcome.waves[-2:]
    assert before.restored_at is not None
    assert last.decided_at > before.restored_at + PATIENCE
    assert outcome.curve[-1].available == 4


def test_more_nodes_than_asked_for_are_used() -> None:
    few = simulate(drawn_scenario(0, dead=4, arrivals=(100.0, 200.0, 300.0, 400.0)))
    more = simulate(drawn_scenario(0, dead=4, arrivals=(100.0, 101.0, 200.0, 201.0, 300.0, 400.0)))
    assert more.area(500.0) > few.area(500.0)


def test_global_rollback_disturbs_queries_that_lost_nothing() -> None:
    found = 0
    for seed in range(6):
        scenario = drawn_scenario(seed, nodes=8, dead=2, topologies=1)
        gentle, rough = (simulate(replace(scenario, rollback=policy)) for policy in ("ancestors", "global"))
        check(gentle)
        check(rough)
        assert gentle.lost(600.0, failed=False) == 0.0
        assert all(point.others == pytest.approx(1.0) for point in gentle.latency)
        found += rough.lost(600.0, failed=False) > 0.0
    assert found, "in no scenario was a query untouched by the failure"


def test_a_failure_of_nothing_changes_nothing() -> None:
    scenario = drawn_scenario(0)
    spare = replace(
        scenario,
        nodes=(*scenario.nodes, replace(scenario.nodes[0], name="spare")),
        failures=(Failure(nodes=("spare",)),),
    )
    outcome = simulate(spare)
    assert outcome.failed == []
    assert outcome.area(100.0) == 1.0
    assert outcome.milestones.first is None


def test_the_reference_is_what_others_are_measured_by() -> None:
    shares = []
    for seed in range(4):
        comparison: Comparison = compare(
            drawn_scenario(seed), ["best_density", "operator_centric", "blocking"]
        )
        assert comparison.reference is not None
        best = comparison.reference.area(comparison.horizon)
        for name in comparison.outcomes:
            if comparison.reference.proven:
                assert comparison.area(name) <= best * (1 + 1e-6), name
        assert comparison.reference.milestones.all is not None
        shares.append(comparison.area("best_density") / best)
    assert min(shares) > 0.6
    several = drawn_scenario(0, dead=(2, 2))
    assert compare(several, ["best_density"]).reference is None


def test_a_comparison_can_run_out_of_time() -> None:
    ticks = iter(range(1000))
    with pytest.raises(TookTooLongError, match="best_density did not end within the 5 s"):
        compare(drawn_scenario(0), ["best_density"], seconds=5.0, clock=lambda: float(next(ticks)))


def test_curves_are_thinned_to_their_ends() -> None:
    outcome = simulate(drawn_scenario(0))
    assert outcome.curve == availability_curve(outcome.queries, outcome.started_at)
    short = thinned(outcome.curve, 3)
    assert (len(short), short[0], short[-1]) == (3, outcome.curve[0], outcome.curve[-1])
    data = list(curve_data(outcome.curve, outcome.started_at, 300))
    assert json.loads(json.dumps(data)) == data
    assert data[0]["at"] == 0.0
    with pytest.raises(ValueError, match="two points"):
        thinned(outcome.curve, 1)
    assert common_horizon(drawn_scenario(0), [outcome]) >= data[-1]["at"]


def test_relative_latency_rises_with_the_outage_and_falls_back() -> None:
    outcome = simulate(drawn_scenario(0, dead=6))
    values = [point.failed for point in outcome.latency]
    assert values[0] == pytest.approx(1.0)
    assert max(values) > 50
    by_moment = {point.at: point.failed for point in outcome.latency}
    # Before anything is restored everything waits: one second of lag more each second.
    assert by_moment[60.0] - by_moment[40.0] == pytest.approx(20.0)
