"""Recent plans are returned again."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from controlplane.errors import Busy
from controlplane.replication import recent as module
from controlplane.replication.recent import LONGEST, MOST, Recent


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_answer_serves_for_a_while() -> None:
    clock = Clock()
    recent: Recent[str, int] = Recent(clock)
    assert recent.get("a", lambda: 1) == 1
    clock.now += LONGEST - 0.1
    assert recent.get("a", lambda: 2) == 1
    assert recent.get("b", lambda: 3) == 3
    clock.now += 0.2
    assert recent.get("a", lambda: 2) == 2
    assert recent.get("b", lambda: 4) == 3
    recent.forget()
    assert recent.get("b", lambda: 4) == 4


def test_what_failed_is_tried_again() -> None:
    recent: Recent[str, int] = Recent()

    def fail() -> int:
        raise ValueError("too large")

    with pytest.raises(ValueError, match="too large"):
        recent.get("a", fail)
    assert recent.get("a", lambda: 1) == 1


def test_only_so_many_are_kept_the_oldest_goes() -> None:
    recent: Recent[int, int] = Recent(Clock())
    for number in range(MOST + 1):
        recent.get(number, lambda: 1)
    assert recent.get(1, lambda: 2) == 1
    assert recent.get(0, lambda: 2) == 2


def test_many_requests_with_the_same_question_cause_one_computation() -> None:
    recent: Recent[str, int] = Recent()
    begun, goes_on = threading.Event(), threading.Event()
    computed: list[int] = []

    def compute() -> int:
        begun.set()
        goes_on.wait(10)
        computed.append(1)
        return 7

    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(recent.get, "a", compute) for _ in range(8)]
        assert begun.wait(10)
        goes_on.set()
        assert [answer.result(10) for answer in answers] == [7] * 8
    assert computed == [1]


def test_a_question_does_not_wait_for_any_number_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.001)
    recent: Recent[str, int] = Recent()

    def compute() -> int:
        with ThreadPoolExecutor(1) as pool, pytest.raises(Busy, match="ask again"):
            pool.submit(recent.get, "b", lambda: 2).result(10)
        return 1

    assert recent.get("a", compute) == 1
    assert recent.get("b", lambda: 2) == 2
