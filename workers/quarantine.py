"""Values of other processes that cannot be used: set aside, counted, and shown as problems.

What reads such a value goes on with the next one and calls `refuse`, which never waits. `tell` records what
has come together; each process calls it regularly. Until then counts are in memory only.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

import structlog
from django.db import DatabaseError

from controlplane.errors import DATABASE_AWAY
from coordination.paths import Paths
from domain.messages import ProblemReport

log = structlog.get_logger(__name__)

TELL_EVERY = 10.0
"""Seconds, so that a process that writes nothing usable does not fill the database with its problems."""
MOST = 100
"""Problems that wait to be told; what comes above that is counted together."""
LONGEST = 500
"""Characters of a reason."""
HINT = (
    "It is ignored, and everything else goes on. Find out what wrote it: a process of another version, or "
    "one that must not be able to write there."
)


class Quarantine:
    """Thread-safe. Times are seconds of one monotonic clock."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._waiting: Counter[tuple[str, str, str]] = Counter()
        self._told_at = float("-inf")

    def refuse(self, where: str, why: str, *, topology: str = "") -> None:
        """`where`: which server and which address or kind there. `why`: what is wrong, without the value."""
        key = (topology, where[:255], why.replace("\x00", "\N{REPLACEMENT CHARACTER}")[:LONGEST])
        with self._guard:
            if key not in self._waiting and len(self._waiting) >= MOST:
                key = ("", "many places", "values that cannot be used; the log names each")
            self._waiting[key] += 1

    def refuse_znode(self, path: str, why: str) -> None:
        self.refuse(f"ZooKeeper {path}", why, topology=Paths.topology_of(path))

    def tell(self) -> None:
        """Record problems, at most once in `TELL_EVERY`. What the database does not take now waits."""
        with self._guard:
            if not self._waiting or self._clock() - self._told_at < TELL_EVERY:
                return
            self._told_at = self._clock()
            taken, self._waiting = self._waiting, Counter()
        while taken:
            key, count = next(iter(taken.items()))
            try:
                self._record(*key, count)
            except DATABASE_AWAY as error:
                log.warning("refused values not recorded yet", error=str(error))
                with self._guard:
                    self._waiting.update(taken)
                return
            except DatabaseError:
                log.exception("refused value not recorded", where=key[1], why=key[2])
            del taken[key]

    @staticmethod
    def _record(topology: str, where: str, why: str, count: int) -> None:
        # Here, because benchmarks start nodes, which refuse values, without Django.
        from controlplane.topologies.models import Topology
        from controlplane.topologies.problems import problem_record

        known = Topology.objects.filter(name=topology).exists() if topology else False
        problem_record(
            report=ProblemReport(
                topology=topology if known else "",
                where=where,
                what=f"A value cannot be used: {why}",
                hint=HINT,
                severity="warning",
                count=count,
            )
        )


quarantine = Quarantine()
"""That of this process."""
