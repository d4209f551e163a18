"""Not waiting for a Redis that does not answer: after a failure nothing is sent to it for some seconds.

What is not sent costs time and nothing else: pages look by themselves twice a second, and the sweep finds in
the database what was to be done.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

OPEN_FOR = 5.0
"""Seconds after a failure."""
LIMIT = 1.0
"""Seconds that one attempt may take."""


class Circuit:
    """Thread-safe. While it is open, `attempt` does nothing; then one caller tries, and the others go on not
    waiting until that one is through."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._open_until = float("-inf")
        self._failed = False

    def attempt(self, send: Callable[[], object]) -> bool:
        """Call `send` unless the circuit is open; whether it was called. Its errors are raised, and open the
        circuit."""
        with self._guard:
            if self._clock() < self._open_until:
                return False
            if self._failed:
                self._open_until = self._clock() + OPEN_FOR  # for all but this caller
        try:
            send()
        except Exception:
            with self._guard:
                self._failed, self._open_until = True, self._clock() + OPEN_FOR
            raise
        with self._guard:
            self._failed, self._open_until = False, float("-inf")
        return True


redis_circuit = Circuit()
"""That of this process."""
