"""One reading of the snapshot for all requests that it can answer.

After an outage of the web server all browsers come back at the same moment. A request that comes in while a
snapshot is being read waits for the next reading and shares it with all requests that wait: no answer is
older than its request, and a process reads one snapshot at a time.

While nothing has been published since a reading began, that reading is the state: it is handed out again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from controlplane.api.events.documents import Document
from controlplane.snapshot.document import snapshot_parts

LONGEST = 60.0
"""Seconds after which a snapshot is read anew even so: a database may have been put back meanwhile."""


@dataclass(frozen=True, slots=True)
class _Reading:
    number: int
    position: int
    began: float
    document: Document


class Shared:
    """Calls `read` for several threads at once."""

    def __init__(
        self, read: Callable[[], Iterable[bytes]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._clock = clock
        self._turn = threading.Condition()
        self._busy = False
        self._begun = 0
        self._newest: _Reading | None = None

    def get(self, position: int) -> Document:
        """What holds everything published up to now. position: the newest event there is. Raises what `read`
        raises."""
        with self._turn:
            newest = self._newest
            if newest is not None and newest.position == position and self._clock() - newest.began < LONGEST:
                return newest.document
            wanted = self._begun + 1
            while True:
                if self._newest is not None and self._newest.number >= wanted:
                    return self._newest.document
                if not self._busy:
                    break
                self._turn.wait()
            self._busy = True
            self._begun += 1
            number = self._begun
        try:
            began = self._clock()
            document = Document.of(self._read())
            self._newest = _Reading(number, position, began, document)
            return document
        finally:
            with self._turn:
                self._busy = False
                self._turn.notify_all()

    def forget(self) -> None:
        """The next one is read anew: what it stands for is another database."""
        with self._turn:
            self._newest = None


snapshot = Shared(snapshot_parts)
