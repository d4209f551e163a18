"""Information loss, output fidelity and internal completeness, compared with values by hand and a
transcription."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.replication import FidelityModel, complete_trees, equal_rates
from domain.replication.growth import _Grower
from domain.replication.trees import TooLargeError, members
from domain.topology import Topology
from tests.unit.domain.replication.topologies import fidelity_of, left_of, models, operator, topology_of


def fork(**more: Any) -> Topology:
    """A of two partitions and B of one, both read by the output J."""
    return topology_of(
        operator("A", 2),
        operator("B", 1),
        operator("J", 1, ("A", "full"), ("B", "full"), output=True, **more),
    )


RATES = {"A[0]": 3.0, "A[1]": 1.0, "B[0]": 4.0, "J[0]": 2.0}


def fidelity(model: FidelityModel, *alive: str) -> float:
    return float(model.fidelity(model.flags([[model.index[name] for name in alive]]))[0])


def completeness(model: FidelityModel, *alive: str) -> float:
    return float(model.completeness(model.flags([[model.index[name] for name in alive]]))[0])


def test_a_join_loses_by_the_product() -> None:
    # Of A a quarter is left, of B all: 1/4 x 1.
    assert fidelity(FidelityModel(fork(correlated=True), RATES), "A[1]", "B[0]", "J[0]") == 0.25
    # Without B nothing can be joined.
    assert fidelity(FidelityModel(fork(correlated=True), RATES), "A[0]", "A[1]", "J[0]") == 0.0


def test_a_union_loses_by_the_rates() -> None:
    # A and B bring 4 tuples/s each; of A three are lost: 1 - 3/8.
    model = FidelityModel(fork(), RATES)
    assert fidelity(model, "A[1]", "B[0]", "J[0]") == 1 - 3 / 8
    assert fidelity(model, "A[0]", "A[1]", "J[0]") == 0.5


def test_outputs_count_by_their_rates() -> None:
    topology = topology_of(
        operator("A", 1),
        operator("X", 1, ("A", "full"), output=True),
        operator("Y", 1, ("A", "full"), output=True),
    )
    model = FidelityModel(topology, {"A[0]": 1.0, "X[0]": 9.0, "Y[0]": 1.0})
    assert fidelity(model, "A[0]", "X[0]") == 0.9
    assert fidelity(model, "A[0]", "Y[0]") == pytest.approx(0.1)
    assert fidelity(model, "X[0]", "Y[0]") == 0.0


@pytest.mark.parametrize(
    ("how", "above", "below", "alive", "expected"),
    [
        # Each of two targets reads one source; the first source has three quarters of all.
        ("one_to_one", 2, 2, ("A[0]", "B[0]", "B[1]"), [1.0, 0.0]),
        ("split", 2, 4, ("A[1]", "B[0]", "B[1]", "B[2]", "B[3]"), [0.0, 0.0, 1.0, 1.0]),
        ("merge", 4, 2, ("A[0]", "A[2]", "B[0]", "B[1]"), [0.25, 0.75]),
        ("full", 2, 2, ("A[0]", "B[1]"), [0.0, 0.75]),
    ],
)
def test_streams(how: str, above: int, below: int, alive: tuple[str, ...], expected: list[float]) -> None:
    topology = topology_of(operator("A", above), operator("B", below, ("A", how), output=True))
    first = (3.0, 1.0) if above == 2 else (1.0, 3.0, 3.0, 1.0)
    rates = {**equal_rates(topology), **{f"A[{at}]": rate for at, rate in enumerate(first)}}
    model = FidelityModel(topology, rates)
    left = model.left(model.flags([[model.index[name] for name in alive]]))[0]
    assert left[[model.index[query] for query in topology.queries]].tolist() == pytest.approx(expected)


def test_completeness_takes_a_join_for_a_union() -> None:
    # A and B produce 8 tuples/s, J reads 8: of these 16, 1 + 4 are produced and 5 read.
    for joins in (True, False):
        model = FidelityModel(fork(correlated=joins), RATES)
        assert completeness(model, "A[1]", "B[0]", "J[0]") == 10 / 16
    # Completeness counts tuples that no operator can use; fidelity does not.
    model = FidelityModel(fork(correlated=True), RATES)
    assert completeness(model, "A[0]", "A[1]", "J[0]") == 0.5
    assert fidelity(model, "A[0]", "A[1]", "J[0]") == 0.0


def test_a_full_stream_by_measured_pairs() -> None:
    """A[0] gives 6 tuples/s, all to B[1]; A[1] gives 2, half of them to each."""
    topology = topology_of(operator("A", 2), operator("B", 2, ("A", "full"), output=True))
    rates = {"A[0]": 6.0, "A[1]": 2.0, "B[0]": 1.0, "B[1]": 1.0}
    flows = {"A[0]": {"B": [0.0, 3.0]}, "A[1]": {"B": [5.0, 5.0]}}
    model = FidelityModel(topology, rates, flows=flows)
    left = model.left(model.flags([[model.index[one] for one in ("A[1]", "B[0]", "B[1]")]]))[0]
    assert left[2:].tolist() == pytest.approx([1.0, 1 / 7])
    assert model.steps[1].reads.tolist() == pytest.approx([1.0, 7.0])
    half = FidelityModel(topology, rates, flows={"A[0]": flows["A[0]"]})
    assert half.steps[1].reads.tolist() == pytest.approx([1.0, 7.0]), "what is not measured is divided evenly"


def test_a_split_stream_by_measured_pairs() -> None:
    topology = topology_of(operator("A", 1), operator("B", 2, ("A", "split"), output=True))
    model = FidelityModel(topology, equal_rates(topology), flows={"A[0]": {"B": [1.0, 3.0]}})
    assert model.steps[1].reads.tolist() == pytest.approx([0.25, 0.75])


@pytest.mark.parametrize("flow", [[1.0], [1.0, -1.0], [1.0, math.nan]])
def test_flows_that_cannot_be(flow: list[float]) -> None:
    topology = topology_of(operator("A", 1), operator("B", 2, ("A", "full"), output=True))
    with pytest.raises(ValueError, match=r"A\[0\] cannot give"):
        FidelityModel(topology, equal_rates(topology), flows={"A[0]": {"B": flow}})


def test_measured_pairs_tell_partitions_apart() -> None:
    """Without them the sources are of one kind, and the targets of another."""
    topology = topology_of(operator("A", 3), operator("B", 3, ("A", "full"), output=True))
    rates = equal_rates(topology)
    assert sorted(one.bit_count() for one in _Grower(FidelityModel(topology, rates)).kinds) == [3, 3]
    # Each source feeds one target most, so all look alike by their sums; A[2] and B[2] alone are not.
    flows = {f"A[{at}]": {"B": [9.0 if at == to else 1.0 for to in range(3)]} for at in range(3)}
    apart = _Grower(FidelityModel(topology, rates, flows=flows)).kinds
    assert [one.bit_count() for one in apart] == [1] * 6
    # All targets read the same share of each source, but B[2] reads more of it beside what it reads from C.
    topology = topology_of(operator("A", 3), operator("C", 1), operator("B", 3, ("A", "full"), ("C", "full")))
    same = {f"A[{at}]": {"B": [1.0, 1.0, 4.0]} for at in range(3)}
    alike = _Grower(FidelityModel(topology, equal_rates(topology), flows=same)).kinds
    assert sorted(one.bit_count() for one in alike) == [1, 1, 2, 3]


def test_nothing_and_everything() -> None:
    model = FidelityModel(fork(correlated=True), RATES)
    assert fidelity(model) == completeness(model) == 0.0
    assert fidelity(model, *model.partitions) == completeness(model, *model.partitions) == 1.0


def test_where_nothing_flows_everything_counts_alike() -> None:
    model = FidelityModel(fork(), dict.fromkeys(RATES, 0.0))
    assert fidelity(model, "A[0]", "J[0]") == 0.25
    assert fidelity(model, "B[0]", "J[0]") == 0.5


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ({"A[0]": 1.0}, "no rate for"),
        ({**RATES, "Z[0]": 1.0}, "no partition 'Z[0]'"),
        ({**RATES, "A[0]": -1.0}, "A[0] cannot give -1.0"),
        ({**RATES, "A[0]": math.inf}, "A[0] cannot give inf"),
        ({**RATES, "A[0]": math.nan}, "A[0] cannot give nan"),
    ],
)
def test_rates_that_cannot_be(rates: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("[", r"\[").replace("]", r"\]")):
        FidelityModel(fork(), rates)


@given(model=models(), data=st.data())
@settings(max_examples=150, deadline=None)
def test_it_is_what_the_equations_say(model: FidelityModel, data: st.DataObject) -> None:
    alive = data.draw(st.lists(st.sampled_from(model.partitions), unique=True))
    rates = dict(zip(model.partitions, model.rates.tolist(), strict=True))
    left = left_of(model.topology, rates, alive, model.flows)
    flags = model.flags([[model.index[name] for name in alive]])
    assert model.left(flags)[0].tolist() == pytest.approx([left[name] for name in model.partitions])
    assert fidelity(model, *alive) == pytest.approx(fidelity_of(model.topology, rates, alive, model.flows))


@given(model=models(), data=st.data())
@settings(max_examples=80, deadline=None)
def test_more_replicas_are_never_worse(model: FidelityModel, data: st.DataObject) -> None:
    fewer = set(data.draw(st.lists(st.sampled_from(model.partitions))))
    more = fewer | set(data.draw(st.lists(st.sampled_from(model.partitions))))
    assert fidelity(model, *fewer) <= fidelity(model, *more)
    assert completeness(model, *fewer) <= completeness(model, *more)


def test_complete_trees_of_a_union_and_of_a_join() -> None:
    """A join needs one of each input, a union one of any."""
    for joins, expected in ((True, [{"A[0]", "B[0]", "J[0]"}, {"A[1]", "B[0]", "J[0]"}]),
                            (False, [{"A[0]", "J[0]"}, {"A[1]", "J[0]"}, {"B[0]", "J[0]"}])):  # fmt: skip
        model = FidelityModel(fork(correlated=joins), RATES)
        trees = complete_trees(model, largest=4, most=10)
        assert [{model.partitions[one] for one in members(tree)} for tree in trees] == expected


def test_trees_that_are_too_large_or_too_many() -> None:
    model = FidelityModel(fork(correlated=True), RATES)
    assert complete_trees(model, largest=2, most=10) == []
    with pytest.raises(TooLargeError, match=r"more than 1 sets.*ask structure_aware"):
        complete_trees(model, largest=4, most=1)


@given(model=models())
@settings(max_examples=60, deadline=None)
def test_every_tree_is_complete_by_itself(model: FidelityModel) -> None:
    rates = equal_rates(model.topology)
    even = FidelityModel(model.topology, rates)
    trees = [list(members(tree)) for tree in complete_trees(even, largest=20, most=10_000)]
    assert (even.fidelity(even.flags(trees)) > 0).all()
    assert len(np.unique(even.flags(trees), axis=0)) == len(trees)
