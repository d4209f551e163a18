"""A pool of threads that end when there is nothing to do, with a bound on what waits for them."""

from __future__ import annotations

import threading
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
        self._used = 0
        self._lock = threading.Lock()

    def submit(self, call: Callable[..., Result], *arguments: Any) -> Future[Result] | None:
        """None if as much waits as may."""
        with self._lock:
            if self._calls >= self._outstanding:
                return None
            self._calls += 1
            self._used += 1
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix=self._name)
            future = self._pool.submit(call, *arguments)
        future.add_done_callback(self._ended)
        return future

    @property
    def busy(self) -> bool:
        return self._calls > 0

    def close(self) -> None:
        """End the threads; what has begun goes on to its end."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def _ended(self, future: Future[Any]) -> None:
        with self._lock:
            self._calls -= 1
            if self._calls:
                return
            used = self._used
        timer = threading.Timer(self._keep_alive, self._idle, [used])
        timer.daemon = True
        timer.start()

    def _idle(self, used: int) -> None:
        with self._lock:
            unused = self._used == used
        if unused:
            self.close()
