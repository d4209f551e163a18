"""A session ends quietly in whatever state it is."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from coordination.session import Session
from harness.stack import free_port


class InterruptedHereError(BaseException):
    pass


def test_one_whose_start_was_interrupted_ends_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(f"127.0.0.1:{free_port()}", 4.0)

    def interrupted() -> None:
        raise InterruptedHereError

    # Its threads run by then; the connection, with the socket that wakes it, does not exist yet.
    monkeypatch.setattr(session._client._connection, "start", interrupted)
    before = set(threading.enumerate())
    with pytest.raises(InterruptedHereError), closing(session):
        session.start()
    assert [one for one in threading.enumerate() if one not in before and one.is_alive()] == []


def test_one_that_was_not_started_or_has_ended_ends_without_an_error() -> None:
    session = Session(f"127.0.0.1:{free_port()}", 4.0)
    session.close()
    session.start()
    session.close()
    session.close()
