"""Telemetry: a bounded Redis stream of what happened. It never holds the loop up. A report that is lost does
no harm, since the next one has the complete state; a problem is told once, so it is kept until it is sent."""

from __future__ import annotations

import threading
import time
from collections import deque

import redis
import structlog

from domain.messages import (
    TELEMETRY_FIELD,
    TELEMETRY_MAXLEN,
    TELEMETRY_STREAM,
    ProblemReport,
    Telemetry,
    encode,
)

log = structlog.get_logger()
RETRY_AFTER = 2.0
OWED = 100
"""The newest problems, as many as are kept while Redis is away."""


class TelemetryStream:
    """Writes messages, in any thread; while Redis is away, all but problems are dropped and counted."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url, socket_timeout=0.5, socket_connect_timeout=0.5)
        self._silent_until = 0.0
        self._owed: deque[ProblemReport] = deque(maxlen=OWED)
        self._sending = threading.Lock()
        self.dropped = 0

    def send(self, message: Telemetry) -> None:
        with self._sending:
            self._send(message)

    def _send(self, message: Telemetry) -> None:
        owed = isinstance(message, ProblemReport)
        if isinstance(message, ProblemReport):
            self._owed.append(message)
        if time.monotonic() < self._silent_until:
            self.dropped += not owed
            return
        try:
            while self._owed:
                self._add(self._owed[0])
                self._owed.popleft()
            if not owed:
                self._add(message)
        except (redis.RedisError, OSError) as error:
            self.dropped += not owed
            self._silent_until = time.monotonic() + RETRY_AFTER
            log.warning("telemetry not sent", error=str(error), dropped=self.dropped)
        else:
            if self.dropped:
                log.info("telemetry is back", dropped=self.dropped)
                self.dropped = 0

    def _add(self, message: Telemetry) -> None:
        self._client.xadd(
            TELEMETRY_STREAM, {TELEMETRY_FIELD: encode(message)}, maxlen=TELEMETRY_MAXLEN, approximate=True
        )

    def close(self) -> None:
        self._client.close()
