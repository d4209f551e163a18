"""A session ends quietly in whatever state it is."""

from __future__ import annotations

import threading
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import BadVersionError

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


def test_a_znode_that_another_thread_writes_meanwhile_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(f"127.0.0.1:{free_port()}", 4.0)
    versions: list[int] = []
    kept = {"version": 1}

    class Deletion:
        def __init__(self, version: int) -> None:
            self.version = version

        def get(self, timeout: float) -> None:
            versions.append(self.version)
            if self.version != kept["version"]:
                raise BadVersionError

    def read(paths: list[str], deadline: float) -> dict[str, Any]:
        stat = SimpleNamespace(owner_session_id=0xA, version=kept["version"])
        kept["version"] = 2  # the other thread
        return dict.fromkeys(paths, (b"", stat))

    monkeypatch.setattr(session, "_begin", lambda: float("inf"))
    monkeypatch.setattr(session, "_read", read)
    monkeypatch.setattr(Session, "session", "a")
    monkeypatch.setattr(session._client, "delete_async", lambda path, version: Deletion(version))
    session.release("/resurge/application")
    assert versions == [1, 2]
