"""The instructions of the epoch machine and their order: records reach the disk before steps that depend on
them."""

from __future__ import annotations

from typing import Any

import pytest

from domain.execution.checkpoints import SPREAD, Checkpoints
from domain.execution.epoch_machine import MAX_FAILURES, EpochMachine, Recorded
from domain.execution.instructions import (
    AcknowledgementsRead,
    CancelReplay,
    CheckpointPointed,
    End,
    EpochsPlanned,
    GiveUp,
    Instruction,
    JobEnded,
    JobFailed,
    MakeWay,
    PlaceTasks,
    PlanEpochs,
    PointTo,
    Publish,
    ReadAcknowledgements,
    RecordHomes,
    RecordPlan,
    RecordPosition,
    ReplayEnded,
    ReplayFailed,
    Retire,
    RunJob,
    StartReplay,
    TasksPlaced,
    TellProblem,
    TurnBegun,
)
from domain.execution.job import PartitionReport, TaskReport
from domain.execution.job_sizes import KEPT, LOOK_EVERY
from domain.execution.progress import Position
from domain.messages import CheckpointAck, Plan
from domain.topology import Topology
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec


def chain(deterministic: bool = True) -> Topology:
    """S -> A."""
    source = OperatorSpec(name="S", kind="k", deterministic=deterministic)
    output = OperatorSpec(name="A", kind="k", inputs=(InputSpec(source="S"),), output=True)
    return Topology(TopologySpec(name="t", operators=(source, output)))


class Shell:
    """A simulated driver: answers instructions with events, and keeps them. `fail`: jobs fail."""

    def __init__(self, topology: Topology, recorded: Recorded, kept: tuple[int, ...] = ()) -> None:
        checkpoints = Checkpoints("t", topology.partitions, interval=10.0, since=0.0, kept=list(kept))
        self.machine = EpochMachine(topology, recorded, checkpoints, realtime=False, at=0.0)
        self.topology = topology
        self.plan = plan(1)
        self.head = recorded.head
        self.told: list[Instruction] = []
        self.fail = self.disturbed = False
        self.ready: set[str] = {"n1"}
        self.final = False
        self.absent: set[str] = set()
        self.acks: list[CheckpointAck] | None = None
        # What the tasks of the next job say, if it is not that all went well.
        self.reports: list[TaskReport] = []

    def turn(self, at: float = 1.0, **news: Any) -> list[Instruction]:
        """The instructions of one turn; each turn has one more epoch."""
        self.told, self.head = [], self.head + 1
        self.carry_out(self.machine.handle(self.news(at, **news)), at)
        return self.told

    def news(self, at: float, **news: Any) -> TurnBegun:
        return TurnBegun(at=at, plan=self.plan, ready=self.ready, **news)

    def carry_out(self, instructions: list[Instruction], at: float) -> None:
        for instruction in instructions:
            self.told.append(instruction)
            if isinstance(instruction, RecordHomes):
                self.absent = set()  # what was there runs elsewhere now
            answer = self.answer(instruction, at)
            if answer is not None:
                self.carry_out(self.machine.handle(answer), at)

    def answer(self, instruction: Instruction, at: float) -> Any:
        if isinstance(instruction, PlaceTasks):
            return TasksPlaced(at=at, absent=set(self.absent), reachable=True)
        if isinstance(instruction, PlanEpochs):
            return EpochsPlanned(at=at, head=self.head, ended=self.final, next_due=at + 1.5)
        if isinstance(instruction, RunJob):
            if self.fail:
                return JobFailed(at=at, error="stage failure", cancelled=False)
            reports, self.reports = self.reports or done(instruction), []
            return JobEnded(at=at, reports=reports, disturbed=self.disturbed)
        if isinstance(instruction, ReadAcknowledgements):
            acks = [ack(p, instruction.checkpoint) for p in self.topology.partitions]
            acks = self.acks if self.acks is not None else acks
            return AcknowledgementsRead(at=at, acks=acks)
        return CheckpointPointed(at=at, accepted=True) if isinstance(instruction, PointTo) else None


