"""Keeps threads that must live: one that has ended is started again, one that hangs ends its process.

A thread says that it goes on by the times that `beats` returns. While they are young, its process writes
signs of life for `readyz`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import structlog
from redis.exceptions import RedisError

from controlplane.config.life_signs import redis_of, signs_write

log = structlog.get_logger(__name__)

EVERY = 2.0
SIGN_EVERY = 4.0
QUIET = 60.0
"""Seconds without a beat after which a thread counts as hanging. A round that waits for a locked database
several times takes that long."""
HUNG = 300.0
"""Seconds without a beat after which its process ends, to be started again: a thread cannot be ended."""
LONGEST_GAP = 10.0
"""Seconds between two looks. After a longer gap the process itself did not run, and all beats are as old."""
PAUSES = (0.0, 1.0, 5.0, 30.0)
"""Seconds before a thread is started again that has ended once, twice ... since it ran for `STEADY`."""
STEADY = 60.0


class KeptThread(Protocol):
    def start(self) -> None: ...
    def finish(self) -> None: ...
    def is_alive(self) -> bool: ...
    def beats(self) -> Mapping[str, float]:
        """Name (of `MUST_LIVE`) -> monotonic time when that thread last went on."""
        ...


class Signs:
    """Writes signs of life of this process's threads. A Redis that is away costs a second, and then nothing
    for some time."""

    def __init__(self, url: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis = redis_of(url)
        self._clock = clock
        self._next = float("-inf")

    def write(self, threads: Iterable[str]) -> None:
        if self._clock() < self._next:
            return
        try:
            signs_write(self._redis, threads, process=os.getpid())
        except RedisError as error:
            log.debug("signs of life not written", error=str(error))
        self._next = self._clock() + SIGN_EVERY

    def close(self) -> None:
        self._redis.close()


class SignWriter(threading.Thread):
    """Writes signs of life for threads that nothing here keeps; of none that was quiet for `quiet`
    seconds."""

    def __init__(self, beats: Callable[[], Mapping[str, float]], *, url: str, quiet: float) -> None:
        super().__init__(name="signs-of-life", daemon=True)
        self._beats = beats
        self._quiet = quiet
        self._signs = Signs(url)
        self._finished = threading.Event()

    def finish(self) -> None:
        self._finished.set()
        self.join(2 * EVERY)

    def run(self) -> None:
        while not self._finished.is_set():
            now = time.monotonic()
            self._signs.write([name for name, at in self._beats().items() if now - at < self._quiet])
            self._finished.wait(EVERY)
        self._signs.close()


class Keeper(threading.Thread):
    """`start()` it, `finish()` it; between the two the thread that `make` returns runs. `end`: ends the
    process."""

    def __init__(
        self,
        make: Callable[[], KeptThread],
        *,
        url: str,
        end: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(name="keeper", daemon=True)
        self._make = make
        self._end = end
        self._clock = clock
        self._signs = Signs(url, clock=clock)
        self._finished = threading.Event()
        self._ended = 0
        self._started_at = self._looked_at = self._counted_from = clock()
        self._again_at: float | None = None
        self.thread = make()

    def start(self) -> None:
        self.thread.start()
        super().start()

    def finish(self) -> None:
        self._finished.set()
        self.join(2 * EVERY)
        self.thread.finish()
        self._signs.close()

    def run(self) -> None:
        while not self._finished.wait(EVERY):
            try:
                self.look()
            except Exception:
                log.exception("a thread that must live was not looked at")

    def look(self) -> None:
        """One look at the thread."""
        now = self._clock()
        if now - self._looked_at > LONGEST_GAP:
            self._counted_from = now
        self._looked_at = now
        if not self.thread.is_alive():
            self._start_again(now)
            return
        ages = {name: now - max(at, self._counted_from) for name, at in self.thread.beats().items()}
        quiet = sorted(name for name, age in ages.items() if age > QUIET)
        if quiet:
            log.error("threads that must live hang", threads=quiet, seconds=round(max(ages.values())))
        if max(ages.values(), default=0.0) > HUNG:
            log.critical("this process ends, so that its hanging threads are started again", threads=quiet)
            self._end()
            return
        self._signs.write(name for name in ages if name not in quiet)

    def _start_again(self, now: float) -> None:
        if self._again_at is None:
            self._ended = 0 if now - self._started_at > STEADY else self._ended
            pause = PAUSES[min(self._ended, len(PAUSES) - 1)]
            self._ended += 1
            self._again_at = now + pause
            log.critical("a thread that must live has ended: it is started again", after_seconds=pause)
        if now < self._again_at or self._finished.is_set():
            return
        self._again_at = None
        self._started_at = self._counted_from = now
        self.thread = self._make()
        self.thread.start()
