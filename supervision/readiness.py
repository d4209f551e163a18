"""Asking a server whether it serves, and waiting until it does with progress on the screen."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable


class NotReadyError(RuntimeError):
    """A process did not become ready in time; the message names its log."""


def tcp_answer(host: str, port: int, question: bytes) -> bytes:
    """The first bytes a server answers to `question`, empty when it doesn't."""
    try:
        with socket.create_connection((host, port), 1.0) as connection:
            connection.sendall(question)
            return connection.recv(256)
    except OSError:
        return b""


def tcp_open(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), 1.0).close()
    except OSError:
        return False
    return True


def http_status(host: str, port: int, path: str, *, timeout: float = 2.0) -> int:
    """Status code of a GET, 0 when there is no answer in `timeout` seconds, of which the health check of the
    image gives more."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def wait_until(
    ready: Callable[[], bool],
    *,
    what: str,
    timeout: float,
    alive: Callable[[], str | None] = lambda: None,
    pause: float = 0.1,
) -> float:
    """Wait until `ready()`; returns the seconds it took.

    `alive` returns a sentence once waiting is useless (the process has exited).
    Raises `NotReadyError` with that sentence, or after `timeout` seconds.
    """
    started = time.monotonic()
    while not ready():
        reason = alive()
        if reason is not None:
            raise NotReadyError(f"{what}: {reason}")
        if time.monotonic() - started > timeout:
            raise NotReadyError(f"{what}: not ready after {timeout:.0f} s")
        time.sleep(pause)
    return time.monotonic() - started
