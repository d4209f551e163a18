"""How workers take tasks from Redis."""

from __future__ import annotations

import contextlib
from typing import Any

from celery.worker.consumer import Consumer


class ClosingConsumer(Consumer):
    """Closes a connection that was made and cannot be used, as where Redis takes no writes: Celery leaves it
    open, and makes six a second until the process may open no files any more."""

    _made: Any = None

    def connect(self) -> Any:
        try:
            return super().connect()
        except Exception:
            if self._made is not None:
                with contextlib.suppress(Exception):
                    self._made.close()
            raise

    def connection_for_read(self, heartbeat: float | None = None) -> Any:
        self._made = None
        self._made = super().connection_for_read(heartbeat)
        return self._made
