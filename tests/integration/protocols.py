"""Asking a port in every protocol of the product until an answer shows which it speaks.

Nothing here takes silence for a refusal: what could not be asked, or does not answer, raises
`UnreachedError`.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

PATIENCE = 60.0
"""Seconds to wait for an answer before the attack counts as one that could not be carried out."""


class UnreachedError(Exception):
    """An attack that did not reach its target."""


@dataclass(frozen=True, slots=True)
class Port:
    """`role` of the process that listens there (`harness.roles`)."""

    role: str
    process: str
    host: str
    number: int

    def __str__(self) -> str:
        return f"{self.role} at {self.host}:{self.number}"


def spark_call() -> bytes:
    """A remote call without authentication, as any Spark program would send it."""
    body = b"\0" * 32
    message = struct.pack(">bqi", 3, 1, len(body)) + body
    return struct.pack(">q", 8 + len(message)) + message


def is_spark_answer(said: bytes) -> bool:
    """A frame of its transport: the answer to a call, or the reason why it failed."""
    return len(said) > 8 and said[0] == 0 and said[8] in (4, 5)


QUESTIONS = {
    "http": b"GET /none HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
    "redis": b"PING\r\n",
    "zookeeper": b"ruok",
    "spark": spark_call(),
    "py4j": b"r\nu\njava.lang.System\nrj\ne\n",
}
ANSWERS: dict[str, Callable[[bytes], bool]] = {
    "http": lambda said: said.startswith(b"HTTP/1."),
    "redis": lambda said: said.startswith((b"+PONG\r\n", b"-NOAUTH", b"-DENIED", b"-NOPERM")),
    "zookeeper": lambda said: said == b"imok" or b"not in the whitelist" in said,
    "spark": is_spark_answer,
    "py4j": lambda said: said.startswith(b"!"),
}
"""What only a server of this protocol says, to whichever question."""


def connected(port: Port) -> socket.socket:
    try:
        return socket.create_connection((port.host, port.number), PATIENCE)
    except OSError as error:
        raise UnreachedError(f"{port}: no connection, {error!r}") from error


def asked(port: Port, question: bytes) -> socket.socket:
    """A connection on which the question has been sent."""
    connection = connected(port)
    try:
        connection.sendall(question)
    except (BrokenPipeError, ConnectionResetError):
        pass  # closed by the server: the answer
    except OSError as error:
        connection.close()
        raise UnreachedError(f"{port}: could not be asked, {error!r}") from error
    return connection


def answer(port: Port, question: bytes, complete: Callable[[bytes], bool]) -> bytes:
    """What comes back until it is complete, or until the server closes the connection."""
    said = b""
    with contextlib.closing(asked(port, question)) as connection:
        while not complete(said):
            try:
                more = connection.recv(65_536)
            except ConnectionResetError:
                break
            except TimeoutError as error:
                raise UnreachedError(f"{port}: no answer to {question!r} in {PATIENCE:g} s") from error
            if not more:
                break
            said += more
    return said


def protocol_of(port: Port) -> str:
    """Asks in all protocols at once; the one in which the first answer is."""
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        for question in QUESTIONS.values():
            connection = stack.enter_context(contextlib.closing(asked(port, question)))
            selector.register(connection, selectors.EVENT_READ, bytearray())
        deadline = time.monotonic() + PATIENCE
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                more = _received(key.fileobj)
                key.data.extend(more)
                for protocol, is_answer in ANSWERS.items():
                    if is_answer(bytes(key.data)):
                        return protocol
                if not more:
                    selector.unregister(key.fileobj)
    raise UnreachedError(f"{port}: answers in none of {', '.join(QUESTIONS)}")


def _received(connection: object) -> bytes:
    assert isinstance(connection, socket.socket)
    try:
        return connection.recv(65_536)
    except ConnectionResetError:
        return b""
