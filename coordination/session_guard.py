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
from kazoo.protocol.states import KazooState

log = structlog.get_logger(__name__)


ASK_AGAIN = 1.0
"""Seconds until servers are asked again whether they listen: one that drops packets takes a second."""


class SessionGuard:
    """Call `check()` every second or so while the client is not connected, from a thread that is none of
    kazoo's. Patience counts from the moment of disconnection, however long ago the check before was."""

    def __init__(self, client: KazooClient, *, session_timeout: float) -> None:
        self._client = client
        # After that long a server that has the session would have let it expire.
        self._patience = max(2 * session_timeout, 3.0)
        # When the connection was lost, or first asked for; None while there is one.
        self._away_since: float | None = time.monotonic()
        self._asked_at = float("-inf")
        client.add_listener(self._state_changed)

    # Called in kazoo's threads.
    def _state_changed(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._away_since = None
        elif self._away_since is None:
            self._away_since = time.monotonic()

    def check(self) -> bool:
        """Start a new session if a server listens but has refused the old one for too long; True if so.
        While no server listens the old session is kept: a restarted server still knows it."""
        now, since = time.monotonic(), self._away_since
        if self._client.connected or since is None:
            return False
        if now - since < self._patience or now - self._asked_at < ASK_AGAIN:
            return False
        listens, self._asked_at = self._server_listens(), time.monotonic()
        if not listens:
            return False
        log.warning("zookeeper refuses the session; starting a new one", after=round(now - since, 1))
        self._away_since = now
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