def done(job: RunJob) -> list[TaskReport]:
    """All partitions of a job have applied its last epoch."""
    lane = job.lane
    applied = {p: PartitionReport(epoch=lane.last) for p in lane.starts} if lane is not None else {}
    return [TaskReport(slot=0, level=0, node="n1", partitions=applied)]


def plan(generation: int, **changes: Any) -> Plan:
    return Plan(generation=generation, kind="deploy", assignment={"S[0]": "n1", "A[0]": "n1"}, **changes)


def ack(partition: str, checkpoint: int, attempt: int = 0) -> CheckpointAck:
    return CheckpointAck(
        partition=partition, checkpoint=checkpoint, generation=1, attempt=attempt, node="n1", size_bytes=1,
        uploaded_bytes=1, files=1, duration=0.1,
    )  # fmt: skip


def kinds(told: list[Instruction]) -> list[type]:
    return [type(instruction) for instruction in told]


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


def test_it_gives_up_when_job_after_job_fails() -> None:
    shell = Shell(chain(), Recorded())
    shell.fail = True
    ends = [any(isinstance(one, GiveUp) for one in shell.turn()) for _ in range(MAX_FAILURES)]
    assert ends == [False] * (MAX_FAILURES - 1) + [True]


def test_it_stops_when_told() -> None:
    assert Shell(chain(), Recorded()).turn(stopped=True) == [End("stopped")]


def gone_back(generation: int, checkpoint: int, **changes: Any) -> Plan:
    """A plan that puts all of it back."""
    assignment = {"S[0]": "n1", "A[0]": "n1"}
    return Plan(
        generation=generation, kind="restore", assignment=assignment, rollback=True, checkpoint=checkpoint,
        **changes,
    )  # fmt: skip


def trimmed() -> Recorded:
    """The log of a run whose checkpoints 10 and 15 are kept: what is older is gone."""
    homes = {"S[0]": "n1", "A[0]": "n1"}
    return Recorded(
        head=20, oldest=10, position=Position(20, checkpoint=15), generation=1, homes=homes, life=2
    )  # fmt: skip


def published(told: list[Instruction]) -> Publish:
    return [one for one in told if isinstance(one, Publish)][-1]


def test_a_plan_whose_checkpoint_is_gone_is_refused_and_the_run_goes_on() -> None:
    """Also by a driver that was started anew and has seen no other plan."""
    for anew in (False, True):
        shell = Shell(chain(), trimmed(), kept=(10, 15))
        if not anew:
            shell.turn()
        shell.plan = gone_back(2, checkpoint=7)
        told = shell.turn(at=2.0)
        problem = next(one for one in told if isinstance(one, TellProblem))
        assert problem.where == "plan 2"
        assert "checkpoint 7" in problem.what
        assert "10, 15" in problem.hint
        assert RecordPlan not in kinds(told)
        said = published(told)
        assert (said.refused, said.restorable, said.generation) == (2, [10, 15], 1)
        assert shell.machine.tracker.committed > 20, "the run goes on under the plan before"
        again = shell.turn(at=3.0)
        assert published(again).refused == 2
        assert not {TellProblem, RecordPlan} & set(kinds(again)), "told once, and never applied"


def test_a_newer_plan_replaces_a_refused_one_at_once() -> None:
    shell = Shell(chain(), trimmed(), kept=(10, 15))
    shell.turn()
    shell.plan = gone_back(2, checkpoint=7)
    shell.turn(at=2.0)
    shell.plan = gone_back(3, checkpoint=15)
    told = shell.turn(at=3.0)
    recorded = next(one for one in told if isinstance(one, RecordPlan))
    assert (recorded.generation, recorded.position.checkpoint) == (3, 15)
    assert (published(told).refused, published(told).generation) == (0, 3)


def test_a_plan_is_refused_before_its_nodes_are_there() -> None:
    shell = Shell(chain(), trimmed(), kept=(10, 15))
    shell.turn()
    shell.plan, shell.ready = gone_back(2, checkpoint=7), set()
    assert published(shell.turn(at=2.0)).refused == 2


def spread(generation: int, second: str, **changes: Any) -> Plan:
    """S on n1, A on `second`."""
    assignment = {"S[0]": "n1", "A[0]": second}
    return Plan(generation=generation, kind="recover", assignment=assignment, **changes)


