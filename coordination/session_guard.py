"""Replacing a ZooKeeper session that can never come back.

A client tells the server the newest transaction it has seen. A server that has lost its data, or was restored
from an older copy, has not come that far and refuses the client: it accepts the connection and closes it
again, for ever, without saying that the session has expired. Only a new session gets the client out of that.
"""

from __future__ import annotations

import contextlib
import socket
import time

import structlog
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

log = structlog.get_logger(__name__)


class SessionGuard:
    """Call `check()` every second or so, from a thread that is none of kazoo's."""

    def __init__(self, client: KazooClient, *, session_timeout: float) -> None:
        self._client = client
        # After that long a server that has the session would have let it expire.
        self._patience = max(2 * session_timeout, 3.0)
        self._connected_at = time.monotonic()

    def check(self) -> bool:
        """Start a new session if a server listens but has refused the old one for too long; True if so.
        While no server listens the old session is kept: a restarted server still knows it."""
        now = time.monotonic()
        if self._client.connected:
            self._connected_at = now
            return False
        if now - self._connected_at < self._patience or not self._server_listens():
            return False
        log.warning(
            "zookeeper refuses the session; starting a new one", after=round(now - self._connected_at, 1)
        )
        self._connected_at = now
        with contextlib.suppress(KazooException, KazooTimeoutError, OSError):
            self._client.stop()
        try:
            self._client.start_async()
        except KazooException as error:  # the thread of the old connection has not ended yet
            log.warning("zookeeper session not replaced yet", error=repr(error))
            return False
        return True

    def _server_listens(self) -> bool:
        for host, port in self._client.hosts:
            with contextlib.suppress(OSError):
                socket.create_connection((host, int(port)), 1.0).close()
                return True
        return False
