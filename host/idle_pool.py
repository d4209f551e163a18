"""A pool of threads that end when there is nothing to do, with a bound on what waits for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")


class IdlePool:
    """At most `threads`, which end after `keep_alive` seconds without work; at most `outstanding` calls that
    have not ended."""

    def __init__(self, name: str, *, threads: int, keep_alive: float, outstanding: int) -> None:
        self._name = name
        self._threads = threads
        self._keep_alive = keep_alive
        self._outstanding = outstanding
        self._pool: ThreadPoolExecutor | None = None
        self._calls = 0
        self._idle_since = 0.0
        self._watched = False
        self._lock = threading.Lock()

    def submit(self, call: Callable[..., Result], *arguments: Any) -> Future[Result] | None:
        """None if as much waits as may."""
        with self._lock:
            if self._calls >= self._outstanding:
                return None
            self._calls += 1
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix=self._name)
            future = self._pool.submit(call, *arguments)
        future.add_done_callback(self._ended)
        return future

    @property
    def busy(self) -> bool:
        return self._calls > 0

    @property
    def threads(self) -> bool:
        """Whether there are any."""
        return self._pool is not None

    def close(self) -> None:
        """End the threads; what has begun goes on to its end."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def _ended(self, future: Future[Any]) -> None:
        with self._lock:
            self._calls -= 1
            self._idle_since = time.monotonic()
            if self._calls or self._watched:
                return
            self._watched = True
        self._look_after(self._keep_alive)

    def _look_after(self, seconds: float) -> None:
        timer = threading.Timer(seconds, self._look)
        timer.daemon = True
        timer.start()

    def _look(self) -> None:
        pool: ThreadPoolExecutor | None = None
        with self._lock:
            left = self._keep_alive - (time.monotonic() - self._idle_since)
            self._watched = again = left > 0 and not self._calls
            if not self._watched and not self._calls:
                pool, self._pool = self._pool, None
        if again:
            self._look_after(left)
        if pool is not None:
            pool.shutdown(wait=False)
