"""Ends a worker that lives and takes no tasks any more, so that the supervisor starts it again.

What it had in hand is found again by the sweeps.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import structlog
from celery.signals import task_postrun, task_prerun, task_received, task_revoked
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

log = structlog.get_logger(__name__)

PATIENCE = 45.0
"""Seconds. Celery waits up to 30 s before it tries again to reach a Redis that was away for minutes."""
EVERY = 3.0
LONGEST_GAP = 10.0
"""Seconds between two answers. After a longer gap the wait starts anew: the process itself did not run."""
SOCKET_TIMEOUT = 2.0


class StallDetector:
    """Whether a worker is stalled: for `patience` seconds tasks waited and Redis answered, none was running,
    and none came.

    Thread-safe. Times are seconds of one monotonic clock.
    """

    def __init__(self, *, patience: float = PATIENCE, longest_gap: float = LONGEST_GAP) -> None:
        self.patience = patience
        self._longest_gap = longest_gap
        self._guard = threading.Lock()
        self._running = 0
        self._since: float | None = None
        self._answered = 0.0

    def received(self) -> None:
        with self._guard:
            self._since = None

    def started(self) -> None:
        with self._guard:
            self._running += 1
            self._since = None

    def ended(self) -> None:
        with self._guard:
            self._running = max(0, self._running - 1)
            self._since = None

    def unanswered(self) -> None:
        """Redis is away."""
        with self._guard:
            self._since = None

    def answered(self, waiting: int, now: float) -> None:
        """So many tasks wait in Redis."""
        with self._guard:
            if not waiting or self._running:
                self._since = None
            elif self._since is None or now - self._answered > self._longest_gap:
                self._since = now
            self._answered = now

    def stalled(self, now: float) -> bool:
        with self._guard:
            return (
                self._since is not None
                and now - self._since >= self.patience
                and now - self._answered <= self._longest_gap
            )


def end_process() -> None:
    """End at once, whatever the other threads are doing."""
    logging.shutdown()
    os._exit(1)


class StallWatch(threading.Thread):
    """Calls `end` when the worker of this process is stalled: it consumes `queues` of the Redis at `url`."""

    def __init__(
        self,
        queues: Iterable[str],
        *,
        url: str,
        patience: float = PATIENCE,
        every: float = EVERY,
        clock: Callable[[], float] = time.monotonic,
        end: Callable[[], object] = end_process,
    ) -> None:
        super().__init__(name="stall-watch", daemon=True)
        self.detector = detector = StallDetector(patience=patience)
        self._queues = sorted(queues)
        self._every = every
        self._clock = clock
        self._end = end
        self._finished = threading.Event()
        self._beat = time.monotonic()
        self._redis: Redis = Redis.from_url(
            url,
            socket_timeout=SOCKET_TIMEOUT,
            socket_connect_timeout=SOCKET_TIMEOUT,
            retry=Retry(NoBackoff(), 0),  # the next round is the next attempt
        )
        self._heard: tuple[tuple[Any, Callable[..., None]], ...] = (
            (task_received, lambda **_: detector.received()),
            # An expired task is revoked instead of received; it was taken from the queue all the same.
            (task_revoked, lambda **_: detector.received()),
            (task_prerun, lambda **_: detector.started()),
            (task_postrun, lambda **_: detector.ended()),
        )
        for signal, handler in self._heard:
            signal.connect(handler, weak=False)

    def finish(self, limit: float = 5.0) -> None:
        for signal, handler in self._heard:
            signal.disconnect(handler)
        self._finished.set()
        self.join(limit)

    def beats(self) -> Mapping[str, float]:
        return {f"stall-watch-{queue}": self._beat for queue in self._queues}

    def run(self) -> None:
        while not self._finished.wait(self._every):
            self._beat = time.monotonic()
            try:
                waiting = {queue: int(self._redis.llen(queue)) for queue in self._queues}
            except RedisError:
                self.detector.unanswered()
                continue
            now = self._clock()
            self.detector.answered(sum(waiting.values()), now)
            if self.detector.stalled(now) and not self._finished.is_set():
                log.critical(
                    "tasks wait and this worker takes none: it ends, so that it is started again",
                    waiting=waiting,
                    seconds=self.detector.patience,
                )
                self._end()
                break
        self._redis.close()
