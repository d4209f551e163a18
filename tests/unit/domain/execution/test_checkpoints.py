"""The checkpoint coordinator: a checkpoint is complete only when all acknowledged, fails with its cause, and
is fenced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from domain.execution.checkpoints import (
    SPREAD,
    UPLOAD_TIMEOUT,
    Checkpoints,
    complete_checkpoints,
)
from domain.execution.instructions import PointTo, TellCheckpoint, TellProblem
from domain.messages import CheckpointAck, CheckpointReport, LatestCheckpoint


class Store:
    def __init__(self) -> None:
        self.acks: list[CheckpointAck] = []
        self.latest: LatestCheckpoint | None = None
        self.away = False

    def acknowledgements(self, checkpoint: int) -> list[CheckpointAck]:
        return [ack for ack in self.acks if ack.checkpoint == checkpoint]

    def complete(self, latest: LatestCheckpoint) -> bool:
        if not self.away:
            self.latest = latest
        return not self.away


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def ack(
    partition: str, *, checkpoint: int = 7, generation: int = 2, attempt: int = 0, error: str = ""
) -> CheckpointAck:
    return CheckpointAck(
        partition=partition,
        checkpoint=checkpoint,
        generation=generation,
        attempt=attempt,
        node="node-1",
        size_bytes=10,
        uploaded_bytes=5,
        files=1,
        duration=0.1,
        error=error,
    )


class Coordinator:
    """Carries out the instructions of `Checkpoints`, and gives it the answers of the store."""

    def __init__(self, checkpoints: Checkpoints, store: Store, clock: Clock) -> None:
        self.checkpoints, self.store, self.clock = checkpoints, store, clock
        self.reports: list[CheckpointReport] = []
        self.problems: list[str] = []

    def carry_out(self, instructions: Sequence[TellCheckpoint | TellProblem | PointTo]) -> None:
        for instruction in instructions:
            if isinstance(instruction, TellCheckpoint):
                self.reports.append(instruction.report)
            elif isinstance(instruction, TellProblem):
                self.problems.append(instruction.what)
            else:
                accepted = self.store.complete(instruction.latest)
                self.carry_out(self.checkpoints.pointed(accepted=accepted, at=self.clock()))

    def started(self, *, checkpoint: int, generation: int, request: int, attempt: int = 0) -> None:
        told = self.checkpoints.started(
            checkpoint=checkpoint, generation=generation, attempt=attempt, request=request, at=self.clock()
        )
        self.carry_out(told)

    def poll(self) -> None:
        pending = self.checkpoints.pending
        found = self.store.acknowledgements(pending.checkpoint) if pending is not None else []
        self.carry_out(self.checkpoints.acknowledged(found, self.clock()))

    def gone_back(self, *, checkpoint: int, generation: int) -> None:
        at = self.clock()
        self.carry_out(self.checkpoints.gone_back(checkpoint=checkpoint, generation=generation, at=at))

    def fail(self, cause: str) -> None:
        self.carry_out(self.checkpoints.fail(cause, self.clock()))

    def complete(self, number: int) -> None:
        self.started(checkpoint=number, generation=2, request=0)
        self.store.acks = [ack(one, checkpoint=number) for one in self.checkpoints.partitions]
        self.poll()

    def cannot_be_stored(self, number: int) -> None:
        self.started(checkpoint=number, generation=2, request=0)
        self.store.acks = [ack("A[1]", checkpoint=number, error="no space left")]
        self.poll()

    def wanted(self, request: int) -> bool:
        self.checkpoints.asked(request)
        return self.checkpoints.wanted(self.clock())


World = tuple[Checkpoints, Coordinator, Store, Clock, list[CheckpointReport]]


@pytest.fixture
def world() -> World:
    store, clock = Store(), Clock()
    checkpoints = Checkpoints(topology="t", partitions=["A[0]", "A[1]"], interval=10.0, since=clock())
    coordinator = Coordinator(checkpoints, store, clock)
    return checkpoints, coordinator, store, clock, coordinator.reports


def test_complete_when_every_partition_acknowledged(world: World) -> None:
    checkpoints, coordinator, store, _, reports = world
    coordinator.started(checkpoint=7, generation=2, request=0)
    store.acks = [ack("A[0]")]
    coordinator.poll()
    assert checkpoints.latest == 0
    store.acks.append(ack("A[1]"))
    coordinator.poll()
    assert (checkpoints.latest, checkpoints.ended) == (7, True)
    assert store.latest is not None
    assert (store.latest.checkpoint, store.latest.size_bytes) == (7, 20)
    assert [report.state for report in reports] == ["started", "acknowledged", "completed"]
    assert reports[-1].acknowledged == reports[-1].total == 2
    assert [report.acknowledgements for report in reports] == [[], [], store.acks]


def test_acknowledgements_of_an_older_generation_do_not_count(world: World) -> None:
    checkpoints, coordinator, store, _, _ = world
    coordinator.started(checkpoint=7, generation=2, request=0)
    store.acks = [ack("A[0]"), ack("A[1]", generation=1)]
    coordinator.poll()
    assert checkpoints.pending is not None
    assert checkpoints.latest == 0


def test_acknowledgements_of_an_earlier_job_do_not_count(world: World) -> None:
    """At the end of an input the number is used again when all partitions had to start again."""
    checkpoints, coordinator, store, _, _ = world
    coordinator.started(checkpoint=7, generation=2, request=0, attempt=5)
    store.acks = [ack("A[0]", attempt=5), ack("A[1]", attempt=4, error="of the job before")]
    coordinator.poll()
    assert checkpoints.pending is not None
    store.acks[1] = ack("A[1]", attempt=5)
    coordinator.poll()
    assert checkpoints.latest == 7


def test_a_failed_upload_fails_the_checkpoint_with_its_cause(world: World) -> None:
    checkpoints, coordinator, store, _, reports = world
    coordinator.started(checkpoint=7, generation=2, request=0)
    store.acks = [ack("A[1]", error="no space left on /checkpoints")]
    coordinator.poll()
    assert checkpoints.pending is None
    assert checkpoints.latest == 0
    assert reports[-1].state == "failed"
    assert reports[-1].cause == "A[1] on node-1: no space left on /checkpoints"
    assert reports[-1].acknowledgements == store.acks


def test_silence_fails_it_too_and_names_the_silent_partitions(world: World) -> None:
    _, coordinator, store, clock, reports = world
    coordinator.started(checkpoint=7, generation=2, request=0)
    store.acks = [ack("A[0]")]
    clock.now += UPLOAD_TIMEOUT + 1
    coordinator.poll()
    assert reports[-1].state == "failed"
    assert "A[1]" in reports[-1].cause
    assert "A[0]" not in reports[-1].cause


def test_zookeeper_away_at_the_last_moment_is_tried_again(world: World) -> None:
    checkpoints, coordinator, store, _, _ = world
    coordinator.started(checkpoint=7, generation=2, request=0)
    store.acks, store.away = [ack("A[0]"), ack("A[1]")], True
    coordinator.poll()
    assert (checkpoints.latest, checkpoints.ended) == (0, False)
    store.away = False
    coordinator.poll()
    assert checkpoints.latest == 7


def test_wanted_by_time_or_request_but_one_at_a_time(world: World) -> None:
    _, coordinator, _, clock, _ = world
    assert not coordinator.wanted(0)
    assert coordinator.wanted(1)
    clock.now += 10.0
    assert coordinator.wanted(0)
    coordinator.started(checkpoint=7, generation=2, request=1)
    assert not coordinator.wanted(2)
    coordinator.fail("x")
    assert coordinator.wanted(2)
    assert not coordinator.wanted(1)


def test_requests_of_a_zookeeper_that_has_lost_its_data_count_anew(world: World) -> None:
    _, coordinator, _, _, _ = world
    coordinator.started(checkpoint=7, generation=2, request=5)
    coordinator.fail("x")
    assert not coordinator.wanted(0)
    assert coordinator.wanted(1)


def several(world: World, at_once: int = 2) -> Coordinator:
    """Checkpoints 7 and 9 are under way, of which 9 is acknowledged."""
    checkpoints, coordinator, store, clock, _ = world
    checkpoints.at_once = at_once
    coordinator.started(checkpoint=7, generation=2, request=0)
    clock.now += 10.0
    assert coordinator.wanted(0)
    coordinator.started(checkpoint=9, generation=2, request=0)
    store.acks = [ack(one, checkpoint=9) for one in checkpoints.partitions]
    return coordinator


def test_several_are_under_way_and_complete_in_their_order(world: World) -> None:
    checkpoints, _, store, clock, reports = world
    coordinator = several(world)
    clock.now += 10.0
    assert not coordinator.wanted(1), "as many as may be"
    coordinator.poll()
    assert (checkpoints.latest, len(checkpoints.under_way)) == (0, 2)
    store.acks += [ack(one) for one in checkpoints.partitions]
    coordinator.poll()
    assert checkpoints.kept == [7]
    assert coordinator.wanted(0)
    coordinator.poll()
    assert (checkpoints.kept, checkpoints.under_way) == ([7, 9], [])
    assert [(report.checkpoint, report.state) for report in reports] == [
        (7, "started"), (9, "started"), (7, "completed"), (9, "completed"),
    ]  # fmt: skip


def test_one_that_cannot_be_stored_leaves_the_next(world: World) -> None:
    checkpoints, coordinator, store, _, reports = world
    several(world).store.acks.append(ack("A[0]", error="no space left"))
    coordinator.poll()
    assert [one.checkpoint for one in checkpoints.under_way] == [9]
    coordinator.poll()
    assert (checkpoints.kept, coordinator.problems) == ([9], [])
    assert [(report.checkpoint, report.state) for report in reports[2:]] == [(7, "failed"), (9, "completed")]
    assert store.latest is not None


def test_a_plan_ends_all_that_are_under_way(world: World) -> None:
    checkpoints, _, _, _, reports = world
    several(world, at_once=3).fail("superseded by plan 3")
    assert (checkpoints.under_way, checkpoints.ended) == ([], True)
    assert [(report.checkpoint, report.state) for report in reports[2:]] == [(7, "failed"), (9, "failed")]


def test_what_leaves_no_snapshot_ends_the_newest_alone(world: World) -> None:
    checkpoints, _, _, clock, _ = world
    several(world)
    checkpoints.fail_newest("no snapshot of A[0]", clock())
    assert [one.checkpoint for one in checkpoints.under_way] == [7]


def test_what_is_newer_than_the_checkpoint_gone_back_to_is_undone(world: World) -> None:
    checkpoints, coordinator, store, _, _ = world
    for number in (7, 9, 12, 15):
        coordinator.started(checkpoint=number, generation=2, request=0)
        store.acks = [ack(partition, checkpoint=number) for partition in checkpoints.partitions]
        coordinator.poll()
    assert checkpoints.kept == [9, 12, 15]
    coordinator.gone_back(checkpoint=12, generation=3)
    assert (checkpoints.kept, checkpoints.latest, checkpoints.highest) == ([9, 12], 12, 15)
    newest = store.latest
    assert newest is not None
    assert (newest.checkpoint, newest.generation, newest.kept, newest.highest) == (12, 3, [9, 12], 15)
    again = replace(checkpoints, kept=complete_checkpoints(newest), highest=newest.highest)
    assert (again.latest, again.highest) == (12, 15), "a driver started anew"
    coordinator.gone_back(checkpoint=12, generation=4)
    assert store.latest is newest, "nothing newer was left"


def test_what_is_held_stays_besides_the_newest(world: World) -> None:
    checkpoints, coordinator, store, _, _ = world
    for number in (7, 9, 12, 15, 18):
        coordinator.started(checkpoint=number, generation=2, request=0)
        store.acks = [ack(partition, checkpoint=number) for partition in checkpoints.partitions]
        coordinator.poll()
        checkpoints.held = 9
    assert checkpoints.kept == [9, 12, 15, 18]
    checkpoints.held = None
    coordinator.started(checkpoint=20, generation=2, request=0)
    store.acks = [ack(partition, checkpoint=20) for partition in checkpoints.partitions]
    coordinator.poll()
    assert checkpoints.kept == [15, 18, 20]


@pytest.mark.parametrize(("kept", "found"), [([9, 12], [9, 12]), ([], [12])])
def test_a_new_driver_knows_what_zookeeper_names(kept: list[int], found: list[int]) -> None:
    told = LatestCheckpoint(checkpoint=12, generation=2, completed_at=1.0, size_bytes=1, kept=kept)
    assert complete_checkpoints(told) == found
    assert complete_checkpoints(None) == []


def test_so_many_of_the_newest_stay(world: World) -> None:
    checkpoints, coordinator, store, _, _ = world
    checkpoints.keep, checkpoints.held = 5, 2
    for number in range(1, 12):
        coordinator.started(checkpoint=number, generation=2, request=0)
        store.acks = [ack(one, checkpoint=number) for one in ("A[0]", "A[1]")]
        coordinator.poll()
    assert checkpoints.kept == [2, 7, 8, 9, 10, 11]
    with pytest.raises(ValueError, match="at least one checkpoint"):
        Checkpoints(topology="t", partitions=["A[0]"], interval=1.0, since=0.0, keep=0)


def test_of_those_kept_the_old_ones_go(world: World) -> None:
    """But for the newest three, and the one that a plan starts from."""
    checkpoints, coordinator, store, clock, _ = world
    checkpoints.keep, checkpoints.keep_for = 10, 100.0
    for number in range(1, 7):
        coordinator.complete(number)
        clock.now += 10
    assert checkpoints.kept == [1, 2, 3, 4, 5, 6]
    clock.now += 60
    coordinator.complete(7)
    assert checkpoints.kept == [4, 5, 6, 7], "3 is 100 seconds old, 4 is younger"
    checkpoints.held = 5
    clock.now += 1000
    coordinator.complete(8)
    assert checkpoints.kept == [5, 6, 7, 8]
    checkpoints.held = None
    coordinator.complete(9)
    assert checkpoints.kept == [7, 8, 9]
    assert store.latest is not None
    assert store.latest.kept_at == [clock.now - 1000, clock.now, clock.now]


def test_a_new_driver_knows_how_old_checkpoints_are(world: World) -> None:
    checkpoints, coordinator, store, clock, _ = world
    checkpoints.keep = 10
    for number in range(1, 6):
        coordinator.complete(number)
        clock.now += 10
    told = store.latest
    assert told is not None
    again = replace(
        checkpoints, kept=told.kept, keep_for=31.0, completed=dict(zip(told.kept, told.kept_at, strict=True))
    )
    Coordinator(again, store, clock).complete(6)
    assert again.kept == [3, 4, 5, 6]
    unknown = replace(checkpoints, kept=told.kept, keep_for=30.0, since=clock(), completed={})
    Coordinator(unknown, store, clock).complete(6)
    assert unknown.kept == [1, 2, 3, 4, 5, 6], "of versions before, none is called old"


def test_what_was_undone_is_no_newer_than_what_stays(world: World) -> None:
    checkpoints, coordinator, _, _, _ = world
    for number in (7, 9):
        coordinator.complete(number)
    coordinator.gone_back(checkpoint=7, generation=3)
    assert set(checkpoints.completed) == {7}


@pytest.mark.parametrize("fails", [False, True])
def test_between_two_checkpoints_is_a_pause(world: World, fails: bool) -> None:
    checkpoints, coordinator, _, clock, _ = world
    checkpoints.pause = 30.0
    coordinator.started(checkpoint=7, generation=2, request=0)
    clock.now += 8
    if fails:
        coordinator.fail("x")
    else:
        coordinator.store.acks = [ack(one) for one in checkpoints.partitions]
        coordinator.poll()
    clock.now += 29
    assert not coordinator.wanted(0)
    assert coordinator.wanted(1), "an operator asks"
    clock.now += 1
    assert coordinator.wanted(0)


def test_the_timeout_is_that_of_the_topology(world: World) -> None:
    checkpoints, coordinator, _, clock, reports = world
    checkpoints.timeout = 300.0
    coordinator.started(checkpoint=7, generation=2, request=0)
    clock.now += 300
    coordinator.poll()
    assert checkpoints.pending is not None
    clock.now += 1
    coordinator.poll()
    assert reports[-1].cause == "not acknowledged in 300 s by A[0], A[1]"


def test_failures_in_a_row_are_a_problem(world: World) -> None:
    """Those of the storage: what a plan ended says nothing about it, and is between them."""
    checkpoints, coordinator, _, clock, _ = world
    checkpoints.tolerated = 2
    for number in (1, 2):
        coordinator.cannot_be_stored(number)
        coordinator.started(checkpoint=number, generation=2, request=0)
        coordinator.fail("superseded by plan 3")
    assert coordinator.problems == []
    coordinator.complete(3)
    for number in (4, 5):
        coordinator.cannot_be_stored(number)
    assert coordinator.problems == [], "one was stored in between"
    coordinator.cannot_be_stored(6)
    assert coordinator.problems == ["more than 2 in a row could not be stored"]
    coordinator.started(checkpoint=7, generation=2, request=0)
    clock.now += UPLOAD_TIMEOUT + 1
    coordinator.poll()
    assert len(coordinator.problems) == 2
    coordinator.complete(8)
    coordinator.cannot_be_stored(9)
    assert len(coordinator.problems) == 2


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({"interval": 10.0}, SPREAD),
        ({"interval": 3.0}, 1.5),
        ({"interval": 1000.0}, SPREAD),
        ({"interval": 10.0, "timeout": 12.0}, 2.0),
        ({"interval": 10.0, "synchronous": True}, 0.0),
    ],
)
def test_uploads_are_spread_out_only_where_nothing_waits_for_them(
    settings: dict[str, Any], seconds: float
) -> None:
    coordinator = Checkpoints(topology="t", partitions=["A[0]"], since=0.0, **settings)
    assert coordinator.spread == seconds


def test_uploads_are_spread_out_over_less_once_checkpoints_are_made_more_often() -> None:
    coordinator = Checkpoints(topology="t", partitions=["A[0]"], interval=10.0, since=0.0)
    coordinator.set_interval(1.0, 5.0)
    assert coordinator.spread == 0.5
