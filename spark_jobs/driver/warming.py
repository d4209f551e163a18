"""New executors are warmed up before they get work.

The first tasks on an executor start an interpreter, import what operators need and load Spark's classes: a
second or two in which every query of the topology would wait for the newcomer. So that happens beside the
running jobs, in a thread of its own, as soon as an executor is there, and it gets work when it is ready. The
first jobs after that would be slow, too, as Java compiles what it runs: so it is warmed up more than once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

import structlog

log = structlog.get_logger()


class Warming:
    """`warm(hosts)` runs one task on each host and returns when all have ended; it may raise. Executors that
    come later do not wait for those that are still being warmed: they are warmed beside them, in another
    thread. `cancel()` has all of these raise soon, called again and again while an executor that is being
    warmed is gone: Spark may wait for that a long time, and may not have begun when it is first told."""

    def __init__(self, warm: Callable[[list[str]], None], cancel: Callable[[], None]) -> None:
        self._warm = warm
        self._cancel = cancel
        self._ready: set[tuple[str, str]] = set()
        self._warming: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def ready(self, executors: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
        """Those of `executors` (id, host) that are warm; the others are being warmed from now on."""
        present = set(executors)
        with self._lock:
            self._ready &= present
            ready = set(self._ready)
            gone = self._warming - present
            # Those of the same moment in one job; none begins while one is being cancelled.
            cold = set() if gone else present - ready - self._warming
            self._warming |= cold
        if gone:
            self._cancel()
        elif cold:
            threading.Thread(target=self._run, args=(cold,), name="warming", daemon=True).start()
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
            self._warming -= cold
