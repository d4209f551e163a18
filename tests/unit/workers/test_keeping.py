"""Threads that must live are started again, and end their process where they hang."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from workers import keeping
from workers.keeping import HUNG, LONGEST_GAP, QUIET, Keeper


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Kept:
    """A thread that does what the test says."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.alive = False
        self.beat = clock.now

    def start(self) -> None:
        self.alive = True

    def finish(self) -> None:
        self.alive = False

    def is_alive(self) -> bool:
        return self.alive

    def beats(self) -> Mapping[str, float]:
        return {"watch": self.beat, "lines": self.clock.now}


class Kit:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = Clock()
        self.made: list[Kept] = []
        self.ended = 0
        self.signs: list[list[str]] = []
        monkeypatch.setattr(
            keeping, "signs_write", lambda redis, threads, process: self.signs.append(list(threads))
        )
        self.keeper = Keeper(self._make, url="redis://127.0.0.1:1/0", end=self._end, clock=self.clock)
        self.made[0].start()

    def _make(self) -> Kept:
        self.made.append(Kept(self.clock))
        return self.made[-1]

    def _end(self) -> None:
        self.ended += 1

    def pass_time(self, seconds: float, *, beating: bool = False) -> None:
        until = self.clock.now + seconds
        while self.clock.now < until:
            self.clock.now += 1.0
            if beating:
                self.made[-1].beat = self.clock.now
            self.keeper.look()


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch) -> Kit:
    return Kit(monkeypatch)


def test_one_that_ended_runs_again_at_once_and_then_with_pauses(kit: Kit) -> None:
    kit.made[-1].alive = False
    kit.pass_time(1)
    assert [one.alive for one in kit.made] == [False, True]
    kit.made[-1].alive = False
    kit.pass_time(1)
    assert len(kit.made) == 2, "its second end in a minute: a second's pause"
    kit.pass_time(1)
    assert [one.alive for one in kit.made] == [False, False, True]
    assert not kit.ended


def test_signs_of_life_of_those_that_go_on(kit: Kit) -> None:
    kit.pass_time(5, beating=True)
    assert kit.signs[-1] == ["watch", "lines"]
    kit.pass_time(QUIET + 5)
    assert kit.signs[-1] == ["lines"]
    assert not kit.ended


def test_one_that_hangs_ends_the_process(kit: Kit) -> None:
    kit.pass_time(HUNG - 1)
    assert not kit.ended
    kit.pass_time(5)
    assert kit.ended


def test_a_process_that_was_stopped_itself_goes_on(kit: Kit) -> None:
    kit.pass_time(3, beating=True)
    kit.clock.now += HUNG + LONGEST_GAP
    kit.keeper.look()
    assert not kit.ended
    kit.pass_time(3, beating=True)
    assert kit.signs[-1] == ["watch", "lines"]