def losing(node: str) -> Shell:
    """S runs on n1, A has run on a node that is gone."""
    shell = Shell(chain(), Recorded())
    shell.plan = spread(1, node)
    shell.ready = {"n1", node}
    shell.turn()
    shell.absent, shell.ready = {"A[0]"}, {"n1"}
    shell.machine.handle(TasksPlaced(at=2.0, absent={"A[0]"}, reachable=True))
    return shell


def test_a_plan_does_not_wait_for_a_node_whose_partitions_run_nowhere() -> None:
    """The other nodes go over to it at once; further waves are planned only when it is applied."""
    shell = losing("n2")
    shell.plan = spread(2, "n3")
    told = shell.turn(at=3.0)
    assert published(told).generation == 2
    assert published(told).absent == ["A[0]"]
    assert shell.machine.tracker.restore == {"A[0]": 0}
    shell.absent, shell.ready = set(), {"n1", "n3"}
    assert published(shell.turn(at=4.0)).absent == []


def test_a_plan_waits_for_a_node_that_is_to_run_what_runs_elsewhere() -> None:
    shell = Shell(chain(), Recorded())
    shell.turn()
    shell.plan = spread(2, "n3")
    assert published(shell.turn(at=2.0)).generation == 1


def test_a_plan_that_puts_back_everything_waits_for_all_nodes() -> None:
    shell = losing("n2")
    shell.plan = spread(2, "n3", rollback=True)
    assert published(shell.turn(at=3.0)).generation == 1


def test_a_checkpoint_of_an_undone_history_is_refused() -> None:
    """Its number is between those that are kept: the log has its epochs, and they came out otherwise."""
    shell = Shell(chain(deterministic=False), trimmed(), kept=(10, 15))
    shell.turn()
    shell.plan = gone_back(2, checkpoint=12)
    assert published(shell.turn(at=2.0)).refused == 2


def test_without_any_checkpoint_an_operator_is_told_what_is_left_to_do() -> None:
    recorded = Recorded(head=20, oldest=18, position=Position(20, checkpoint=15), generation=1)
    shell = Shell(chain(), recorded)
    shell.plan = gone_back(2, checkpoint=7)
    told = shell.turn()
    assert published(told).restorable == []
    assert "deploy it again" in next(one for one in told if isinstance(one, TellProblem)).hint


def test_what_a_plan_starts_from_is_kept_until_it_is_applied() -> None:
    """Its nodes are not there yet, and the run that goes on completes one checkpoint after the other."""
    for checkpoint, log_below in ((10, 10), (15, 10), (0, 0)):
        recorded = trimmed() if checkpoint else Recorded(generation=1, homes=trimmed().homes)
        shell = Shell(chain(), recorded, kept=(10, 15) if checkpoint else ())
        shell.turn()
        shell.plan, shell.ready = gone_back(2, checkpoint), set()
        shell.turn(at=2.0)
        retired = [
            one for at in range(20, 80, 10) for one in shell.turn(at=float(at)) if isinstance(one, Retire)
        ]
        assert len(retired) == 6
        kept = shell.machine.checkpoints.kept
        assert len(kept) == (4 if checkpoint else 3)
        assert all(one.log_below <= max(checkpoint, log_below) for one in retired)
        shell.ready = {"n1"}
        told = shell.turn(at=90.0)
        applied = next(one for one in told if isinstance(one, RecordPlan))
        assert applied.position.checkpoint == checkpoint
        shell.turn(at=91.0)
        assert shell.machine.checkpoints.held is None


def test_a_plan_of_a_later_deployment_ends_the_driver() -> None:
    """Whatever kind it is of: the plan that deployed it may have been superseded before it was published."""
    for later in (plan(2), gone_back(3, checkpoint=0, deployed=2)):
        shell = Shell(chain(), trimmed(), kept=(10, 15))
        shell.turn()
        shell.plan = later
        (told,) = shell.machine.handle(shell.news(2.0))
        assert told == MakeWay(f"plan {later.generation} is of a later deployment")
    first = Shell(chain(), Recorded())
    first.plan = gone_back(3, checkpoint=0, deployed=2)
    assert RecordPlan in kinds(first.turn()), "a driver without a run starts with any plan"


