"""What the loss of a rack would take down."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.planning.epoch_time import Unit
from domain.planning.rack_exposure import RackExposure
from domain.planning.racks import Domain, mean_loss, rack_losses, racks_known
from tests.unit.domain.planning.pipelines import pipelines, racked, scattered, spaces_of

RACKS = {"node-1": "r1", "node-2": "r2", "node-3": "", "node-4": ""}


def test_a_rack_takes_down_every_query_that_has_a_partition_there() -> None:
    graph = pipelines(3, 1)  # priorities 1, 2 and 3
    assignment = {"S0[0]": "node-1", "O0[0]": "node-2", "S1[0]": "node-2", "O1[0]": "node-2"}
    assignment |= {"S2[0]": "node-3", "O2[0]": "node-3"}
    losses = rack_losses(graph, assignment, RACKS)
    assert [(one.domain, one.queries, one.share) for one in losses] == [
        (Domain("", "node-3"), ("O2[0]",), 0.5),
        (Domain("r2", ""), ("O0[0]", "O1[0]"), 0.5),
        (Domain("r1", ""), ("O0[0]",), pytest.approx(1 / 6)),
        (Domain("", "node-4"), (), 0.0),
    ]
    assert not any(one.everything or one.common for one in losses)
    assert mean_loss(losses) == pytest.approx((0.5 + 0.5 + 1 / 6) / 4)


def test_priorities_in_force_count_and_not_those_of_the_specification() -> None:
    graph = pipelines(2, 1)
    assignment = dict.fromkeys(("S0[0]", "O0[0]"), "node-1") | dict.fromkeys(("S1[0]", "O1[0]"), "node-2")
    worst = rack_losses(graph, assignment, RACKS, {"O0[0]": 9, "O1[0]": 1})[0]
    assert (worst.domain.rack, worst.share) == ("r1", 0.9)


def test_what_all_queries_share_makes_a_rack_fatal() -> None:
    graph = pipelines(4, 1, shared=True)
    assignment = dict.fromkeys(graph.partitions, "node-2") | {"All[0]": "node-1"}
    first, second, *_ = rack_losses(graph, assignment, RACKS)
    assert (first.domain.rack, first.everything, first.common) == ("r1", True, True)
    assert (second.domain.rack, second.everything, second.common) == ("r2", True, False)


def test_what_has_no_node_is_lost_with_none() -> None:
    graph = pipelines(1, 2)
    assert {one.share for one in rack_losses(graph, {"S0[0]": "gone"}, RACKS)} == {0.0}
    assert rack_losses(graph, {}, {}) == ()
    assert mean_loss(()) == 0.0


@pytest.mark.parametrize(
    ("racks", "known"),
    [
        ({}, False),
        ({"a": "", "b": ""}, False),
        ({"a": "r1", "b": "r1"}, False),
        ({"a": "r1", "b": "r2"}, True),
        ({"a": "r1", "b": ""}, True),
    ],
)
def test_racks_say_something_only_where_they_differ(racks: dict[str, str], known: bool) -> None:
    assert racks_known(racks, racks) is known


@given(st.integers(0, 2**32))
def test_the_exposure_follows_the_moves(seed: int) -> None:
    """It is the mean of the squared shares of `rack_losses`, before and after every move."""
    rng = random.Random(seed)
    graph = pipelines(rng.randint(1, 5), rng.choice([1, 2]), shared=rng.random() < 0.3)
    spaces = spaces_of(rng.randint(2, 6))
    terms = racked(spaces, rng.randint(2, len(spaces)))
    assignment = scattered(graph, spaces, rng)
    names = [node.name for node in spaces]
    racks = sorted(set(terms.of.values()))
    units = {p: Unit((p,), {}) for p in graph.partitions}
    needs = {
        unit: np.array([i for i, q in enumerate(graph.queries) if q in graph.sharing[p]], dtype=np.int64)
        for p, unit in units.items()
    }
    weights = [graph.priority(query) for query in graph.queries]
    exposure = RackExposure(needs, weights, [racks.index(terms.of[name]) for name in names])
    for p, unit in units.items():
        exposure.put(unit, names.index(assignment[p]))

    def expected() -> float:
        return float(np.mean([one.share**2 for one in rack_losses(graph, assignment, terms.of)]))

    for _ in range(6):
        p, target = rng.choice(graph.partitions), rng.choice(names)
        unit, node = units[p], names.index(assignment[p])
        foreseen = exposure.moved(unit, node)[names.index(target)]
        exposure.take(unit, node)
        exposure.put(unit, names.index(target))
        assignment[p] = target
        assert exposure.value() == pytest.approx(expected())
        assert foreseen == pytest.approx(exposure.value())
