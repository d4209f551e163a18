"""The cost of a partition, estimated from the CPU time of its tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from domain.execution.instructions import Measured
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
    told = Measured(
        present=lane,
        replayed=0,
        reports=[TaskReport(slot=0, level=0, node="n1", partitions=results)],
        generation=1,
        before=dict.fromkeys(measure.topology.partitions, before),
        progress=dict.fromkeys(measure.topology.partitions, lane.last),
        front=lane.last,
        started=0.0,
        absent=set(),
        failing=set(),
        rates={},
        flows={},
    )
    return measure.report(told, log=log, ended=1.0, state="running")


def lane(first: int, last: int) -> Lane:
    return Lane(first, last, {"S[0]": first - 1, "A[0]": first - 1})


def test_a_cost_is_a_moving_average_of_cpu_time_per_second(topology: Topology, tmp_path: Path) -> None:
    """A window costs many times more when it closes; plans need the average."""
    measure, log = Measure(topology), EpochLog(tmp_path / "epochs.log")
    assert reported(measure, log, lane=lane(1, 1), cpu=0.1, before=0).partitions["A[0]"].cost == 0.05
    later = reported(measure, log, lane=lane(2, 2), cpu=0.3, before=1).partitions["A[0]"].cost
    assert later == pytest.approx(0.05 + SMOOTHING * (0.15 - 0.05))
    assert measure.costs()["A[0]"] == later


def test_a_fork_does_not_count(topology: Topology, tmp_path: Path) -> None:
    measure, log = Measure(topology, {"A[0]": 0.02}), EpochLog(tmp_path / "epochs.log")
    assert reported(measure, log, lane=lane(1, 4), cpu=9.0, before=3).partitions["A[0]"].cost == 0.02
