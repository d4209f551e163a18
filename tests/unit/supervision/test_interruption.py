"""`make up`, ended before everything runs: nothing is left behind, whatever cleans up and how it fails."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from supervision import __main__ as command
from supervision import start as beginning
from supervision import stop as ending
from supervision.access import Access
from supervision.profiles import ROOMY
from supervision.readiness import NotReadyError
from supervision.rest import Rest
from supervision.screen import Progress
from supervision.start import Started
from supervision.turns import turn_to_stop


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Homes whose processes were ended."""
    homes: list[Path] = []

    def stop(home: Path, progress: Progress) -> bool:
        homes.append(home)
        return True

    monkeypatch.setattr(command, "stop", stop)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    for name in ("PROFILE", "PIPELINE", "INPUT", "RATE", "LIMIT", "NODES", "SLOTS", "CAPACITY", "REPLICAS"):
        monkeypatch.delenv(name, raising=False)
    return homes


def starts_with(monkeypatch: pytest.MonkeyPatch, error: BaseException, *, cleaning: Exception | None) -> None:
    def start(*arguments: Any) -> Any:
        try:
            raise error
        finally:
            if cleaning is not None:
                raise cleaning

    monkeypatch.setattr(command, "start", start)


@pytest.mark.parametrize("cleaning", [None, AttributeError("no socket"), OSError("no file")])
@pytest.mark.parametrize(("detach", "code"), [(False, 0), (True, 130)])
def test_an_interrupted_start_is_stopped(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stopped: list[Path],
    cleaning: Exception | None,
    detach: bool,
    code: int,
) -> None:
    starts_with(monkeypatch, command.Interrupted(), cleaning=cleaning)
    assert command._up(tmp_path, detach=detach) == code
    assert stopped == [tmp_path]
    assert "no process is left" in capsys.readouterr().out


def test_a_start_that_fails_is_stopped_and_says_why(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stopped: list[Path],
) -> None:
    starts_with(monkeypatch, NotReadyError("redis does not answer"), cleaning=None)
    assert command._up(tmp_path, detach=False) == 1
    assert stopped == [tmp_path]
    assert "not started: redis does not answer" in capsys.readouterr().err


def test_an_error_of_the_program_is_shown_whole_once_everything_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: list[Path]
) -> None:
    starts_with(monkeypatch, KeyError("name"), cleaning=None)
    with pytest.raises(KeyError, match="name"):
        command._up(tmp_path, detach=False)
    assert stopped == [tmp_path]


def test_what_cannot_be_shown_stops_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stopped: list[Path],
) -> None:
    monkeypatch.setattr(command, "start", lambda *_: SimpleNamespace(installation=None, access=None))
    monkeypatch.setattr(command, "_show_access", lambda *_, **__: None)
    monkeypatch.setattr(command, "INTERVAL", 0.0)
    errors = iter([KeyError("state"), KeyError("state"), ValueError("no JSON"), None])

    def follow(*_: Any) -> None:
        if (error := next(errors)) is not None:
            raise error

    monkeypatch.setattr(command, "follow", follow)
    assert command._up(tmp_path, detach=False) == 0
    assert stopped == []
    assert capsys.readouterr().out.count("cannot be shown here") == 2, "once for each error"


def test_an_interruption_that_a_library_hides_ends_following(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: list[Path]
) -> None:
    monkeypatch.setattr(command, "start", lambda *_: SimpleNamespace(installation=None, access=None))
    monkeypatch.setattr(command, "_show_access", lambda *_, **__: None)

    def follow(*_: Any) -> None:
        try:
            raise command.Interrupted
        finally:
            raise OSError("closed")

    monkeypatch.setattr(command, "follow", follow)
    assert command._up(tmp_path, detach=False) == 0
    assert stopped == [tmp_path]


