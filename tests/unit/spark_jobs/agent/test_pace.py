"""How fast uploads go on, on clocks that only waiting and working move."""

from __future__ import annotations

import pytest

from spark_jobs.agent.pace import AT_ONCE, LATE, SHARE, USED, Bucket, Pace, Slot, slot

BEGIN = 100.0


class Clock:
    """`now` in seconds, and the CPU seconds of a thread."""

    def __init__(self) -> None:
        self.now = BEGIN
        self.processor = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def work(self, seconds: float) -> None:
        self.now += seconds
        self.processor += seconds

    def read(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def bucket(clock: Clock, cores: float = 1.0) -> Bucket:
    return Bucket(cores, clock=clock.read)


def pace(clock: Clock, seconds: float, shared: Bucket | None = None, begin: float = BEGIN) -> Pace:
    return Pace(
        shared or bucket(clock),
        Slot(begin, seconds),
        sleep=clock.sleep,
        clock=clock.read,
        processor=lambda: clock.processor,
    )


def upload(clock: Clock, one: Pace, groups: int, work: float) -> list[bool]:
    """What the pace says before each group."""
    said = []
    for number in range(groups):
        said.append(one(number / groups))
        clock.work(work)
    one.tell()
    return said


@pytest.mark.parametrize("cores", [0.2, 1.0, 4.0])
def test_an_upload_on_schedule_takes_a_share_of_the_node(clock: Clock, cores: float) -> None:
    assert all(upload(clock, pace(clock, 1e6, bucket(clock, cores)), 1000, 0.02))
    assert clock.processor / (clock.now - BEGIN) / cores == pytest.approx(SHARE, rel=0.05)


def test_what_is_small_is_not_held_up(clock: Clock) -> None:
    assert upload(clock, pace(clock, 5.0), 2, AT_ONCE / 2) == [True, True]
    assert clock.slept == []


def test_a_node_that_rested_does_not_save_up(clock: Clock) -> None:
    shared = bucket(clock)
    clock.now += 1000.0
    shared.took(AT_ONCE + 0.1)
    assert shared.reserve(0.0) == pytest.approx(0.1 / SHARE)


def test_a_large_upload_is_spread_over_its_schedule_and_no_longer(clock: Clock) -> None:
    """It takes two CPU seconds, for which the share would have 16 seconds."""
    said = upload(clock, pace(clock, 5.0), 100, 0.02)
    assert all(said)
    assert 5.0 * USED * 0.95 <= clock.now - BEGIN <= 5.0 * USED * 1.05
    assert max(clock.slept) <= 0.1, "it goes on evenly"


def test_an_upload_that_is_late_stores_the_rest_at_once(clock: Clock) -> None:
    one = pace(clock, 5.0)
    assert one(0.0)
    clock.work(5.0 * USED / 2 + 5.0 * LATE / 2)
    assert one(0.5), "a little late: in groups, without a pause"
    clock.work(5.0 * LATE)
    assert not one(0.5)
    assert clock.slept == []


def test_what_waited_for_longer_than_its_schedule_is_stored_at_once(clock: Clock) -> None:
    assert not pace(clock, 5.0, begin=BEGIN - 60.0)(0.0)


def test_without_a_schedule_nothing_waits(clock: Clock) -> None:
    shared = bucket(clock)
    shared.took(10.0)
    assert not pace(clock, 0.0, shared)(0.0)
    assert clock.slept == []


def test_threads_take_turns(clock: Clock) -> None:
    """What one has reserved, another one waits for; what was not taken is given back."""
    shared = bucket(clock)
    shared.took(AT_ONCE)
    assert shared.reserve(0.02) == 0.0
    assert shared.reserve(0.02) == pytest.approx(0.02 / SHARE)
    assert shared.reserve(0.02) == pytest.approx(0.04 / SHARE)
    shared.took(-0.02)
    assert shared.reserve(0.0) == pytest.approx(0.04 / SHARE)
    shared.took(-1000.0)
    assert shared.reserve(0.0) == 0.0


def test_uploads_of_a_checkpoint_share_its_time() -> None:
    slots = [slot(taken_at=BEGIN, spread=6.0, place=place, of=3) for place in range(3)]
    assert slots == [Slot(BEGIN, 2.0), Slot(BEGIN + 2.0, 2.0), Slot(BEGIN + 4.0, 2.0)]


def test_a_node_without_cpu_is_refused(clock: Clock) -> None:
    with pytest.raises(ValueError, match="not 0 cores"):
        bucket(clock, 0)
