"""What jobs need on executors that have come is made beside the running jobs, not before the next one.

Pinning tasks takes a job on all nodes. On new ones with little CPU it takes seconds, in which no query would
advance; so it runs in a thread of its own, and is used when it is done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

log = structlog.get_logger()
Made = TypeVar("Made")


class Preparing(Generic[Made]):
    """At most one thing at a time is made, and one is kept until it is taken. make: called in a thread, may
    raise; drop: called for what is not wanted any more; cancel: has `make` raise soon."""

    def __init__(
        self, make: Callable[[list[str]], Made], drop: Callable[[Made], None], cancel: Callable[[], None]
    ) -> None:
        self._make, self._drop, self._cancel = make, drop, cancel
        self._lock = threading.Lock()
        self._making: tuple[str, ...] | None = None
        self._done: tuple[tuple[str, ...], Made | None] | None = None

    def ready(self, addresses: list[str]) -> bool:
        """Whether nothing is to be waited for: what these executors need was made, or could not be. If not,
        it is being made from now on."""
        wanted = tuple(addresses)
        with self._lock:
            if self._making is not None:
                if self._making != wanted:
                    self._cancel()
                return False
            if self._done is not None and self._done[0] == wanted:
                return True
            self._forget()
            self._making = wanted
        threading.Thread(target=self._run, args=(wanted,), name="preparing", daemon=True).start()
        return False

    def take(self, addresses: list[str]) -> Made | None:
        """What was made for exactly these, once; None if nothing was."""
        with self._lock:
            done, self._done = self._done, None
        if done is None or done[1] is None:
            return None
        if done[0] == tuple(addresses):
            return done[1]
        self._drop(done[1])
        return None

    def _run(self, wanted: tuple[str, ...]) -> None:
        try:
            made = self._make(list(wanted))
        except Exception as error:  # an executor is gone again, or Spark failed: it is tried without this
            log.warning("tasks not pinned beforehand", error=str(error).splitlines()[:1])
            made = None
        with self._lock:
            self._making, self._done = None, (wanted, made)

    def _forget(self) -> None:
        if self._done is not None and self._done[1] is not None:
            self._drop(self._done[1])
        self._done = None
