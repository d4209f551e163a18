"""Getting out of a ZooKeeper session that can never come back.

A client tells the server the newest transaction it has seen. A server that has lost its data (or was
restored from an older copy) has not come that far, and it refuses the client: it accepts the connection and
closes it again, for ever, without ever saying that the session has expired. The only way on is a new session.
"""

from __future__ import annotations

import contextlib
import socket
import time

import structlog
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

log = structlog.get_logger(__name__)


class SessionGuard:
    """Call `check()` every second or so, from a thread that is none of kazoo's."""

    def __init__(self, client: KazooClient, *, session_timeout: float) -> None:
        self._client = client
        # By then the session has expired anyway, if there was a server to let it expire.
        self._patience = max(2 * session_timeout, 3.0)
        self._connected_at = time.monotonic()

    def check(self) -> bool:
        """Start a new session if a server listens but has refused the old one for too long; True if so.
        While no server listens the old session is kept: a restarted server still knows it."""
        now = time.monotonic()
        if self._client.connected:
            self._connected_at = now
            return False
        if now - self._connected_at < self._patience or not self._somebody_listens():
            return False
        log.warning(
            "zookeeper refuses the session; starting a new one", after=round(now - self._connected_at, 1)
        )
        self._connected_at = now
        with contextlib.suppress(KazooTimeoutError, OSError):
            self._client.stop()
        self._client.start_async()
        return True

    def _somebody_listens(self) -> bool:
        for host, port in self._client.hosts:
            with contextlib.suppress(OSError):
                socket.create_connection((host, int(port)), 1.0).close()
                return True
        return False
