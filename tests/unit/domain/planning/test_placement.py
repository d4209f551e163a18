"""Placement: most free capacity first, never above the bound, units together, deterministic."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.planning import (
    NodeSpace,
    chains,
    entitled_costs,
    initial_placement,
    natural_key,
    place,
    replacement_placement,
)
from domain.topology import InputSpec, OperatorSpec, Topology, TopologySpec


def nodes(count: int, capacity: float = 100.0) -> list[NodeSpace]:
    return [NodeSpace(name=f"node-{i}", capacity=capacity) for i in range(1, count + 1)]


def fifteen_queries(parallelism: int = 4) -> Topology:
    """The topology of the papers' recovery experiments: a parser, four windows, and eleven operators that
    read them."""
    operators = [
        OperatorSpec(name="Source", kind="source", parallelism=parallelism),
        OperatorSpec(
            name="Parser",
            kind="parse",
            parallelism=parallelism,
            inputs=(InputSpec(source="Source", partitioning="one_to_one"),),
        ),
    ]
    operators += [
        OperatorSpec(name=f"O{i}", kind="window", inputs=(InputSpec(source="Parser"),), output=True)
        for i in range(4)
    ]
    operators += [
        OperatorSpec(name=f"O{i}", kind="latest", inputs=(InputSpec(source=f"O{i % 4}"),), output=True)
        for i in range(4, 15)
    ]
    return Topology(TopologySpec(name="fifteen", operators=tuple(operators)))


def test_most_free_node_first_and_ties_by_name() -> None:
    offered = [
        NodeSpace(name="node-10"),
        NodeSpace(name="node-2"),
        NodeSpace(name="node-1", load=10.0),
    ]
    placement = place(partitions=["A[0]", "A[1]"], nodes=offered, costs={"A[0]": 5.0, "A[1]": 4.0})
    assert placement.assignment == {"A[0]": "node-2", "A[1]": "node-10"}
    assert placement.load == {"node-1": 10.0, "node-2": 5.0, "node-10": 4.0}


def test_nothing_is_planned_above_the_bound() -> None:
    placement = place(
        partitions=["A[0]", "A[1]", "A[2]"], nodes=nodes(2), costs={"A[0]": 50.0, "A[1]": 40.0, "A[2]": 45.0}
    )
    assert placement.unplaced == ("A[1]",)
    assert max(placement.load.values()) <= 80.0


def test_standby_nodes_get_no_primaries() -> None:
    offered = [NodeSpace(name="a", standby=True), NodeSpace(name="b")]
    placement = place(partitions=["A[0]", "A[1]"], nodes=offered, costs={})
    assert set(placement.assignment.values()) == {"b"}


def test_initial_placement_spreads_every_level() -> None:
    topology = fifteen_queries()
    placement = initial_placement(topology, nodes(4))
    where = placement.assignment
    assert len(where) == len(topology.partitions)
    assert all(where[f"Source[{i}]"] == where[f"Parser[{i}]"] for i in range(4))
    assert len({where[f"Source[{i}]"] for i in range(4)}) == 4
    assert len({where[f"O{i}[0]"] for i in range(4)}) == 4
    leaves = Counter(where[f"O{i}[0]"] for i in range(4, 15))
    assert sorted(leaves.values()) == [2, 3, 3, 3]


VIEWS = ("0", "1", "2", "3", "01", "12", "23", "03", "012", "123", "0123")
"""Which of four windows each view shows."""


def views() -> Topology:
    source = OperatorSpec(name="S", kind="source")
    windows = [OperatorSpec(name=f"W{i}", kind="w", inputs=(InputSpec(source="S"),)) for i in range(4)]
    shown = [
        OperatorSpec(name=f"V{i}", kind="v", inputs=tuple(InputSpec(source=f"W{w}") for w in of), output=True)
        for i, of in enumerate(VIEWS)
    ]
    return Topology(TopologySpec(name="views", operators=(source, *windows, *shown)))


@pytest.mark.parametrize("count", [2, 4, 5])
def test_views_of_more_windows_are_assumed_to_need_more(count: int) -> None:
    where = initial_placement(views(), nodes(count)).assignment
    inputs: Counter[str] = Counter()
    for i, of in enumerate(VIEWS):
        inputs[where[f"V{i}[0]"]] += len(of)
    assert max(inputs.values()) <= math.ceil(sum(inputs.values()) / count)


def test_measured_costs_come_before_what_is_assumed() -> None:
    topology = fifteen_queries()
    costs = {f"O{i}[0]": 1.0 + 10.0 * (i == 4) for i in range(4, 15)}
    where = initial_placement(topology, nodes(4), costs=costs).assignment
    assert sum(where[f"O{i}[0]"] == where["O4[0]"] for i in range(4, 15)) < 3


def test_only_linear_runs_are_chains() -> None:
    assert chains(fifteen_queries(2)) == [("Source[0]", "Parser[0]"), ("Source[1]", "Parser[1]")]


def test_uneven_levels_do_not_crowd_a_node() -> None:
    operators = (
        OperatorSpec(name="A", kind="source", parallelism=3),
        OperatorSpec(name="B", kind="window", parallelism=5, inputs=(InputSpec(source="A"),), output=True),
    )
    where = initial_placement(Topology(TopologySpec(name="uneven", operators=operators)), nodes(4)).assignment
    per_node = Counter(where[f"B[{i}]"] for i in range(5))
    assert sorted(per_node.values()) == [1, 1, 1, 2]


def test_a_unit_that_fits_nowhere_is_split() -> None:
    placement = place(
        partitions=["S[0]", "P[0]"],
        nodes=nodes(2),
        costs={"S[0]": 50.0, "P[0]": 50.0},
        affinity=[("S[0]", "P[0]")],
    )
    assert not placement.unplaced
    assert len(set(placement.assignment.values())) == 2


def test_replacement_keeps_the_healthy_where_they_are() -> None:
    topology = fifteen_queries()
    before = initial_placement(topology, nodes(4)).assignment
    costs = dict.fromkeys(topology.partitions, 2.0)
    lost = {"node-2", "node-3"}
    fresh = [NodeSpace(name="node-5"), NodeSpace(name="node-6")]
    after = replacement_placement(topology, before, lost, fresh, costs)
    assert not after.unplaced
    for name, node in before.items():
        assert after.assignment[name] == node or node in lost
    assert set(after.placed) == {name for name, node in before.items() if node in lost}
    assert abs(after.load["node-5"] - after.load["node-6"]) <= 4.0
    assert all(after.assignment[f"Source[{i}]"] == after.assignment[f"Parser[{i}]"] for i in range(4))


def test_replacement_counts_the_healthy_load_of_live_nodes() -> None:
    topology = fifteen_queries()
    before = initial_placement(topology, nodes(4)).assignment
    costs = dict.fromkeys(topology.partitions, 10.0)
    offered = [NodeSpace(name="node-1"), NodeSpace(name="node-5")]
    after = replacement_placement(topology, before, {"node-2"}, offered, costs, partitions=["O1[0]"])
    assert after.placed == {"O1[0]": "node-5"}
    with pytest.raises(ValueError, match=r"no partition O99\[0\]"):
        replacement_placement(topology, before, {"node-2"}, offered, costs, partitions=["O99[0]"])


def test_equal_replacements_always_hold_what_the_lost_nodes_held() -> None:
    """Spreading 40, 40, 30, 26, 24 largest first strands the last one; taking over does not."""
    operators = (OperatorSpec(name="A", kind="source", parallelism=5, output=True),)
    topology = Topology(TopologySpec(name="packed", operators=operators))
    costs = dict(zip(topology.partitions, [40.0, 40.0, 30.0, 26.0, 24.0], strict=True))
    before = {"A[0]": "old-1", "A[1]": "old-1", "A[2]": "old-2", "A[3]": "old-2", "A[4]": "old-2"}
    after = replacement_placement(topology, before, {"old-1", "old-2"}, nodes(2), costs)
    assert not after.unplaced
    assert max(after.load.values()) <= 80.0 + 1e-9


@settings(max_examples=150, deadline=None)
@given(
    costs=st.lists(st.floats(0.0, 60.0), min_size=1, max_size=30),
    capacities=st.lists(st.floats(10.0, 200.0), min_size=1, max_size=6),
    bound=st.floats(0.1, 1.0),
    order=st.randoms(use_true_random=False),
)
def test_placement_is_bounded_complete_and_independent_of_order(
    costs: list[float], capacities: list[float], bound: float, order: object
) -> None:
    names = [f"A[{i}]" for i in range(len(costs))]
    offered = [NodeSpace(name=f"node-{i}", capacity=c) for i, c in enumerate(capacities)]
    known = dict(zip(names, costs, strict=True))
    affinity = [(names[i], names[i + 1]) for i in range(0, len(names) - 1, 2)]
    first = place(partitions=names, nodes=offered, costs=known, max_utilisation=bound, affinity=affinity)
    for node in offered:
        assert first.load[node.name] <= node.capacity * bound + 1e-6
    assert set(first.placed) | set(first.unplaced) == set(names)
    shuffled, mixed = list(names), list(offered)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    order.shuffle(mixed)  # type: ignore[attr-defined]
    again = place(partitions=shuffled, nodes=mixed, costs=known, max_utilisation=bound, affinity=affinity)
    assert again == first


def test_measured_overload_is_scaled_to_the_bound() -> None:
    costs = {"A[0]": 120.0, "A[1]": 60.0, "A[2]": 40.0, "A[3]": 10.0}
    assignment = {"A[0]": "n1", "A[1]": "n2", "A[2]": "n2", "A[3]": "n3"}
    entitled = entitled_costs(
        costs=costs, assignment=assignment, capacities=dict.fromkeys(["n1", "n2", "n3"], 100.0)
    )
    assert entitled == pytest.approx({"A[0]": 80.0, "A[1]": 48.0, "A[2]": 32.0, "A[3]": 10.0})


def test_natural_order_of_names() -> None:
    assert sorted(["node-10", "node-9", "O2[10]", "O2[9]"], key=natural_key) == [
        "O2[9]",
        "O2[10]",
        "node-9",
        "node-10",
    ]
