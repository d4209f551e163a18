"""The cost of a partition, estimated from the CPU time of its tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from domain.execution.job import PartitionReport, TaskReport
from domain.execution.lanes import Lane
from domain.messages import EpochReport
from domain.topology import Topology
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec
from spark_jobs.driver.epoch_log import EpochLog
from spark_jobs.driver.measure import SMOOTHING, Measure


@pytest.fixture
def topology() -> Topology:
    operators = (
        OperatorSpec(name="S", kind="k"),
        OperatorSpec(name="A", kind="k", inputs=(InputSpec(source="S"),), output=True),
    )
    return Topology(TopologySpec(name="t", epoch_interval=2.0, operators=operators))


def reported(measure: Measure, log: EpochLog, *, lane: Lane, cpu: float, before: int) -> EpochReport:
    results = {
        name: PartitionReport(epoch=lane.last, cpu_seconds=cpu) for name in measure.topology.partitions
    }
    return measure.report(
        present=lane,
        replayed=0,
        reports=[TaskReport(slot=0, level=0, node="n1", partitions=results)],
        log=log,
        generation=1,
        before=dict.fromkeys(measure.topology.partitions, before),
        progress=dict.fromkeys(measure.topology.partitions, lane.last),
        front=lane.last,
        started=0.0,
        ended=1.0,
        state="running",
        absent=(),
        failing=(),
    )


def lane(first: int, last: int) -> Lane:
    return Lane(first, last, {"S[0]": first - 1, "A[0]": first - 1})


def test_a_cost_is_a_moving_average_of_cpu_time_per_second(topology: Topology, tmp_path: Path) -> None:
    """A window costs many times more when it closes; plans need the average."""
    measure, log = Measure(topology), EpochLog(tmp_path / "epochs.log")
    assert reported(measure, log, lane=lane(1, 1), cpu=0.1, before=0).partitions["A[0]"].cost == 0.05
    later = reported(measure, log, lane=lane(2, 2), cpu=0.3, before=1).partitions["A[0]"].cost
    assert later == pytest.approx(0.05 + SMOOTHING * (0.15 - 0.05))
    assert measure.costs()["A[0]"] == later


def test_flows_are_those_of_the_present_and_of_no_shadow(tmp_path: Path) -> None:
    operators = (
        OperatorSpec(name="S", kind="k"),
        OperatorSpec(name="A", kind="k", parallelism=2, inputs=(InputSpec(source="S"),), output=True),
    )
    topology = Topology(TopologySpec(name="t", epoch_interval=2.0, operators=operators))
    measure, log = Measure(topology), EpochLog(tmp_path / "epochs.log")

    def told(first: int, last: int, before: int, **routed: list[int]) -> dict[str, dict[str, list[float]]]:
        names = {"S[0]": routed["exact"], "S~[0]": [1_000, 1_000]}
        results = {
            name: PartitionReport(epoch=last, routed={"A": counts}, rows_out=sum(counts))
            for name, counts in names.items()
        }
        report = measure.report(
            present=Lane(first, last, {"S[0]": first - 1}),
            replayed=0,
            reports=[TaskReport(slot=0, level=0, node="n1", partitions=results)],
            log=log,
            generation=1,
            before=dict.fromkeys((*topology.partitions, "S~[0]"), before),
            progress=dict.fromkeys(topology.partitions, last),
            front=last,
            started=0.0,
            ended=1.0,
            state="running",
            absent=(),
            failing=(),
        )
        return report.flows

    assert told(1, 2, 0, exact=[60, 20]) == {"S[0]": {"A": [15.0, 5.0]}}
    assert told(3, 3, 2, exact=[30, 10]) == {}, "the next report is due after ten seconds"
    # It began to compute before the present did: what it routed again is not its rate.
    assert told(4, 8, 5, exact=[9_000, 9_000]) == {"S[0]": {"A": [15.0, 5.0]}}


def test_a_fork_does_not_count(topology: Topology, tmp_path: Path) -> None:
    measure, log = Measure(topology, {"A[0]": 0.02}), EpochLog(tmp_path / "epochs.log")
    assert reported(measure, log, lane=lane(1, 4), cpu=9.0, before=3).partitions["A[0]"].cost == 0.02
