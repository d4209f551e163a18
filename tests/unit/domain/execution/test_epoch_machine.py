"""The instructions of the epoch machine and their order: records reach the disk before steps that depend on
them."""

from __future__ import annotations

from domain.execution.checkpoints import SPREAD
from domain.execution.epoch_machine import MAX_FAILURES, Recorded
from domain.execution.instructions import (
    End,
    GiveUp,
    JobFailed,
    PlaceTasks,
    PlanEpochs,
    PointTo,
    Publish,
    RecordHomes,
    RecordPlan,
    RecordPosition,
    Retire,
    TellProblem,
)
from domain.execution.job import RunJob
from domain.execution.progress import Position
from tests.unit.domain.execution.epoch_shell import (
    Shell,
    ack,
    chain,
    kinds,
    plan,
)


def test_a_plan_is_on_disk_before_anything_runs_under_it() -> None:
    told = kinds(Shell(chain(), Recorded()).turn())
    assert told.index(RecordPlan) < told.index(PlaceTasks) < told.index(PlanEpochs) < told.index(RunJob)
    assert told.index(RunJob) < told.index(RecordPosition) < told.index(Publish)


def test_replicas_are_refused_with_the_reason_where_operators_are_not_deterministic() -> None:
    shell = Shell(chain(deterministic=False), Recorded())
    told = [*shell.turn(replicas={"A[0]": "n2"}), *shell.turn(replicas={"A[0]": "n2"})]
    [problem] = [one for one in told if isinstance(one, TellProblem)]
    assert problem.where == "replicas"
    assert "S may give other rows" in problem.what
    assert not shell.machine.tracker.shadows.homes


def test_a_takeover_is_on_disk_before_anything_depends_on_it() -> None:
    shell = Shell(chain(), Recorded(), ())
    replicas = {"A[0]": "n2"}
    shell.turn(replicas=replicas)
    shell.turn(replicas=replicas)
    shell.absent = {"A[0]"}
    told = kinds(shell.turn(replicas=replicas))
    assert told.index(RecordHomes) < told.index(RunJob)
    assert shell.machine.tracker.acting == replicas
    assert shell.machine.placed.assignment == {"S[0]": "n1", "A[0]": "n2"}


def test_an_older_checkpoint_is_pointed_to_before_the_plan_that_goes_back_to_it_is_recorded() -> None:
    """A driver that dies before the record repeats the step; with the plan recorded it would not."""
    shell = Shell(chain(), Recorded(head=20, position=Position(20, checkpoint=15)), kept=(10, 15))
    shell.plan = plan(1, rollback=True, checkpoint=10)
    told = kinds(shell.turn())
    assert told.index(PointTo) < told.index(RecordPlan)


def test_a_complete_checkpoint_is_on_disk_before_older_ones_go() -> None:
    shell = Shell(chain(), Recorded())
    told = shell.turn(at=20.0)
    recorded = [one for one in told if isinstance(one, RecordPosition) and one.durable]
    assert [one.position.checkpoint for one in recorded] == [1]
    assert kinds(told).index(PointTo) < told.index(recorded[0]) < kinds(told).index(Retire)
    trimming = [one.trim_below for one in shell.turn(at=21.0) if isinstance(one, RunJob)]
    assert trimming == [1]


def test_a_job_that_leaves_snapshots_says_over_how_long_their_uploads_may_be_spread_out() -> None:
    shell = Shell(chain(), Recorded())
    told = [
        (one.checkpoint, one.spread)
        for at in (1.0, 20.0)
        for one in shell.turn(at)
        if isinstance(one, RunJob)
    ]
    assert told == [(0, 0.0), (2, SPREAD)]
    shell.machine.checkpoints.set_interval(1.0, 20.0)
    assert [one.spread for one in shell.turn(30.0) if isinstance(one, RunJob)] == [0.5]


def test_all_start_again_after_a_disturbed_job_unless_operators_are_deterministic() -> None:
    for deterministic in (True, False):
        shell = Shell(chain(deterministic), Recorded())
        shell.disturbed = True
        shell.turn()
        assert set(shell.machine.tracker.progress.values()) == {1 if deterministic else 0}


def test_the_number_of_a_checkpoint_is_not_used_again_after_its_job_was_given_up() -> None:
    """Snapshots of that attempt may exist, and operators are not deterministic."""
    for deterministic, expected in ((True, [1, 1]), (False, [1, 0])):
        shell = Shell(chain(deterministic), Recorded())
        asked: list[int] = []
        for fail in (True, False):
            shell.fail = fail
            asked += [one.checkpoint for one in shell.turn(at=20.0) if isinstance(one, RunJob)]
            shell.head = 0
        assert asked == expected


def test_the_last_checkpoint_of_an_input_is_made_of_one_attempt() -> None:
    """No later epoch follows, so that the number is used again after all partitions had to start again."""
    shell = Shell(chain(deterministic=False), Recorded())
    shell.final, shell.acks = True, []

    def attempt(at: float) -> int:
        shell.head = 0
        (job,) = (one for one in shell.turn(at=at) if isinstance(one, RunJob))
        assert job.checkpoint == 1
        return job.attempt

    first = attempt(20.0)
    shell.machine.checkpoints.fail("nodes were lost", 21.0)
    shell.machine.tracker.start_again()
    second = attempt(22.0)
    assert second > first
    for attempts, completed in (((first, second), False), ((second, second), True)):
        shell.acks = [ack(p, 1, one) for p, one in zip(shell.topology.partitions, attempts, strict=True)]
        shell.head = 0
        told = shell.turn(at=23.0)
        assert any(isinstance(one, End) for one in told) == completed


def test_what_failed_is_told_with_what_to_do() -> None:
    failed = JobFailed(at=3.0, error="it is full", cancelled=False, where="outputs/t", hint="Make room.")
    told = Shell(chain(), Recorded()).machine.handle(failed)
    assert TellProblem("outputs/t", "it is full", "Make room.") in told


def test_it_gives_up_when_job_after_job_fails() -> None:
    shell = Shell(chain(), Recorded())
    shell.fail = True
    ends = [any(isinstance(one, GiveUp) for one in shell.turn()) for _ in range(MAX_FAILURES)]
    assert ends == [False] * (MAX_FAILURES - 1) + [True]


def test_it_stops_when_told() -> None:
    assert Shell(chain(), Recorded()).turn(stopped=True) == [End("stopped")]
