"""On real processes: a worker that takes no tasks ends, and one whose Redis was killed takes tasks again."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery
from celery.signals import task_postrun, task_prerun, task_received, task_revoked

from harness.eventually import eventually
from supervision.readiness import tcp_answer, tcp_open
from tests.integration.control_plane.stack import Stack
from workers.stall import StallWatch

pytestmark = pytest.mark.integration

PATIENCE = 60.0
"""Seconds that a worker has to start, or to connect again, on a busy machine."""


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    one = Stack(tmp_path)
    one.celery_app = "tests.integration.control_plane.stalling_app"
    try:
        start_redis(one)
        yield one
    finally:
        one.stop_all()


def start_redis(stack: Stack) -> None:
    stack.start("redis")
    eventually(
        lambda: tcp_answer("127.0.0.1", stack.ports["redis"], b"PING\r\n").startswith(b"-NOAUTH"), "redis"
    )


def start_worker(stack: Stack) -> None:
    stack.start("webhooks")
    eventually(lambda: " ready" in log_of(stack), "the worker", PATIENCE, story=lambda: log_of(stack))


def log_of(stack: Stack) -> str:
    return (stack.home / "webhooks.log").read_text()


def send(stack: Stack, name: str, *arguments: object) -> None:
    """Over a connection of its own, which has not seen an earlier Redis."""
    app = Celery("test", broker=stack.environment["RESURGE_REDIS_URL"], set_as_current=False)
    with app.connection_for_write() as connection:
        arguments = tuple(map(str, arguments))
        app.send_task(name, arguments, queue="webhooks", ignore_result=True, connection=connection)


# ---- whole workers ---------------------------------------------------------------------------------


def test_a_deaf_worker_ends_with_an_error(stack: Stack) -> None:
    start_worker(stack)
    send(stack, "webhooks.deafen")
    eventually(lambda: "webhooks.deafen" in log_of(stack), "the task is taken")
    # The first of these may be the answer to the question that is under way.
    for number in range(3):
        send(stack, "webhooks.note", stack.home / f"note-{number}")
    process = stack.processes["webhooks"]
    eventually(lambda: process.poll() is not None, "its end", PATIENCE, story=lambda: log_of(stack))
    assert process.returncode == 1
    last = log_of(stack).splitlines()[-1]
    assert "level='critical'" in last
    assert "this worker takes none" in last
    assert "'webhooks': " in last
    assert not (stack.home / "note-2").exists()


def hold_both_threads(stack: Stack) -> Path:
    """The file that lets both tasks end."""
    released = stack.home / "released"
    held = [stack.home / f"held-{number}" for number in range(2)]
    for one in held:
        send(stack, "webhooks.hold", one, released)
    eventually(lambda: all(one.exists() for one in held), "both are held", story=lambda: log_of(stack))
    return released


def test_a_busy_worker_lives_while_tasks_wait(stack: Stack) -> None:
    start_worker(stack)
    released = hold_both_threads(stack)
    send(stack, "webhooks.note", stack.home / "note")
    # A watch in this process, where no tasks run, takes the worker for stalled.
    ended = threading.Event()
    url = stack.environment["RESURGE_REDIS_URL"]
    beside = StallWatch(["webhooks"], url=url, patience=1.0, every=0.1, end=ended.set)
    beside.start()
    try:
        assert ended.wait(PATIENCE)
    finally:
        beside.finish()
    assert stack.processes["webhooks"].poll() is None
    released.touch()
    eventually((stack.home / "note").exists, "the task that waited", story=lambda: log_of(stack))
    assert stack.processes["webhooks"].poll() is None


def test_a_worker_whose_last_acknowledgements_failed_takes_tasks_again(stack: Stack) -> None:
    """All threads are busy when Redis is killed, and done before it is back. Acknowledgements fail, unless
    the worker noticed before the end of the task that it lost Redis: then it has given the message up."""
    start_worker(stack)
    released = hold_both_threads(stack)
    stack.kill("redis", signal.SIGKILL)
    eventually(lambda: not tcp_open("127.0.0.1", stack.ports["redis"]), "the end of redis")
    released.touch()
    eventually(lambda: log_of(stack).count("succeeded in") == 2, "both end", story=lambda: log_of(stack))
    eventually(
        lambda: "Connection to broker lost" in log_of(stack), "it notices", story=lambda: log_of(stack)
    )
    start_redis(stack)
    send(stack, "webhooks.note", stack.home / "note")
    eventually((stack.home / "note").exists, "a task is taken", story=lambda: log_of(stack))


# ---- the thread alone ------------------------------------------------------------------------------


class Watched:
    """A watch in this process, with a patience of 10 seconds of a clock that tests set."""

    def __init__(self, url: str) -> None:
        self.now = 0.0
        self.rounds = 0
        self.ends: list[float] = []
        self.thread = StallWatch(
            ["watched", "empty"], url=url, patience=10.0, every=0.001, clock=self._clock, end=self._end
        )

    def _clock(self) -> float:
        self.rounds += 1
        return self.now

    def _end(self) -> None:
        self.ends.append(self.now)

    def at(self, now: float) -> None:
        """Set the clock; returns after a round that began later."""
        self.now = now
        until = self.rounds + 2  # one may be under way
        eventually(lambda: self.rounds >= until or self.ends, f"rounds at {now}", pause=0.001)


@pytest.fixture
def broker(stack: Stack) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(stack.environment["RESURGE_REDIS_URL"]) as client:
        yield client


@pytest.fixture
def watched(stack: Stack) -> Iterator[Watched]:
    one = Watched(stack.environment["RESURGE_REDIS_URL"])
    one.thread.start()
    yield one
    one.thread.finish()
    assert not one.thread.is_alive()


def test_the_thread_ends_the_process_once(
    broker: redis.Redis, watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    watched.at(100.0)
    broker.lpush("watched", "a", "b")
    watched.at(100.0)
    watched.at(109.0)
    assert not watched.ends
    watched.at(110.0)
    eventually(lambda: watched.ends, "the end")
    eventually(lambda: not watched.thread.is_alive(), "the thread's end")
    assert len(watched.ends) == 1
    assert "'watched': 2" in caplog.text


def test_a_running_task_holds_the_thread_off_until_it_has_ended(
    broker: redis.Redis, watched: Watched
) -> None:
    task_prerun.send(sender=None, task_id="1")
    broker.lpush("watched", "a")
    for now in range(0, 100, 5):
        watched.at(now)
    assert not watched.ends
    watched.at(100.0)
    task_postrun.send(sender=None, task_id="1")
    watched.at(100.0)
    watched.at(109.0)
    assert not watched.ends
    watched.at(110.0)
    eventually(lambda: watched.ends, "the end")


@pytest.mark.parametrize("taken", [task_received, task_revoked], ids=["received", "revoked"])
def test_a_task_that_is_taken_holds_the_thread_off(broker: redis.Redis, watched: Watched, taken: Any) -> None:
    broker.lpush("watched", "a")
    for now in range(0, 100, 5):
        watched.at(now)
        taken.send(sender=None, request=None)
    assert not watched.ends
    watched.at(100.0)
    watched.at(110.0)
    eventually(lambda: watched.ends, "the end")


def test_the_thread_outlives_redis_and_waits_anew(
    stack: Stack, broker: redis.Redis, watched: Watched
) -> None:
    broker.lpush("watched", "a")
    watched.at(0.0)
    detector = watched.thread.detector
    assert detector.stalled(10.0)
    stack.kill("redis")
    eventually(lambda: not detector.stalled(10.0), "the thread notices")
    watched.now = 9.0
    start_redis(stack)
    broker.lpush("watched", "a")
    watched.at(9.0)
    watched.at(18.0)
    assert not watched.ends
    watched.at(19.0)
    eventually(lambda: watched.ends, "the end")


def test_a_finished_thread_hears_no_signals(stack: Stack) -> None:
    signals = (task_received, task_revoked, task_prerun, task_postrun)
    before = [len(one.receivers) for one in signals]
    one = Watched(stack.environment["RESURGE_REDIS_URL"])
    assert [len(signal.receivers) for signal in signals] == [count + 1 for count in before]
    one.thread.start()
    one.at(1.0)
    one.thread.finish()
    assert not one.thread.is_alive()
    assert [len(signal.receivers) for signal in signals] == before
