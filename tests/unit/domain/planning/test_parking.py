"""Which queries are parked where more comes in than is worked off, and which return."""

from __future__ import annotations

import random
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.planning import NodeSpace, partition_levels, queries_to_park, queries_to_return
from domain.planning.parking import PARK_TO, RETURN_TO
from domain.topology import Topology
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec

NODES = [NodeSpace(name=f"node-{i + 1}", capacity=100.0, load=3.0) for i in range(3)]


def fan(queries: int) -> Topology:
    """One source; one operator for each query, which is its output."""
    outputs = [
        OperatorSpec(name=f"Q{i}", kind="k", inputs=(InputSpec(source="S"),), output=True)
        for i in range(queries)
    ]
    return Topology(TopologySpec(name="t", operators=(OperatorSpec(name="S", kind="k"), *outputs)))


def placed(topology: Topology, seed: int = 0) -> dict[str, str]:
    dice = random.Random(seed)
    return {p: dice.choice(NODES).name for p in topology.partitions}


def time_of(
    topology: Topology, assignment: dict[str, str], costs: dict[str, float], parked: Collection[str]
) -> float:
    """Seconds of an epoch, as the sum of the busiest nodes of its levels."""
    stopped = topology.exclusive_partitions(parked)
    levels = partition_levels(topology)
    stages: dict[tuple[int, str], float] = {}
    for partition, node in assignment.items():
        if partition not in stopped:
            stage = levels[partition], node
            stages[stage] = stages.get(stage, 0.0) + costs[partition]
    return sum(max(v for (one, _), v in stages.items() if one == level) for level in {s for s, _ in stages})


def test_what_keeps_pace_is_left_alone() -> None:
    topology = fan(4)
    costs = dict.fromkeys(topology.partitions, 10.0)
    given = {"assignment": placed(topology), "nodes": NODES, "costs": costs, "priorities": {}}
    assert queries_to_park(topology, load=PARK_TO, **given) == []  # type: ignore[arg-type]


def test_the_least_valuable_stop_and_only_as_many_as_needed() -> None:
    topology = fan(4)
    costs = {p: 0.001 if p == "S[0]" else 10.0 for p in topology.partitions}
    found = queries_to_park(
        topology,
        assignment=dict.fromkeys(topology.partitions, "node-1"),
        nodes=NODES,
        costs=costs,
        priorities={"Q0[0]": 9, "Q1[0]": 2, "Q2[0]": 7, "Q3[0]": 3},
        load=1.6,
    )
    assert found == ["Q1[0]", "Q3[0]"]


def test_one_that_takes_little_goes_on() -> None:
    topology = fan(3)
    costs = {"S[0]": 0.001, "Q0[0]": 40.0, "Q1[0]": 40.0, "Q2[0]": 0.5}
    found = queries_to_park(
        topology,
        assignment=dict.fromkeys(topology.partitions, "node-1"),
        nodes=NODES,
        costs=costs,
        priorities={"Q0[0]": 5, "Q1[0]": 6, "Q2[0]": 1},
        load=1.5,
    )
    assert found == ["Q0[0]"]


def test_one_goes_on_however_much_comes_in() -> None:
    topology = fan(3)
    found = queries_to_park(
        topology,
        assignment=placed(topology),
        nodes=NODES,
        costs=dict.fromkeys(topology.partitions, 10.0),
        priorities={"Q0[0]": 1, "Q1[0]": 5, "Q2[0]": 1},
        load=100.0,
    )
    assert found == ["Q0[0]", "Q2[0]"]


def test_nothing_stops_where_every_partition_is_shared() -> None:
    middle = OperatorSpec(name="A", kind="k", inputs=(InputSpec(source="S"),), output=True)
    topology = Topology(TopologySpec(name="t", operators=(OperatorSpec(name="S", kind="k"), middle)))
    found = queries_to_park(
        topology,
        assignment=placed(topology),
        nodes=NODES,
        costs=dict.fromkeys(topology.partitions, 10.0),
        priorities={"A[0]": 1},
        load=3.0,
    )
    assert found == []


@given(st.integers(0, 10_000), st.floats(0.81, 5.0), st.integers(2, 12))
def test_what_is_left_fits_and_what_was_parked_was_needed(seed: int, load: float, queries: int) -> None:
    topology, dice = fan(queries), random.Random(seed)
    assignment = placed(topology, seed)
    costs = {p: dice.uniform(0.5, 40.0) for p in topology.partitions}
    priorities = {q: dice.randint(1, 10) for q in topology.queries}
    parked = queries_to_park(
        topology, assignment=assignment, nodes=NODES, costs=costs, priorities=priorities, load=load
    )
    assert len(parked) < queries
    whole = time_of(topology, assignment, costs, [])
    left = load * time_of(topology, assignment, costs, parked) / whole
    # A smooth norm stands in for the busiest node, so what is left can be a little more.
    assert left <= PARK_TO * 1.25 or len(parked) == queries - 1
    back = queries_to_return(
        topology,
        homes=assignment,
        nodes=NODES,
        costs=costs,
        priorities=priorities,
        load=left,
        parked=parked,
        candidates=parked,
    )
    assert set(back) <= set(parked)
    if back and set(back) != set(parked):
        after = time_of(topology, assignment, costs, set(parked) - set(back))
        assert load * after / whole <= RETURN_TO * 1.25


def test_all_return_where_there_is_time() -> None:
    topology = fan(5)
    found = queries_to_return(
        topology,
        homes=placed(topology),
        nodes=NODES,
        costs=dict.fromkeys(topology.partitions, 10.0),
        priorities={},
        load=0.1,
        parked=["Q1[0]", "Q2[0]", "Q3[0]"],
        candidates=["Q1[0]", "Q2[0]"],
    )
    assert found == ["Q1[0]", "Q2[0]"], "what an operator parked stays parked"


@pytest.mark.parametrize("load", [0.89, 0.59])
def test_the_most_valuable_return_first(load: float) -> None:
    topology = fan(4)
    costs = {p: 0.001 if p == "S[0]" else 10.0 for p in topology.partitions}
    found = queries_to_return(
        topology,
        homes=dict.fromkeys(topology.partitions, "node-1"),
        nodes=NODES,
        costs=costs,
        priorities={"Q0[0]": 9, "Q1[0]": 2, "Q2[0]": 7, "Q3[0]": 3},
        load=load,
        parked=["Q1[0]", "Q3[0]"],
        candidates=["Q1[0]", "Q3[0]"],
    )
    assert found == (["Q3[0]"] if load == 0.59 else [])
