"""New executors are warmed up before they get work.

The first Python task on an executor starts an interpreter and imports what operators need: a second or two in
which every query of the topology would wait for the newcomer. So that happens beside the running jobs, in a
thread of its own, as soon as an executor is there, and a plan is adopted only when its nodes are ready.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

import structlog

log = structlog.get_logger()


class Warming:
    """`warm(hosts)` runs one task on each host and returns when all have ended; it may raise. `cancel()` has
    it raise soon, called again and again while one of its executors is gone: Spark may wait for that a long
    time, and may not have begun when it is first told."""

    def __init__(self, warm: Callable[[list[str]], None], cancel: Callable[[], None]) -> None:
        self._warm = warm
        self._cancel = cancel
        self._ready: set[tuple[str, str]] = set()
        self._batch: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def ready(self, executors: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        """Those of `executors` (id, host) that are warm; the others are being warmed from now on."""
        present = set(executors)
        with self._lock:
            self._ready &= present
            ready = set(self._ready)
            batch = self._batch
            cold = present - ready
            begins = bool(cold) and not batch
            if begins:
                self._batch = cold
        if begins:
            threading.Thread(target=self._run, args=(cold,), name="warming", daemon=True).start()
        elif batch - present:
            self._cancel()
        return ready

    def _run(self, cold: set[tuple[str, str]]) -> None:
        try:
            self._warm(sorted({host for _, host in cold}))
        except Exception as error:  # an executor is gone again; the next call tries those that are left
            log.warning("executors not warmed up", error=str(error).splitlines()[:1])
            warmed = set()
        else:
            warmed = cold
        with self._lock:
            self._ready |= warmed
            self._batch = set()
