"""Connections that show that the agent runs: its end closes them, and no new one can be made.

The coordinator holds one. Nothing is read from them and nothing is written to them, so a client can do no
more than use up one of a few places.
"""

from __future__ import annotations

import socket
import threading
from collections import deque

import structlog

log = structlog.get_logger()

PLACES = 16
"""Connections held at a time. The oldest gives way to a new one: a client that comes back is let in."""
RECEIVED = 2048
"""Bytes that the kernel keeps of what a client sends."""
PAUSE = 1.0


class Lifeline:
    """Listens at the node's own address, on a port that the kernel chooses: `port`, 0 if it can not listen.
    Then the loss of this node is found more slowly, by its heartbeat."""

    def __init__(self, address: str) -> None:
        self.port = 0
        self._held: deque[socket.socket] = deque()
        self._closed = threading.Event()
        try:
            self._server = _listen(address)
        except OSError as error:
            log.warning("no lifeline: its loss would be noticed later", address=address, error=str(error))
            return
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._run, name="lifeline", daemon=True).start()

    def close(self) -> None:
        """Close the port and every connection, as the end of the process would."""
        self._closed.set()
        if self.port:
            # Wakes the thread that waits in accept(); closing alone would not.
            self._server.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._server.accept()
            except OSError as error:  # out of descriptors, or the client has gone again
                if not self._closed.is_set():
                    log.warning("lifeline not accepted", error=str(error))
                self._closed.wait(PAUSE)
                continue
            self._held.append(connection)
            if len(self._held) > PLACES:
                self._held.popleft().close()
        self._server.close()
        for connection in self._held:
            connection.close()


def _listen(address: str) -> socket.socket:
    """Children do not inherit the port, so it ends with this process."""
    family = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0][0]
    server = socket.socket(family, socket.SOCK_STREAM)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED)
        server.bind((address, 0))
        server.listen(PLACES)
    except OSError:
        server.close()
        raise
    return server
