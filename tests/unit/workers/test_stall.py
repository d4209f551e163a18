"""When a worker counts as stalled, and which workers are watched."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from workers.bootsteps import StallStep
from workers.celery_app import app
from workers.stall import PATIENCE, StallDetector

LONGEST_WAIT_FOR_REDIS = 30.0
"""Seconds between two attempts of Celery to reach a Redis that was away for minutes."""


def detector() -> StallDetector:
    return StallDetector(patience=30.0, longest_gap=10.0)


def answers(one: StallDetector, *, waiting: int, since: float, until: float) -> list[float]:
    """Let Redis answer every 5 seconds; the times at which the worker was stalled."""
    stalled = []
    now = since
    while now <= until:
        one.answered(waiting, now)
        if one.stalled(now):
            stalled.append(now)
        now += 5.0
    return stalled


def test_tasks_wait_and_none_is_taken() -> None:
    assert answers(detector(), waiting=3, since=100.0, until=145.0) == [130.0, 135.0, 140.0, 145.0]


def test_a_new_worker_is_not_stalled() -> None:
    assert not detector().stalled(0.0)
    assert not detector().stalled(1e9)


def test_an_empty_queue_is_no_stall_however_long() -> None:
    one = detector()
    assert answers(one, waiting=0, since=0.0, until=10_000.0) == []
    # The wait counts from the first task that was seen, not from the last one that was received.
    assert answers(one, waiting=1, since=10_005.0, until=10_040.0) == [10_035.0, 10_040.0]


def test_a_queue_that_was_empty_in_between_starts_the_wait_anew() -> None:
    one = detector()
    assert answers(one, waiting=1, since=0.0, until=25.0) == []
    one.answered(0, 28.0)
    assert answers(one, waiting=1, since=30.0, until=55.0) == []
    assert answers(one, waiting=1, since=60.0, until=60.0) == [60.0]


def test_a_busy_worker_is_not_stalled_until_it_has_been_free_for_long() -> None:
    one = detector()
    one.received()
    one.started()
    assert answers(one, waiting=9, since=0.0, until=10_000.0) == []
    one.ended()
    assert answers(one, waiting=9, since=10_005.0, until=10_035.0) == [10_035.0]


def test_one_thread_that_runs_is_enough() -> None:
    one = detector()
    one.started()
    one.started()
    one.ended()
    assert answers(one, waiting=9, since=0.0, until=1000.0) == []


def test_an_end_without_a_start_leaves_no_negative_count() -> None:
    one = detector()
    one.ended()
    one.started()
    assert answers(one, waiting=9, since=0.0, until=1000.0) == []


def test_a_task_that_starts_in_the_wait_ends_it_at_once() -> None:
    one = detector()
    answers(one, waiting=1, since=0.0, until=25.0)
    one.started()
    assert not one.stalled(30.0)
    one.ended()
    assert not one.stalled(30.0)


def test_each_task_received_starts_the_wait_anew() -> None:
    one = detector()
    for start in (0.0, 30.0, 60.0):
        assert answers(one, waiting=5, since=start, until=start + 25.0) == []
        one.received()
    assert answers(one, waiting=5, since=90.0, until=120.0) == [120.0]


def test_redis_being_away_starts_the_wait_anew() -> None:
    one = detector()
    assert answers(one, waiting=5, since=0.0, until=25.0) == []
    one.unanswered()
    assert not one.stalled(30.0)
    assert answers(one, waiting=5, since=35.0, until=65.0) == [65.0]


def test_a_gap_between_answers_starts_the_wait_anew() -> None:
    """A process that was stopped for an hour had no chance to take anything."""
    one = detector()
    answers(one, waiting=5, since=0.0, until=10.0)
    assert not one.stalled(3600.0)
    assert answers(one, waiting=5, since=3600.0, until=3630.0) == [3630.0]


def test_answers_as_far_apart_as_is_allowed_are_no_gap() -> None:
    one = detector()
    for now in (0.0, 10.0, 20.0, 30.0):
        one.answered(1, now)
    assert one.stalled(30.0)
    assert one.stalled(40.0)
    assert not one.stalled(40.1)


EVENTS = ("waits", "empty", "away", "received", "started", "ended")


def test_every_short_history() -> None:
    """One event a second, a patience of two: stalled if and only if the last three events were answers, with
    tasks that wait, while none was running."""
    for history in product(EVENTS, repeat=6):
        one = StallDetector(patience=2.0, longest_gap=1.0)
        running = 0
        for now, event in enumerate(history):
            match event:
                case "waits" | "empty":
                    one.answered(4 if event == "waits" else 0, float(now))
                case "away":
                    one.unanswered()
                case "received":
                    one.received()
                case "started":
                    one.started()
                    running += 1
                case "ended":
                    one.ended()
                    running = max(0, running - 1)
            expected = now >= 2 and history[now - 2 : now + 1] == ("waits",) * 3 and running == 0
            assert one.stalled(float(now)) is expected, (history, now)


def test_patience_outlasts_celery_s_longest_pause_between_attempts_to_connect() -> None:
    assert PATIENCE > LONGEST_WAIT_FOR_REDIS


def worker(pool: str, broker: str | None) -> Any:
    return SimpleNamespace(
        app=SimpleNamespace(conf=SimpleNamespace(broker_url=broker)),
        pool_cls=type("TaskPool", (), {"__module__": f"celery.concurrency.{pool}"}),
    )


@pytest.mark.parametrize(
    ("pool", "broker", "watched"),
    [
        ("thread", "redis://127.0.0.1:6379/0", True),
        ("solo", "rediss://user:word@redis:6379/0", True),
        # The signals of its tasks are sent in other processes: it would always seem to be free.
        ("prefork", "redis://127.0.0.1:6379/0", False),
        ("thread", "memory://", False),
        ("thread", None, False),
    ],
)
def test_which_workers_are_watched(pool: str, broker: str | None, watched: bool) -> None:
    step = StallStep.__new__(StallStep)
    assert step.include_if(worker(pool, broker)) is watched


def test_every_worker_has_the_step() -> None:
    assert StallStep in app.steps["worker"]