def fork(deterministic: bool = True) -> Topology:
    """S -> A, S -> B."""
    outputs = [OperatorSpec(name=n, kind="k", inputs=(InputSpec(source="S"),), output=True) for n in "AB"]
    source = OperatorSpec(name="S", kind="k", deterministic=deterministic)
    return Topology(TopologySpec(name="t", operators=(source, *outputs)))


class Behind(Shell):
    """Epochs fall due by the clock, and B is behind the others. `told` holds what the replay is to do."""

    def __init__(self, deterministic: bool = True) -> None:
        super().__init__(fork(deterministic), Recorded())
        self.machine = EpochMachine(
            self.topology,
            Recorded(),
            Checkpoints("t", self.topology.partitions, interval=1000.0, since=0.0),
            realtime=True,
            at=0.0,
        )
        self.homes = dict.fromkeys(self.topology.partitions, "n1")
        self.plan = Plan(generation=1, kind="deploy", assignment=self.homes)
        for second in range(1, 101):
            self.turn(float(second))
        self.lose_b(2)

    def lose_b(self, generation: int) -> None:
        self.plan = Plan(
            generation=generation,
            kind="recover",
            assignment=self.homes,
            restore=["B[0]"],
            buffering=True,
        )

    def jobs(self) -> list[RunJob]:
        return [one for one in self.told if isinstance(one, RunJob)]

    def replay(self) -> RunJob:
        """The one that was started in the last turn."""
        (started,) = (one for one in self.told if isinstance(one, StartReplay))
        return started.job


def ran(job: RunJob) -> set[str]:
    assert job.lane is not None
    return set(job.lane.starts)


def test_a_replay_runs_beside_the_present() -> None:
    """A and S go on epoch after epoch, whatever time B's replay takes."""
    shell = Behind()
    shell.turn(101.0)
    replay = shell.replay()
    assert "B[0]" in ran(replay)
    assert replay.spare
    for second in range(102, 110):
        told = kinds(shell.turn(float(second)))
        assert StartReplay not in told
        assert [ran(job) for job in shell.jobs()] == [{"S[0]", "A[0]"}]
    assert shell.machine.tracker.progress["B[0]"] == 0
    shell.machine.handle(ReplayEnded(at=110.0, took=0.5, reports=done(replay), disturbed=False))
    assert shell.machine.tracker.progress["B[0]"] == shell.machine.sizes.together


def test_how_much_is_replayed_follows_the_time_that_the_replay_ran() -> None:
    """Not the time until its result was taken: that is the time of the job of the present beside it."""
    shell = Behind()
    shell.turn(101.0)
    replay, before = shell.replay(), shell.machine.sizes.replay
    for second in range(102, 115):
        shell.turn(float(second))
    shell.machine.handle(ReplayEnded(at=115.0, took=0.5, reports=done(replay), disturbed=False))
    assert shell.machine.sizes.replay == 2 * before


def test_those_who_have_come_near_join_the_present() -> None:
    shell = Behind()
    at = 101.0
    for _ in range(40):
        told = shell.turn(at)
        if any(isinstance(one, StartReplay) for one in told):
            at += 0.1
            shell.head -= 1
            shell.machine.handle(ReplayEnded(at=at, took=0.5, reports=done(shell.replay()), disturbed=False))
        at += 1.0
    assert not shell.machine.tracker.behind(shell.head)
    assert [ran(job) for job in shell.jobs()] == [{"S[0]", "A[0]", "B[0]"}]


@pytest.mark.parametrize("lacks", [1, 3])
@pytest.mark.parametrize("second", [105.0, 101.0 + KEPT + 1.0])
def test_queries_that_give_output_wait_for_one_epoch_while_they_come_first(lacks: int, second: float) -> None:
    """Later they wait for more, since a slow replay would not arrive otherwise."""
    shell = Behind()
    shell.turn(101.0)
    shell.machine.handle(ReplayEnded(at=101.5, took=0.5, reports=done(shell.replay()), disturbed=False))
    shell.machine.sizes.replay = shell.machine.sizes.together * 8
    assert shell.machine.sizes.join >= 3
    progress = shell.machine.tracker.progress
    progress["B[0]"] = progress["A[0]"] - lacks
    shell.turn(second)
    (job,) = shell.jobs()
    assert ("B[0]" in ran(job)) is (lacks == 1 or second > 101.0 + KEPT)


