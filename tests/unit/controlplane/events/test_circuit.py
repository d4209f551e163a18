"""A Redis that hangs costs a second at most, and then nothing for some seconds."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from controlplane.events import services, tasks
from controlplane.events.circuit import LIMIT, OPEN_FOR, Circuit
from controlplane.events.tasks import task_send  # itself: a fixture replaces it in its module


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _fail() -> None:
    raise ConnectionError("away")


def test_after_a_failure_nothing_is_sent_for_some_seconds_and_then_by_one_caller() -> None:
    clock = Clock()
    circuit = Circuit(clock=clock)
    sent: list[int] = []
    assert circuit.attempt(lambda: sent.append(1))
    with pytest.raises(ConnectionError):
        circuit.attempt(_fail)
    assert not circuit.attempt(lambda: sent.append(2))
    clock.now += OPEN_FOR
    # While the first caller tries, another one does not.
    assert circuit.attempt(lambda: sent.append(10 if circuit.attempt(lambda: None) else 3))
    assert circuit.attempt(lambda: sent.append(4))
    assert sent == [1, 3, 4]


@pytest.fixture
def hung() -> Iterator[str]:
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


def test_an_action_waits_little_for_a_redis_that_hangs(
    hung: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from channels.layers import channel_layers

    settings.CELERY_BROKER_URL = hung
    settings.CHANNEL_LAYERS = {
        "default": {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [hung]}}
    }
    monkeypatch.setattr(channel_layers, "backends", {})
    for module in (services, tasks):
        monkeypatch.setattr(module, "redis_circuit", Circuit())
    tasks._producer.cache_clear()
    try:
        # The two circuits are of one Redis, so a process pays for one attempt; here each pays for its own.
        sends: list[Callable[[], None]] = [
            lambda: services.hint_send(1),
            lambda: task_send("recovery.sweep"),
        ]
        for send in sends:
            started = time.monotonic()
            for _ in range(10):
                send()
            assert time.monotonic() - started < 3 * LIMIT
    finally:
        tasks._producer.cache_clear()
        channel_layers.backends.clear()
