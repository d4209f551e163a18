"""The two loops of the launcher: nodes and drivers."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from host import environment
from workers.launcher import launcher
from workers.launcher.drivers import WantedDriver
from workers.launcher.launcher import Launcher
from workers.launcher.operation_processes import OperationProcesses


class Provider:
    """Lists its nodes as the test says; these tests call no other method."""

    list_interval = 0.0

    def __init__(self, listing: Any) -> None:
        self.nodes = listing

    def describe(self) -> str:
        return "test"


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connections of this process belong to other tests, so the loops must not close them."""
    monkeypatch.setattr(launcher, "close_old_connections", lambda: None)
    monkeypatch.setattr("django.db.connections.close_all", lambda: None)


def create(tmp_path: Path, listing: Any) -> Launcher:
    provider: Any = Provider(listing)
    return Launcher(environment.read({"RESURGE_HOME": str(tmp_path)}), provider)


def test_a_provider_that_takes_its_time_keeps_no_driver_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "INTERVAL", 0.01)
    drivers_looked_at = 0
    answered = threading.Event()

    def listing() -> list[Any]:
        assert answered.wait(60), "the drivers waited for the provider"
        signal.raise_signal(signal.SIGTERM)
        return []

    def wanted() -> list[WantedDriver]:
        nonlocal drivers_looked_at
        drivers_looked_at += 1
        if drivers_looked_at == 3:
            answered.set()
        return []

    monkeypatch.setattr(launcher, "wanted_drivers", wanted)
    monkeypatch.setattr(OperationProcesses, "asked", lambda self: [])
    monkeypatch.setattr("workers.launcher.nodes.nodes_compare", lambda **_: None)
    monkeypatch.setattr("workers.launcher.nodes.requests_serve", lambda **_: True)
    create(tmp_path, listing).run()
    assert drivers_looked_at >= 3


def test_an_error_that_is_not_expected_ends_the_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listing() -> list[Any]:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(launcher, "wanted_drivers", list)
    monkeypatch.setattr(OperationProcesses, "asked", lambda self: [])
    with pytest.raises(RuntimeError, match="a mistake"):
        create(tmp_path, listing).run()