class Half:
    """A supervisor whose processes have these states, until everything is stopped."""

    def __init__(self, states: list[str], stopped: list[Path]) -> None:
        self._states, self._stopped = states, stopped

    def is_running(self) -> bool:
        return not self._stopped

    def states(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(state=state) for state in self._states] if self.is_running() else []


@pytest.mark.parametrize(
    ("states", "stopping", "left"),
    [
        (["RUNNING", "RUNNING"], False, False),
        (["RUNNING", "BACKOFF"], False, False),
        (["RUNNING", "STOPPED"], False, True),
        (["RUNNING", "RUNNING"], True, True),
    ],
)
def test_what_an_interrupted_command_has_left_is_ended_before_a_start(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stopped: list[Path],
    states: list[str],
    stopping: bool,
    left: bool,
) -> None:
    """It was taken for an installation that runs, without the processes that watch nodes."""
    for module in (command, ending):
        monkeypatch.setattr(module, "Supervisor", lambda home: Half(states, stopped))
    monkeypatch.setattr(command, "_show_access", lambda *_, **__: None)
    monkeypatch.setattr(command, "_already_up", lambda *_: 0)
    started: list[Path] = []

    def start(home: Path, *_: Any) -> SimpleNamespace:
        started.append(home)
        return SimpleNamespace()

    monkeypatch.setattr(command, "start", start)
    (tmp_path / "run").mkdir()
    if stopping:
        (tmp_path / "run" / "stopping").touch()
    assert command._up(tmp_path, detach=True) == 0
    assert stopped == started == ([tmp_path] if left else [])


def test_one_command_at_a_time_starts_an_installation(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stopped: list[Path],
) -> None:
    codes: list[int] = []

    def start(*_: Any) -> SimpleNamespace:
        if not codes:
            codes.append(-1)
            codes.append(command._up(tmp_path, detach=True))
        return SimpleNamespace(installation=None, access=None)

    monkeypatch.setattr(command, "start", start)
    monkeypatch.setattr(command, "_show_access", lambda *_, **__: None)
    assert command._up(tmp_path, detach=True) == 0
    assert codes == [-1, 1]
    assert stopped == []
    assert "is starting" in capsys.readouterr().err


def test_a_start_that_waits_for_queries_ends_when_everything_is_stopped(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    stopped: list[Path],
) -> None:
    def start(home: Path, options: Any, progress: Progress) -> Any:
        installation: Any = SimpleNamespace(home=home)
        beginning._wait_for_queries(
            beginning.Started(installation, Access(url="", user="", password="", token="")),
            "hashtags",
            Rest("http://127.0.0.1:1/", ""),
            progress,
        )

    monkeypatch.setattr(command, "start", start)
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("it waits"))
    assert command._up(tmp_path, detach=True) == 1
    assert "not started: everything was ended meanwhile" in capsys.readouterr().err
    assert stopped == []


def test_a_stop_goes_on_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: list[Path]
) -> None:
    handled: dict[int, Any] = {}
    monkeypatch.setattr(signal, "signal", handled.__setitem__)
    assert command._down(tmp_path) == 0
    assert handled == dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), signal.SIG_IGN)


def test_a_stop_waits_for_one_that_has_begun(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    order: list[str] = []

    def second() -> None:
        with turn_to_stop(tmp_path):
            order.append("second")

    with turn_to_stop(tmp_path):
        other = threading.Thread(target=second)
        other.start()
        other.join(0.2)
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]


@pytest.mark.parametrize("https", [True, False])
def test_only_a_demo_shows_the_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], https: bool
) -> None:
    """What a container prints is kept in its log."""
    installation: Any = SimpleNamespace(home=tmp_path, settings=SimpleNamespace(https=https))
    access = Access(url="http://127.0.0.1:8000/", user="admin", password="guess-me", token="t")
    command._show_access(Started(installation, access), ROOMY, Progress(), stop_text="make down")
    shown = capsys.readouterr().out
    assert ("guess-me" in shown) is not https
    assert str(tmp_path / "run" / "access.json") in shown
