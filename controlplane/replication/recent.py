"""Recently computed plans, shared by all requests with the same question."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from controlplane.errors import Busy

Question = TypeVar("Question")
Answer = TypeVar("Answer")

LONGEST = 10.0
"""Seconds for which a plan is kept: rates change each second, but the best replicas hardly do."""

MOST = 32

PATIENCE = 10.0
"""Seconds in which a question waits for others to be answered: each has its thread meanwhile."""


class Recent(Generic[Question, Answer]):
    """Answers by question. One is computed at a time: during an outage many users open the same page, and
    computing a plan for each request would take processors from the recovery."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._turn = threading.Lock()
        self._kept: dict[Question, tuple[float, Answer]] = {}

    def get(self, question: Question, compute: Callable[[], Answer]) -> Answer:
        """The recent result of `compute` for `question`, or a new one. Its exceptions are passed on and not
        kept. Raises `Busy`."""
        if not self._turn.acquire(timeout=PATIENCE):
            raise Busy("other replication plans are being computed; ask again in a few seconds")
        try:
            oldest = self._clock() - LONGEST
            self._kept = {key: kept for key, kept in self._kept.items() if kept[0] > oldest}
            if question not in self._kept:
                answer = compute()
                if len(self._kept) >= MOST:
                    del self._kept[next(iter(self._kept))]
                self._kept[question] = (self._clock(), answer)
            return self._kept[question][1]
        finally:
            self._turn.release()

    def forget(self) -> None:
        with self._turn:
            self._kept = {}
