"""Damaged checkpoints, and epochs beside a checkpoint that is stored."""

from __future__ import annotations

import pytest

from domain.execution.epoch_machine import Recorded
from domain.execution.instructions import (
    PointTo,
    ReadAcknowledgements,
    RecordPosition,
    StartReplay,
    TellProblem,
)
from domain.execution.job import PartitionReport, RunJob, TaskReport
from domain.execution.progress import Position
from tests.unit.domain.execution.epoch_shell import (
    Shell,
    ack,
    chain,
    checkpoint_under_way,
    kinds,
    published,
)


def damaged(instead: int, *partitions: str) -> list[TaskReport]:
    """What tasks say that found their checkpoint damaged."""
    told = {
        p: PartitionReport(epoch=15, error=f"the manifest of {p} is damaged", instead=instead)
        for p in partitions
    }
    return [TaskReport(slot=0, level=0, node="n1", partitions=told)]


def restoring(deterministic: bool = True) -> Shell:
    """A driver that is about to put A back to checkpoint 15; 10 is kept, too."""
    position = Position(15, restore={"A[0]": 15}, ahead={"S[0]": 20}, checkpoint=15)
    homes = {"S[0]": "n1", "A[0]": "n1"}
    recorded = Recorded(head=20, oldest=10, position=position, generation=1, homes=homes, life=2)
    return Shell(chain(deterministic), recorded, kept=(10, 15))


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_damaged_checkpoint_makes_all_start_again_from_the_one_before(deterministic: bool) -> None:
    shell = restoring(deterministic)
    shell.reports = damaged(10, "A[0]")
    told = shell.turn()
    job = next(one for one in told if isinstance(one, (RunJob, StartReplay)))
    job = job.job if isinstance(job, StartReplay) else job
    assert list(job.older) == [10]
    recorded = [one for one in told if isinstance(one, RecordPosition) and one.durable][-1]
    assert recorded.position.checkpoint == 10
    assert recorded.position.restore == {"S[0]": 10, "A[0]": 10}
    pointed = next(one for one in told if isinstance(one, PointTo))
    assert (pointed.latest.checkpoint, pointed.latest.kept, pointed.latest.highest) == (10, [10], 15)
    assert told.index(pointed) < told.index(recorded), "a driver that dies in between finds it damaged again"
    problem = next(one for one in told if isinstance(one, TellProblem))
    assert (problem.where, problem.what) == ("A[0]", "the manifest of A[0] is damaged")
    assert published(told).restorable == [10]
    again = shell.turn(at=2.0)
    jobs = [one for one in again if isinstance(one, RunJob)]
    assert jobs[0].restore == {"S[0]": 10, "A[0]": 10}, "at once"
    assert TellProblem not in kinds(again)


@pytest.mark.parametrize("instead", [-1, 9])
def test_without_an_older_one_it_goes_on_trying(instead: int) -> None:
    """Nothing is forgotten: the file may be brought back. 9 is not one that is kept."""
    shell = restoring()
    shell.reports = damaged(instead, "A[0]")
    told = shell.turn()
    assert PointTo not in kinds(told)
    assert shell.machine.tracker.restore == {"A[0]": 15}
    assert published(told).restorable == [10, 15]
    assert published(told).error == "the manifest of A[0] is damaged"
    assert TellProblem not in kinds(shell.turn(at=10.0))


def test_what_one_of_several_lacks_is_not_taken() -> None:
    shell = restoring()
    shell.reports = [*damaged(10, "A[0]"), *damaged(-1, "S[0]")]
    assert PointTo not in kinds(shell.turn())


def test_the_checkpoint_under_way_fails_when_all_start_again() -> None:
    shell = restoring()
    shell.turn()
    shell.acks = []
    shell.turn(at=30.0)
    assert checkpoint_under_way(shell) > 15
    shell.machine.tracker.restore["A[0]"] = 15
    shell.reports = damaged(10, "A[0]")
    told = shell.turn(at=31.0)
    assert checkpoint_under_way(shell) == 0
    assert shell.machine.checkpoints.kept == [10]
    assert published(told).checkpoint == 10


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("known", [10, 0])
def test_a_checkpoint_that_the_log_does_not_know_of_is_not_used(known: int, deterministic: bool) -> None:
    """The driver before died before it noted that 15 was complete, or undid it while ZooKeeper was away."""
    position = Position(16, checkpoint=known)
    homes = {"S[0]": "n1", "A[0]": "n1"}
    recorded = Recorded(head=16, oldest=known, position=position, generation=1, homes=homes, life=2)
    shell = Shell(chain(deterministic), recorded, kept=(10, 15) if known else (15,))
    told = shell.turn()
    assert published(told).restorable == [known]
    assert kinds(told).index(PointTo) < kinds(told).index(RunJob)
    pointed = next(one for one in told if isinstance(one, PointTo)).latest
    assert (pointed.checkpoint, pointed.kept, pointed.highest) == (known, [known] if known else [], 15)
    assert PointTo not in kinds(shell.turn(at=2.0)), "ZooKeeper is told once"


def storing(*, synchronous: bool = False) -> Shell:
    """A checkpoint is under way that nothing has acknowledged."""
    shell = Shell(chain(), Recorded())
    shell.machine.checkpoints.synchronous = synchronous
    shell.acks = []
    shell.turn(at=1.0)
    shell.turn(at=20.0)
    assert checkpoint_under_way(shell) == 2
    return shell


def test_epochs_go_on_while_a_checkpoint_is_stored() -> None:
    shell = storing()
    assert RunJob in kinds(shell.turn(at=21.0))
    assert checkpoint_under_way(shell) == 2


@pytest.mark.parametrize("ends", ["completed", "failed"])
def test_a_synchronous_checkpoint_ends_before_the_next_epoch_begins(ends: str) -> None:
    shell = storing(synchronous=True)
    told = shell.turn(at=21.0)
    assert RunJob not in kinds(told)
    assert ReadAcknowledgements in kinds(told)
    shell.acks = [ack("S[0]", 2), ack("A[0]", 2)] if ends == "completed" else []
    at = 22.0 if ends == "completed" else 100.0
    assert RunJob not in kinds(shell.turn(at=at))
    assert shell.machine.checkpoints.kept == ([2] if ends == "completed" else [])
    assert RunJob in kinds(shell.turn(at=at + 1)), "all that has fallen due meanwhile"
    assert shell.machine.tracker.committed == shell.head


@pytest.mark.parametrize("synchronous", [True, False])
def test_epochs_that_stand_still_for_long_are_told_once(synchronous: bool) -> None:
    shell = storing(synchronous=synchronous)
    told = [one for at in (25.0, 29.0, 31.0, 32.0) for one in shell.turn(at=at)]
    problems = [one.what for one in told if isinstance(one, TellProblem)]
    assert len(problems) == synchronous
    assert not problems or "stand still" in problems[0]


def test_nodes_that_are_lost_end_a_synchronous_checkpoint() -> None:
    """What was to acknowledge it is gone, so epochs are not held up for it."""
    shell = storing(synchronous=True)
    shell.absent = {"A[0]"}
    shell.turn(at=21.0)
    assert checkpoint_under_way(shell) == 0
