"""Threads that end when there is nothing to do, and a bound on what waits for them."""

from __future__ import annotations

import threading

import pytest

from harness.eventually import eventually
from host.idle_pool import IdlePool


def pool(*, threads: int = 1, keep_alive: float = 0.05, outstanding: int = 2) -> IdlePool:
    return IdlePool("test", threads=threads, keep_alive=keep_alive, outstanding=outstanding)


def test_no_more_than_some_wait() -> None:
    subject, begin = pool(), threading.Event()
    first, second = subject.submit(begin.wait), subject.submit(lambda: 2)
    assert subject.submit(lambda: 3) is None
    assert subject.busy
    begin.set()
    assert first is not None
    assert second is not None
    assert (first.result(10), second.result(10)) == (True, 2)
    eventually(lambda: not subject.busy)
    third = subject.submit(lambda: 3)
    assert third is not None
    assert third.result(10) == 3


def test_threads_end_when_they_were_idle_and_come_again() -> None:
    subject = pool()
    for number in range(2):
        call = subject.submit(lambda: 1)
        assert call is not None, number
        assert call.result(10) == 1
        eventually(lambda: not subject.threads)


def test_threads_stay_while_something_runs() -> None:
    subject, begin = pool(outstanding=5), threading.Event()
    call = subject.submit(lambda: 1)
    assert call is not None
    call.result(10)
    subject.submit(begin.wait)
    with pytest.raises(AssertionError, match="an end"):
        eventually(lambda: not subject.threads, "an end", timeout=0.3)
    begin.set()
    eventually(lambda: not subject.threads)


def test_what_fails_frees_its_place() -> None:
    subject = pool(outstanding=1)
    call = subject.submit(lambda: 1 // 0)
    assert call is not None
    with pytest.raises(ZeroDivisionError):
        call.result(10)
    eventually(lambda: not subject.busy)
    assert subject.submit(lambda: 1) is not None
