"""A supervisor that is stopped, or whose host is too busy: no command waits for it for good."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from supervision import __main__ as command
from supervision import start, supervisor
from supervision.rest import RestError
from supervision.screen import Progress
from supervision.status import status_show
from supervision.stop import stop


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installation whose supervisor takes connections and answers none."""
    monkeypatch.setattr(supervisor, "ANSWERS_WITHIN", 0.05)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "supervisord.pid").write_text("4711")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(supervisor.socket_path(tmp_path)))
        listener.listen()
        yield tmp_path


def test_status_says_that_it_does_not_answer(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_show(home) == 1
    assert "supervisord (process 4711) has not answered" in capsys.readouterr().out


def test_a_second_start_ends_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "stop", lambda *arguments: pytest.fail("it stopped what runs"))
    monkeypatch.delenv("PROFILE", raising=False)
    assert command._up(home, detach=True) == 1
    assert "not started: supervisord (process 4711)" in capsys.readouterr().err


def test_a_start_that_waits_for_queries_does_not_end_for_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host is busy: neither the web server nor the supervisor answers in time."""
    monkeypatch.setattr(start, "QUERIES_TIMEOUT", 0.2)

    def get(path: str) -> Any:
        raise RestError("GET", path, 0, "timed out")

    started: Any = SimpleNamespace(installation=SimpleNamespace(home=home, logs=home / "log"), notes=[])
    rest: Any = SimpleNamespace(get=get)
    start._wait_for_queries(started, "hashtags", rest, Progress(quiet=True))
    assert "not all queries are available yet" in started.notes[0]


def test_a_stop_kills_what_it_would_have_ended(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "redis").mkdir()
    program = home / "redis-server"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen(["redis-server", "60"], executable=program, cwd=home / "redis", env={}) as left:
        try:
            assert stop(home, Progress())
            assert left.wait(10) == -signal.SIGKILL
        finally:
            left.kill()
    assert "all are killed" in capsys.readouterr().out
