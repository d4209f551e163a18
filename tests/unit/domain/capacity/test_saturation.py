"""Load, and since when more comes in than is worked off."""

from __future__ import annotations

import pytest

from domain.capacity import Pace, Saturation
from domain.capacity.saturation import AWAY, SETTLING, WAITS, WINDOW

MOST = 8
"""Epochs in a job."""


class Driver:
    """Runs jobs one after the other, each of what is due, with `work` seconds for each second of input."""

    def __init__(self, interval: float = 1.0, *, cycle: float = 0.0, ends: float = 0.0) -> None:
        """ends: seconds that an epoch takes besides in which windows end, one in each cycle."""
        self.subject = Saturation()
        self.cycle, self.ends = cycle, ends
        self.interval = interval
        self.now = 1000.0
        self.done = 0.0  # seconds of input that were worked off
        self.pace = Pace()

    def run(self, seconds: float, work: float, *, generation: int = 1, replayed: bool = False) -> Pace:
        end = self.now + seconds
        while self.now < end:
            due = int((self.now - 1000.0 - self.done) / self.interval)
            if due < 1:
                self.now += self.interval / 10
                continue
            started = self.now
            at_once = min(due, MOST)
            self.now += at_once * self.interval * work
            windows = int((self.done + at_once * self.interval) / self.cycle) if self.cycle else 0
            self.now += self.ends * (windows - int(self.done / self.cycle)) if self.cycle else 0.0
            self.done += at_once * self.interval
            self.pace = self.subject.observe(
                generation=generation,
                started=started,
                ended=self.now,
                epochs=at_once,
                waiting=due - at_once,
                interval=self.interval,
                replayed=replayed,
                cycle=self.cycle,
            )
        return self.pace


def test_load_is_work_for_each_second_of_input() -> None:
    pace = Driver().run(SETTLING + WINDOW, 0.4)
    assert pace.load == pytest.approx(0.4)
    assert (pace.lag, pace.overloaded_since) == (0.0, None)


def test_nothing_is_judged_while_nodes_are_cold() -> None:
    driver = Driver()
    pace = driver.run(SETTLING / 3, 1.5)
    assert pace.lag > 1.0
    assert (pace.load, pace.overloaded_since) == (None, None)


@pytest.mark.parametrize("interval", [0.25, 1.0, 5.0])
def test_more_input_than_is_worked_off_is_an_overload(interval: float) -> None:
    driver = Driver(interval)
    driver.run(SETTLING + WINDOW, 0.6)
    began = driver.now
    pace = driver.run(max(60.0, 10 * interval), 1.4)
    assert pace.load is not None
    assert pace.load > 1.3
    assert pace.lag > 5.0
    assert pace.overloaded_since is not None
    assert began < pace.overloaded_since < began + 3 * WINDOW + 5 * interval


def test_working_off_what_waits_is_none() -> None:
    driver = Driver()
    driver.run(SETTLING + WINDOW, 0.5)
    driver.now += 9.0  # the driver stood still: all that time waits
    assert driver.run(5.0, 0.5).overloaded_since is None


def test_an_overload_ends_when_less_comes_in() -> None:
    driver = Driver()
    driver.run(SETTLING + WINDOW, 0.6)
    assert driver.run(60.0, 1.4).overloaded_since is not None
    pace = driver.run(60.0, 0.6)
    assert pace.overloaded_since is None
    assert pace.load == pytest.approx(0.6)


def test_one_long_job_is_none() -> None:
    driver = Driver()
    driver.run(SETTLING + WINDOW, 0.5)
    driver.run(1.0, 3.0)
    assert driver.run(8.0, 0.5).overloaded_since is None


def test_jobs_that_replay_say_nothing() -> None:
    driver = Driver()
    driver.run(SETTLING + WINDOW, 0.5)
    assert driver.run(2 * WINDOW, 1.5, replayed=True).load is None


CYCLE = 20.0
"""Seconds."""


def test_a_load_falls_until_it_is_that_of_a_cycle_before() -> None:
    driver = Driver(cycle=CYCLE, ends=1.0)
    assert not driver.run(SETTLING + 3 * CYCLE, 0.8).falls
    seen = [driver.run(1.0, 0.4) for _ in range(50)]
    first = next(number for number, pace in enumerate(seen) if pace.falls)
    assert first < CYCLE / 2
    assert not any(pace.falls for pace in seen[-5:])
    assert not any(driver.run(1.0, 0.8).falls for _ in range(50))


def test_epochs_in_which_windows_end_are_none() -> None:
    """They take five seconds, and what waits meanwhile is worked off before the next ones."""
    driver = Driver(cycle=CYCLE, ends=5.0)
    seen = [driver.run(1.0, 0.6) for _ in range(200)]
    assert max(pace.lag for pace in seen) >= 4.0
    assert {pace.overloaded_since for pace in seen} == {None}
    assert driver.pace.load == pytest.approx(0.6 + 5.0 / CYCLE, abs=0.1)


def test_more_than_usual_that_waits_is_an_overload_before_a_cycle_has_ended() -> None:
    cycle = 2 * CYCLE  # at this load it takes a quarter of it until enough waits
    driver = Driver(0.5, cycle=cycle, ends=1.0)
    driver.run(SETTLING + 3 * cycle, 0.6)
    began = driver.now
    pace = driver.run(cycle / 2, 1.4)
    assert pace.overloaded_since is not None
    assert began < pace.overloaded_since < began + cycle / 2
    assert driver.run(cycle, 1.4).overloaded_since == pace.overloaded_since, "it is the same one"
    assert driver.run(60.0, 0.6).overloaded_since is None


def test_a_little_too_much_is_an_overload_when_much_of_it_waits() -> None:
    driver = Driver()
    driver.run(SETTLING + WINDOW, 0.9)
    assert driver.run(120.0, 1.02).overloaded_since is None
    pace = driver.run(240.0, 1.02)
    assert pace.overloaded_since is not None
    assert pace.lag >= WAITS


def test_an_overload_from_the_start_is_seen_after_a_cycle() -> None:
    driver = Driver(cycle=CYCLE, ends=1.0)
    began = driver.now
    pace = driver.run(SETTLING + 2 * CYCLE, 1.2)
    assert pace.overloaded_since is not None
    assert pace.overloaded_since >= began + SETTLING + CYCLE


def test_a_new_plan_begins_anew() -> None:
    driver = Driver()
    driver.run(SETTLING + WINDOW, 0.5)
    assert driver.run(5.0, 0.5, generation=2).load is None


def test_a_driver_that_was_away_begins_anew() -> None:
    driver = Driver()
    driver.run(SETTLING + WINDOW, 0.5)
    driver.now += AWAY + 1.0
    assert driver.run(5.0, 0.5).load is None