def test_a_replay_has_to_end_before_a_plan_is_applied() -> None:
    shell = Behind()
    shell.turn(101.0)
    shell.lose_b(3)
    told = kinds(shell.turn(102.0))
    assert CancelReplay in told
    assert not {RecordPlan, RunJob, PlaceTasks} & set(told)
    assert CancelReplay not in kinds(shell.turn(102.1)), "once"
    shell.machine.handle(ReplayFailed(at=102.2, error="ended", cancelled=True))
    assert RecordPlan in kinds(shell.turn(102.3))


def test_a_replay_has_to_end_before_tasks_are_pinned_anew() -> None:
    shell = Behind()
    shell.turn(101.0)
    told = kinds(shell.turn(102.0, misplaced=True))
    assert CancelReplay in told
    assert PlaceTasks not in told
    shell.machine.handle(ReplayFailed(at=102.2, error="ended", cancelled=True))
    told = kinds(shell.turn(102.3, misplaced=True))
    assert {PlaceTasks, StartReplay} <= set(told)


def test_a_replay_that_spark_gives_up_is_tried_again_and_again_until_the_driver_gives_up() -> None:
    shell = Behind()
    at = 101.0
    for attempt in range(1, MAX_FAILURES + 1):
        shell.turn(at)
        assert shell.replay()
        told = shell.machine.handle(ReplayFailed(at=at, error="no space", cancelled=False))
        assert any(isinstance(one, TellProblem) for one in told)
        assert any(isinstance(one, GiveUp) for one in told) == (attempt == MAX_FAILURES)
        shell.turn(at + 0.1)
        assert not any(isinstance(one, StartReplay) for one in shell.told), "after a pause"
        at += 5.0


def test_what_a_replay_found_is_void_after_state_was_lost() -> None:
    """B, which it brings nearer, has to start from the checkpoint again."""
    shell = Behind()
    shell.turn(101.0)
    replay = shell.replay()
    gone = TaskReport(
        slot=0, level=0, node="n1", partitions={"A[0]": PartitionReport(epoch=101, error="x", missing=True)}
    )
    shell.reports = [gone]
    shell.turn(102.0)
    assert shell.machine.handle(ReplayEnded(at=103.0, took=0.5, reports=done(replay), disturbed=False)) == []
    assert shell.machine.tracker.progress["B[0]"] == 0


def test_what_is_not_deterministic_is_not_ended_for_a_plan() -> None:
    """All partitions would have to start again, because tasks may have given output already."""
    shell = Behind(deterministic=False)
    # What B needs is buffered; a fork would have all start again.
    shell.machine.tracker.coverage.add(("S[0]", "B[0]"), 1, 1000, "n1")
    shell.turn(101.0)
    replay = shell.replay()
    shell.lose_b(3)
    assert not {CancelReplay, RunJob, RecordPlan} & set(kinds(shell.turn(102.0)))
    shell.machine.handle(ReplayEnded(at=102.2, took=0.5, reports=done(replay), disturbed=False))
    assert RecordPlan in kinds(shell.turn(102.3))


def test_after_all_started_again_what_a_replay_found_is_of_another_history() -> None:
    shell = Behind(deterministic=False)
    shell.machine.tracker.coverage.add(("S[0]", "B[0]"), 1, 1000, "n1")
    shell.turn(101.0)
    replay = shell.replay()
    shell.disturbed = True
    shell.turn(102.0)
    assert CancelReplay in kinds(shell.turn(102.1)), "nothing else begins before it has ended"
    assert not shell.jobs()
    shell.machine.handle(ReplayEnded(at=102.2, took=0.5, reports=done(replay), disturbed=False))
    assert set(shell.machine.tracker.progress.values()) == {0}


def test_beside_a_replay_nothing_goes_that_it_may_read() -> None:
    """Neither old states nor buffers: for the former there is time, for the latter it has to end."""
    shell = Behind()
    shell.turn(101.0)
    shell.machine._trim = True
    shell.turn(102.0)
    assert [job.trim_below for job in shell.jobs()] == [0]
    shell.machine._drop_buffers = True
    assert CancelReplay in kinds(shell.turn(103.0))
    assert not shell.jobs()
    shell.machine.handle(ReplayFailed(at=103.1, error="ended", cancelled=True))
    shell.turn(103.2)
    assert [job.drop_buffers for job in shell.jobs()] == [True]
    assert StartReplay not in kinds(shell.told)


