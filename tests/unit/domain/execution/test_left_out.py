"""Where the guarantee is bounded: rows of epochs that passed without a query are left out."""

from __future__ import annotations

from domain.execution.epoch_machine import Recorded
from domain.execution.instructions import Instruction, LeaveOut, RecordPosition
from domain.execution.job import PartitionReport, RunJob, TaskReport
from domain.execution.progress import Position
from domain.topology import Topology
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec
from tests.unit.domain.execution.epoch_shell import Shell, kinds

HOMES = {"S[0]": "n1", "A[0]": "n1"}


def bounded() -> Topology:
    source = OperatorSpec(name="S", kind="k")
    output = OperatorSpec(name="A", kind="k", inputs=(InputSpec(source="S"),), output=True)
    return Topology(TopologySpec(name="t", guarantee="bounded", operators=(source, output)))


def left_out(told: list[Instruction]) -> dict[str, range]:
    """What is left out, in the place of the jobs before and before readers see the epoch."""
    (found,) = [one for one in told if isinstance(one, LeaveOut)]
    assert all(one.attempt < found.attempt for one in told if isinstance(one, RunJob))
    assert kinds(told).index(LeaveOut) < kinds(told).index(RecordPosition)
    return dict(found.epochs)


def test_what_a_job_that_was_given_up_may_have_written() -> None:
    shell = Shell(bounded(), Recorded())
    assert LeaveOut not in kinds(shell.turn())
    shell.fail = True
    shell.turn()
    shell.fail, shell.absent = False, {"A[0]"}
    assert left_out(shell.turn(at=9.0)) == {"A[0]": range(2, 3)}
    assert shell.machine.recorded.committed == 3
    assert LeaveOut not in kinds(shell.turn(at=10.0)), "no job had the query in this epoch"


def test_what_a_query_that_failed_may_have_written() -> None:
    shell = Shell(bounded(), Recorded())
    shell.turn()
    reports = {"S[0]": PartitionReport(epoch=2), "A[0]": PartitionReport(epoch=1, error="a row")}
    shell.reports = [TaskReport(slot=0, level=0, node="n1", partitions=reports)]
    assert left_out(shell.turn()) == {"A[0]": range(2, 3)}


def test_what_the_driver_before_may_have_tried() -> None:
    recorded = Recorded(head=5, life=2, position=Position(3), generation=1, homes=HOMES)
    shell = Shell(bounded(), recorded)
    shell.absent = {"A[0]"}
    assert left_out(shell.turn()) == {"A[0]": range(4, 6)}


def test_where_the_guarantee_is_exact_it_runs_again_instead() -> None:
    exact = Topology(TopologySpec(name="t", operators=bounded().spec.operators))
    shell = Shell(exact, Recorded())
    shell.turn()
    shell.absent = {"A[0]"}
    assert LeaveOut not in kinds(shell.turn())
