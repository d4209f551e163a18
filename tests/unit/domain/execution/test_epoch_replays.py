"""What the epoch machine replays beside the present, and nodes that are slow."""

from __future__ import annotations

import msgspec
import pytest

from domain.execution.checkpoints import Checkpoints
from domain.execution.epoch_machine import MAX_FAILURES, EpochMachine, Recorded
from domain.execution.instructions import (
    CancelReplay,
    GiveUp,
    PlaceTasks,
    RecordPlan,
    ReplayEnded,
    ReplayFailed,
    StartReplay,
    TellProblem,
)
from domain.execution.job import PartitionReport, RunJob, TaskReport
from domain.execution.job_sizes import KEPT, LOOK_EVERY
from domain.execution.replay import GATHER
from domain.messages import Plan
from domain.topology import Topology
from domain.topology.spec import InputSpec, OperatorSpec, TopologySpec
from tests.unit.domain.execution.epoch_shell import (
    Shell,
    done,
    kinds,
    published,
)


def fork(deterministic: bool = True, names: str = "AB") -> Topology:
    """S -> A, S -> B."""
    outputs = [OperatorSpec(name=n, kind="k", inputs=(InputSpec(source="S"),), output=True) for n in names]
    source = OperatorSpec(name="S", kind="k", deterministic=deterministic)
    return Topology(TopologySpec(name="t", operators=(source, *outputs)))


class Behind(Shell):
    """Epochs fall due by the clock, and B is behind the others. `told` holds what the replay is to do."""

    def __init__(self, deterministic: bool = True, names: str = "AB") -> None:
        super().__init__(fork(deterministic, names), Recorded())
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


def joining() -> Behind:
    """A gives output, B is behind, and C is to run on n2, which is not ready. This is known at 101.0."""
    shell = Behind(names="ABC")
    shell.plan = Plan(generation=1, kind="deploy", assignment=shell.homes)
    shell.absent = {"C[0]"}
    shell.turn(100.5)
    shell.plan = Plan(
        generation=2,
        kind="recover",
        assignment={**shell.homes, "C[0]": "n2"},
        restore=["B[0]", "C[0]"],
        buffering=True,
    )
    return shell


def test_a_replay_waits_for_partitions_on_a_node_that_is_about_to_work() -> None:
    shell = joining()
    for second in (101.0, 102.0, 103.0):
        told = kinds(shell.turn(second, warming={"n2"}))
        assert StartReplay not in told
        assert [ran(job) for job in shell.jobs()] == [{"S[0]", "A[0]"}], "the present goes on"
    shell.ready, shell.absent = {"n1", "n2"}, set()
    shell.turn(104.0)
    assert {"B[0]", "C[0]"} <= ran(shell.replay())


def test_it_waits_no_longer_than_that() -> None:
    shell = joining()
    shell.turn(101.0, warming={"n2"})
    assert StartReplay not in kinds(shell.turn(100.9 + GATHER, warming={"n2"}))
    shell.turn(101.0 + GATHER, warming={"n2"})
    assert "C[0]" not in ran(shell.replay())
    shell.machine.handle(ReplayEnded(at=113.0, took=0.5, reports=done(shell.replay()), disturbed=False))
    shell.turn(114.0, warming={"n2"})
    assert ran(shell.replay()), "not again for the next one"


def test_it_waits_again_under_a_new_plan() -> None:
    shell = joining()
    shell.turn(101.0, warming={"n2"})
    shell.turn(101.0 + GATHER, warming={"n2"})
    shell.machine.handle(ReplayEnded(at=112.0, took=0.5, reports=done(shell.replay()), disturbed=False))
    shell.plan = msgspec.structs.replace(shell.plan, generation=3)
    told: list[type] = []
    for second in range(113, 120):
        told = kinds(shell.turn(float(second), warming={"n2"}))
        if CancelReplay in told:
            shell.machine.handle(ReplayFailed(at=float(second), error="", cancelled=True))
        if RecordPlan in told:
            break
    assert RecordPlan in told
    assert StartReplay not in told


@pytest.mark.parametrize("case", ["none is about to work", "another node", "no query gives output"])
def test_a_replay_that_nothing_would_join_does_not_wait(case: str) -> None:
    shell = joining()
    if case == "no query gives output":
        shell.absent = {"A[0]", "C[0]"}
    shell.turn(101.0, warming={"none is about to work": set(), "another node": {"n3"}}.get(case, {"n2"}))
    assert "B[0]" in ran(shell.replay())


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