@pytest.mark.parametrize("nearer", [True, False])
def test_replay_is_hurried_only_where_it_would_never_arrive(nearer: bool) -> None:
    """Each turn has one more epoch of the present. A replay that gains on it stays in the time that others
    leave; where it does not gain, those ahead wait for it, or it would never arrive."""
    shell = Behind()
    at, spare, waited = 101.0, True, 0
    while at < 101.0 + KEPT + 2 * LOOK_EVERY:
        told = shell.turn(at)
        waited += not shell.jobs()
        for one in told:
            if isinstance(one, StartReplay):
                spare = one.job.spare
                if nearer:
                    shell.machine.handle(ReplayEnded(at=at, took=0.5, reports=done(one.job), disturbed=False))
        at += 1.0
    if nearer:
        assert (spare, waited) == (True, 0)
        return
    assert waited > LOOK_EVERY / 2
    shell.machine.handle(ReplayFailed(at=at, error="ended", cancelled=True))
    shell.turn(at + 1.0)
    assert not shell.replay().spare


def on_two_nodes() -> Behind:
    """A runs on n1 with S, B on n2, which is slow from now on; plan 2 put B back, and it has arrived."""
    shell = Behind()
    shell.ready = {"n1", "n2"}
    shell.homes = {**shell.homes, "B[0]": "n2"}
    shell.lose_b(3)
    at = 101.0
    while shell.machine.tracker.progress["B[0]"] < shell.head or shell.machine.generation < 3:
        for one in shell.turn(at):
            if isinstance(one, StartReplay):
                shell.machine.handle(ReplayEnded(at=at, took=0.5, reports=done(one.job), disturbed=False))
        at += 1.0
    shell.machine.slowness.nodes = frozenset({"n2"})
    return shell


def test_a_slow_node_delays_only_what_needs_it() -> None:
    """Its partitions run after the present, in replays, which the present does not wait for."""
    shell = on_two_nodes()
    at, replayed = 500.0, 0
    for _ in range(100):
        told = shell.turn(at)
        (job,) = shell.jobs()
        assert ran(job) == {"S[0]", "A[0]"}
        for one in told:
            if isinstance(one, StartReplay):
                replayed += 1
                assert not one.job.spare, "its node has nothing else to do"
                assert one.job.lane is not None
                assert ran(one.job) == {"B[0]"}, "what S sends it is buffered"
                shell.machine.handle(ReplayEnded(at=at, took=0.5, reports=done(one.job), disturbed=False))
        at += 1.0
    assert replayed > 50
    assert published(told).slow == ["n2"]
    assert published(told).behind == ["B[0]"]
    shell.machine.slowness.nodes = frozenset()
    for _ in range(3):
        for one in shell.turn(at):
            if isinstance(one, StartReplay):
                shell.machine.handle(ReplayEnded(at=at, took=0.5, reports=done(one.job), disturbed=False))
        at += 1.0
    assert [ran(job) for job in shell.jobs()] == [{"S[0]", "A[0]", "B[0]"}]


def test_a_slow_node_that_every_query_needs_is_waited_for() -> None:
    shell = on_two_nodes()
    shell.machine.slowness.nodes = frozenset({"n1"})
    shell.turn(500.0)
    assert [ran(job) for job in shell.jobs()] == [{"S[0]", "A[0]", "B[0]"}]


def test_those_on_a_slow_node_never_hurry_the_others() -> None:
    """They come no nearer, and the present does not wait for them."""
    shell = on_two_nodes()
    at = 500.0
    while at < 500.0 + KEPT + 5 * LOOK_EVERY:
        shell.turn(at)
        assert [ran(job) for job in shell.jobs()] == [{"S[0]", "A[0]"}]
        at += 1.0


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


def checkpoint_under_way(shell: Shell) -> int:
    pending = shell.machine.checkpoints.pending
    return pending.checkpoint if pending is not None else 0
