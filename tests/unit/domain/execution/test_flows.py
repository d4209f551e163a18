"""How many rows go from which partition to which: smoothed, bounded, told now and then."""

from __future__ import annotations

import math

import msgspec
import pytest

from domain.execution.flows import MOST_PAIRS, TOLD_EVERY, WINDOW, Flows, counted_streams
from domain.execution.job import PartitionReport, TaskReport
from domain.execution.lanes import Lane
from domain.topology import InputSpec, OperatorSpec, Topology, TopologySpec
from domain.topology.copies import with_copies


def topology_of(sources: int, targets: int) -> Topology:
    operators = (
        OperatorSpec(name="S", kind="k", parallelism=sources),
        OperatorSpec(name="A", kind="k", parallelism=targets, inputs=(InputSpec(source="S"),), output=True),
        OperatorSpec(name="B", kind="k", inputs=(InputSpec(source="S"),), output=True),
    )
    return Topology(TopologySpec(name="t", operators=operators))


def test_streams_are_counted_where_rows_can_choose_and_up_to_a_number_of_pairs() -> None:
    topology = topology_of(2, 3)
    assert counted_streams(topology) == {("S", "A")}
    assert counted_streams(with_copies(topology, frozenset({"A"}), frozenset({"A"}))) == {("S", "A")}
    assert counted_streams(topology_of(64, MOST_PAIRS // 64)) == {("S", "A")}
    assert counted_streams(topology_of(64, MOST_PAIRS // 64 + 1)) == set()


def test_a_steady_rate_is_told_at_once_and_then_now_and_then() -> None:
    flows = Flows(topology_of(1, 2))
    told = []
    for epoch in range(30):
        flows.take("S[0]", 250, {"A": [200, 50]}, 2.0)
        rates, found = flows.told(2.0)
        told += [epoch] if found else []
        assert rates == ({"S[0]": 125.0} if found else {})
        assert found in ({}, {"S[0]": {"A": [100.0, 25.0]}})
    assert told == list(range(0, 30, int(TOLD_EVERY / 2)))


@pytest.mark.parametrize("step", [1.0, 4.0, 20.0])
def test_what_was_fades_with_the_time_of_the_input_whatever_the_epochs(step: float) -> None:
    flows = Flows(topology_of(1, 2))
    for _ in range(int(100 * WINDOW / step)):
        flows.take("S[0]", 0, {"A": [int(100 * step), 0]}, step)
    for _ in range(int(WINDOW / step)):
        flows.take("S[0]", 0, {"A": [0, int(100 * step)]}, step)
    first, second = flows.told(TOLD_EVERY)[1]["S[0]"]["A"]
    assert first == pytest.approx(100 / math.e, rel=0.01)
    assert first + second == pytest.approx(100, rel=0.01)


def test_a_burst_counts_with_the_time_around_it() -> None:
    """A window gives its rows in one epoch of twenty."""
    flows = Flows(topology_of(1, 2))
    for epoch in range(2_000):
        flows.take("S[0]", 0, {"A": [60, 20] if epoch % 20 == 10 else [0, 0]}, 1.0)
    first, second = flows.told(TOLD_EVERY)[1]["S[0]"]["A"]
    assert first == pytest.approx(3.0, rel=0.2)
    assert first == pytest.approx(3 * second, rel=0.01)


def test_what_is_no_stream_is_left_out() -> None:
    flows = Flows(topology_of(1, 2))
    flows.take("S[0]", 0, {"B": [1], "C": [1, 2]}, 1.0)
    flows.take("S[0]", 0, {"A": [1, 2]}, 0.0)
    assert flows.told(TOLD_EVERY)[1] == {}


def test_a_report_of_the_most_pairs_is_small() -> None:
    flows = Flows(topology_of(64, 64))
    for index in range(64):
        flows.take(f"S[{index}]", 0, {"A": [1000 * index + 7 * at for at in range(64)]}, 3.0)
    assert len(msgspec.json.encode(flows.told(0.0)[1])) < 32_000


def test_rates_are_those_of_the_present_and_of_no_copy() -> None:
    flows = Flows(topology_of(1, 2))

    def observe(first: int, last: int, before: int, counts: list[int]) -> None:
        results = {
            name: PartitionReport(epoch=last, rows_out=sum(routed), routed={"A": routed})
            for name, routed in {"S[0]": counts, "S~[0]": [1_000, 1_000], "S?[0]": [1_000, 1_000]}.items()
        }
        task = TaskReport(slot=0, level=0, node="n1", partitions=results)
        flows.observe(Lane(first, last, {"S[0]": first - 1}), [task], dict.fromkeys(results, before))

    observe(1, 2, 0, [60, 20])
    assert flows.pairs() == {"S[0]": {"A": [30.0, 10.0]}}
    assert flows.rates() == {"S[0]": 40.0}
    # It began to compute before the present did: what it routed again is not its rate.
    observe(4, 8, 5, [9_000, 9_000])
    # Its task did not come to the end of the job.
    results = {"S[0]": PartitionReport(epoch=8, rows_out=9_000, routed={"A": [9_000, 0]})}
    task = TaskReport(slot=0, level=0, node="n1", partitions=results)
    flows.observe(Lane(9, 12, {"S[0]": 8}), [task], {"S[0]": 8})
    assert flows.pairs() == {"S[0]": {"A": [30.0, 10.0]}}
    assert flows.rates() == {"S[0]": 40.0}
