"""Telemetry: a bounded Redis stream of what happened. Losing it is harmless: it never holds the loop up."""

from __future__ import annotations

import time

import redis
import structlog

from domain.messages import (
    TELEMETRY_FIELD,
    TELEMETRY_MAXLEN,
    TELEMETRY_STREAM,
    Telemetry,
    encode,
)

log = structlog.get_logger()
RETRY_AFTER = 2.0


class TelemetryStream:
    """Writes messages; while Redis is away they are dropped and counted."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url, socket_timeout=0.5, socket_connect_timeout=0.5)
        self._silent_until = 0.0
        self.dropped = 0

    def send(self, message: Telemetry) -> None:
        if time.monotonic() < self._silent_until:
            self.dropped += 1
            return
        try:
            self._client.xadd(
                TELEMETRY_STREAM,
                {TELEMETRY_FIELD: encode(message)},
                maxlen=TELEMETRY_MAXLEN,
                approximate=True,
            )
        except (redis.RedisError, OSError) as error:
            self.dropped += 1
            self._silent_until = time.monotonic() + RETRY_AFTER
            log.warning("telemetry not sent", error=str(error), dropped=self.dropped)
        else:
            if self.dropped:
                log.info("telemetry is back", dropped=self.dropped)
                self.dropped = 0

    def close(self) -> None:
        self._client.close()
