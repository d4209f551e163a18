"""Fixtures of all unit tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from whitenoise.middleware import WhiteNoiseMiddleware

from controlplane.api.events.sharing import snapshot
from controlplane.replication.answering import gains, plans
from controlplane.retention import selectors
from domain.recovery.detector import FailureDetector
from domain.recovery.machine import IncidentMachine


@pytest.fixture(scope="session", autouse=True)
def _static_files_are_listed_once() -> Iterator[None]:
    """Each test client creates the middleware again, which would search all static files every time."""
    listed: dict[str, Any] = {}
    look_through = WhiteNoiseMiddleware.add_files_from_finders

    def add(middleware: Any) -> None:
        if not listed:
            look_through(middleware)
            listed.update(middleware.files)
        middleware.files.update(listed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", add)
        yield


@pytest.fixture(autouse=True)
def _nothing_of_another_test() -> None:
    """Tests roll their changes back. So the same sequence number can stand for another state, and the same
    key for another topology; caches are cleared."""
    snapshot.forget()
    plans.forget()
    gains.forget()
    selectors._remembered = None


def validating(machine: type[Any]) -> Callable[..., list[Any]]:
    """`handle_stimulus` of this machine, followed by `validate_state`."""
    handle = machine.handle_stimulus

    def handle_and_validate(self: Any, *stimuli: Any) -> list[Any]:
        instructions: list[Any] = handle(self, *stimuli)
        self.validate_state()
        return instructions

    return handle_and_validate


@pytest.fixture(autouse=True)
def _machines_stay_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    """After every event of a state machine in any test, directly or through a service, check its
    invariants."""
    for machine in (IncidentMachine, FailureDetector):
        monkeypatch.setattr(machine, "handle_stimulus", validating(machine))
