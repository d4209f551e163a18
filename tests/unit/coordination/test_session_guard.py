"""A session is given up only after it was refused for a while, counted from the moment of disconnection."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kazoo.exceptions import KazooException
from kazoo.protocol.states import KazooState

from coordination import session_guard
from coordination.session_guard import SessionGuard

PATIENCE = 8.0
"""Seconds, for a session timeout of 4 s."""


class Client:
    """What the guard uses of kazoo's client."""

    def __init__(self, port: int) -> None:
        self.hosts = [("127.0.0.1", port)]
        self.connected = False
        self.started = 0
        self.ending = False
        self._listeners: list[Callable[[str], None]] = []

    def add_listener(self, listener: Callable[[str], None]) -> None:
        self._listeners.append(listener)

    def enter(self, state: str) -> None:
        self.connected = state == KazooState.CONNECTED
        for listener in self._listeners:
            listener(state)

    def stop(self) -> None:
        self.enter(KazooState.LOST)

    def start_async(self) -> None:
        if self.ending:
            raise KazooException("the connection before has not ended")
        self.started += 1


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(session_guard, "time", clock)
    return clock


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def client(server: socket.socket) -> Client:
    return Client(server.getsockname()[1])


def guarding(client: Any) -> SessionGuard:
    return SessionGuard(client, session_timeout=4.0)


def test_patience_counts_from_the_disconnection(client: Client, clock: Clock) -> None:
    """A driver asks only while it is disconnected, so hours may lie between two checks."""
    guard = guarding(client)
    client.enter(KazooState.CONNECTED)
    clock.now += 7200
    client.enter(KazooState.SUSPENDED)
    clock.now += PATIENCE - 1
    assert not guard.check()
    client.enter(KazooState.LOST)
    clock.now += 1
    assert guard.check(), "the second state does not begin the wait anew"
    assert client.started == 1


def test_a_connection_that_came_back_ends_the_wait(client: Client, clock: Clock) -> None:
    guard = guarding(client)
    for _ in range(3):
        client.enter(KazooState.SUSPENDED)
        clock.now += PATIENCE - 1
        assert not guard.check()
        client.enter(KazooState.CONNECTED)
        assert not guard.check()
    assert client.started == 0


def test_a_client_that_never_was_connected_is_replaced_too(client: Client, clock: Clock) -> None:
    guard = guarding(client)
    clock.now += PATIENCE
    assert guard.check()


def test_a_new_session_gets_as_much_time(client: Client, clock: Clock) -> None:
    guard = guarding(client)
    clock.now += PATIENCE
    assert guard.check()
    clock.now += PATIENCE - 1
    assert not guard.check()
    clock.now += 1
    client.ending = True
    assert not guard.check(), "the thread of the old connection has not ended yet"
    clock.now += PATIENCE
    client.ending = False
    assert guard.check()
    assert client.started == 2


def test_while_no_server_listens_the_session_is_kept(
    client: Client, clock: Clock, server: socket.socket
) -> None:
    guard = guarding(client)
    server.close()
    clock.now += 100 * PATIENCE
    assert not guard.check()
    assert client.started == 0


def test_servers_are_asked_once_a_second(
    client: Client, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they drop packets, each time takes as long, and a sweep asks many times."""
    asked: list[float] = []
    guard = guarding(client)
    monkeypatch.setattr(guard, "_server_listens", lambda: asked.append(clock.now))
    clock.now += PATIENCE
    for _ in range(3):
        assert not guard.check()
    assert asked == [clock.now]
    clock.now += session_guard.ASK_AGAIN
    guard.check()
    assert len(asked) == 2
