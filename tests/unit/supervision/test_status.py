"""`make status` ends with 0 only where everything runs that is to run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from host.detached import DetachedProcess, DetachedProcesses
from supervision import status
from supervision.access import Access
from supervision.rest import Rest, RestError
from supervision.supervisor import ProcessState, Supervisor

ACCESS = Access(url="http://127.0.0.1:1", user="admin", password="-", token="-")
FIGURES = {"queries_available": 0, "queries_total": 1, "committed_epoch": 1, "checkpoint_epoch": 1}


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation whose only driver, and one of whose nodes, is dead."""

    def records(self: DetachedProcesses) -> list[DetachedProcess]:
        name = "hashtags" if self._directory.name == "drivers" else "node-1"
        return [DetachedProcess(name=name, pid=2**22 + 1, started=0, launched_at=0.0)]

    monkeypatch.setattr(DetachedProcesses, "all", records)
    monkeypatch.setattr(Supervisor, "is_running", lambda self: True)
    monkeypatch.setattr(Supervisor, "states", lambda self: [ProcessState("web", "RUNNING", 1, "")])
    monkeypatch.setattr(status, "access_read", lambda home: ACCESS)


def answers(monkeypatch: pytest.MonkeyPatch, *topologies: dict[str, str]) -> None:
    rows = {"topologies/": [{**FIGURES, **row} for row in topologies], "nodes/": []}
    monkeypatch.setattr(Rest, "listing", lambda self, path: rows[path])


@pytest.mark.parametrize(
    ("name", "desired", "now", "code"),
    [
        ("hashtags", "running", "running", 1),
        ("hashtags", "running", "recovering", 1),
        ("hashtags", "running", "completed", 0),
        ("hashtags", "stopped", "stopped", 0),
        ("trending", "running", "failed", 1),
        ("trending", "stopped", "stopped", 0),
    ],
)
def test_a_topology_that_needs_a_driver_and_has_none_is_not_well(
    dead: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    name: str,
    desired: str,
    now: str,
    code: int,
) -> None:
    answers(monkeypatch, {"name": name, "desired": desired, "status": now})
    assert status.status_show(tmp_path) == code
    said = capsys.readouterr().out
    assert "driver hashtags          dead" in said
    # The launcher forgets a driver that has ended, and waits before it starts the next one.
    assert ("no driver of trending" in said) == (name == "trending" and code == 1)


def test_without_an_answer_a_dead_driver_counts(
    dead: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: Any) -> Any:
        raise RestError("GET", "topologies/", 0, "refused")

    monkeypatch.setattr(Rest, "listing", refuse)
    assert status.status_show(tmp_path) == 1
    monkeypatch.setattr(status, "access_read", lambda home: None)
    assert status.status_show(tmp_path) == 1
