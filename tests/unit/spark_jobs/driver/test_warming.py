"""Executors get work when they are warm; one that freezes while it is warmed is not waited for."""

from __future__ import annotations

import threading

from harness.eventually import eventually
from spark_jobs.driver.warming import Warming

A, B = ("1", "127.0.1.1"), ("2", "127.0.1.2")


def unexpected() -> None:
    raise AssertionError("no executor has frozen")


def test_a_new_executor_is_ready_once_it_was_warmed() -> None:
    go, hosts = threading.Event(), []

    def warm(asked: list[str]) -> None:
        hosts.append(asked)
        go.wait(5)

    warming = Warming(warm, unexpected)
    assert warming.ready({A, B}) == set()
    assert warming.ready({A, B}) == set()
    go.set()
    eventually(lambda: warming.ready({A, B}) == {A, B})
    assert hosts == [["127.0.1.1", "127.0.1.2"]]


def test_one_that_comes_later_does_not_make_the_others_cold() -> None:
    warming = Warming(lambda hosts: None, unexpected)
    eventually(lambda: warming.ready({A}) == {A})
    assert A in warming.ready({A, B})
    eventually(lambda: warming.ready({A, B}) == {A, B})


def test_one_that_comes_later_does_not_wait_for_one_that_is_slow() -> None:
    go = threading.Event()

    def warm(hosts: list[str]) -> None:
        if A[1] in hosts:
            assert go.wait(5)

    warming = Warming(warm, unexpected)
    assert warming.ready({A}) == set()
    eventually(lambda: warming.ready({A, B}) == {B})
    go.set()
    eventually(lambda: warming.ready({A, B}) == {A, B})


def test_an_executor_that_is_gone_must_be_warmed_again() -> None:
    warming = Warming(lambda hosts: None, unexpected)
    eventually(lambda: warming.ready({A}) == {A})
    assert warming.ready({B}) <= {B}
    assert A not in warming.ready({A})


def test_a_failure_is_tried_again() -> None:
    attempts = []

    def warm(hosts: list[str]) -> None:
        attempts.append(hosts)
        if len(attempts) == 1:
            raise RuntimeError("the executor was lost")

    warming = Warming(warm, unexpected)
    eventually(lambda: warming.ready({A}) == {A})
    assert len(attempts) == 2


def test_others_do_not_wait_for_one_that_froze_while_it_was_warmed() -> None:
    """Its connection stays open, and Spark would wait for a minute. Cancelled too early, it ends nothing."""
    ended, asked = threading.Event(), []

    def warm(hosts: list[str]) -> None:
        asked.append(hosts)
        if A[1] in hosts:
            assert ended.wait(5)
            raise RuntimeError("the job was cancelled")

    cancelled = []

    def cancel() -> None:
        cancelled.append(True)
        if len(cancelled) > 1:
            ended.set()

    warming = Warming(warm, cancel)
    assert warming.ready({A, B}) == set()
    eventually(lambda: warming.ready({B}) == {B})
    assert asked == [[A[1], B[1]], [B[1]]]
    assert len(cancelled) > 1
    told = len(cancelled)
    assert warming.ready({B}) == {B}
    assert len(cancelled) == told, "nothing is left to end"
