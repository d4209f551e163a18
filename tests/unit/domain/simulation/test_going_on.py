"""Tentative output in simulated recoveries: which queries give it, how long, and how good it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.recovery.policy import Rollback
from domain.recovery.tentative import TentativeOutput
from domain.simulation.scenario import Delays, Failure, Scenario, SimulatedNode, SimulatedTopology
from domain.simulation.world import simulate
from domain.topology import Topology
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec
from tests.unit.domain.simulation.scenarios import drawn_scenario
from tests.unit.domain.simulation.test_world import strip


def halves() -> Topology:
    """A window over two sources, and a query over that."""
    window = (InputSpec(source="S", partitioning="full"),)
    after = (InputSpec(source="W", partitioning="full"),)
    return Topology(
        TopologySpec(
            name="t",
            operators=(
                OperatorSpec(name="S", kind="source", parallelism=2),
                OperatorSpec(name="W", kind="k", inputs=window, output=True),
                OperatorSpec(name="V", kind="k", inputs=after, output=True),
            ),
        )
    )


def scenario(*, lost: str, rollback: Rollback = "ancestors", above: float = 0.0) -> Scenario:
    """Each partition is on a node of its own; the node of `lost` fails, and any other has room for it."""
    graph = halves()
    homes = {partition: f"n{i}" for i, partition in enumerate(graph.partitions)}
    one = SimulatedTopology(
        topology=graph,
        assignment=homes,
        costs=dict.fromkeys(graph.partitions, 30.0),
        tentative=TentativeOutput(graph, {"W": above, "V": above}, 0.5),
    )
    made = drawn_scenario(1)
    return replace(
        made,
        topologies=(one,),
        nodes=tuple(SimulatedNode(name=name) for name in homes.values()),
        failures=(Failure(at=made.first_failure, nodes=(homes[lost],)),),
        delays=Delays(),
        method="incremental",
        rollback=rollback,
    )


def test_queries_go_on_with_half_of_their_input_until_they_are_available() -> None:
    asked = scenario(lost="S[1]")
    outcome = simulate(asked)
    assert outcome.ended
    for query in outcome.queries:
        ((begin, end),) = query.gaps
        assert begin == asked.first_failure
        (span,) = query.tentative
        assert (span.begin, span.fidelity) == (begin, 0.5)
        # From the moment at which it has caught up its output is final.
        assert end - asked.policy.window <= span.end <= end
    assert [one.tentative for one in outcome.curve][:1] == [2]
    assert outcome.curve[-1].tentative == 0
    assert max(one.weighted + one.weighted_tentative for one in outcome.curve) == 1.0


@pytest.mark.parametrize(
    ("lost", "going_on"),
    [("W[0]", set()), ("V[0]", set())],  # nothing reaches V; W loses no input
)
def test_what_gets_nothing_gives_nothing(lost: str, going_on: set[str]) -> None:
    outcome = simulate(scenario(lost=lost))
    assert {query.name for query in outcome.queries if query.tentative} == going_on
    assert any(query.gaps for query in outcome.queries)


def test_what_goes_back_to_the_checkpoint_goes_on_no_longer() -> None:
    """With a global rollback everything that runs is put back by the first wave."""
    asked = scenario(lost="S[1]", rollback="global")
    outcome = simulate(asked)
    wave = outcome.waves[0]
    assert wave.restored_at is not None
    for query in outcome.queries:
        (span,) = query.tentative
        assert asked.first_failure == span.begin < span.end <= wave.restored_at
        assert span.end < query.gaps[0][1] - asked.policy.window


def test_what_is_too_little_is_not_given() -> None:
    assert not any(query.tentative for query in simulate(scenario(lost="S[1]", above=0.5)).queries)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10_000), worth=st.sampled_from([0.0, 0.5, 1.0]))
def test_tentative_output_is_given_where_queries_are_not_available(seed: int, worth: float) -> None:
    """And where it counts for nothing, everything else is as without it."""
    without = drawn_scenario(seed)
    queries = [{one.partition("[")[0]: 0.0 for one in t.topology.queries} for t in without.topologies]
    asked = replace(
        without,
        topologies=tuple(
            replace(one, tentative=TentativeOutput(one.topology, above, worth))
            for one, above in zip(without.topologies, queries, strict=True)
        ),
    )
    outcome = simulate(asked)
    for query in outcome.queries:
        for span in query.tentative:
            assert 0.0 < span.fidelity < 1.0
            assert any(begin <= span.begin < span.end <= end for begin, end in query.gaps)
    for point in outcome.curve:
        assert 0 <= point.tentative <= point.total - point.available
        assert -1e-9 <= point.weighted_tentative <= 1.0 - point.weighted + 1e-9
    if worth == 0.0:
        plain = strip(simulate(without))
        silent = tuple(replace(query, tentative=()) for query in outcome.queries)
        assert silent == plain.queries
