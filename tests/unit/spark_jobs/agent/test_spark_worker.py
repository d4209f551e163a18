from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.agent.spark_worker import SparkWorkers


class _Started:
    """A process that runs until it is told to end."""

    def __init__(self, command: Sequence[str], **_: Any) -> None:
        self.command = tuple(command)
        self.pid = 1
        self.ended = False

    def poll(self) -> int | None:
        return 0 if self.ended else None

    def terminate(self) -> None:
        self.ended = True

    def wait(self, timeout: float | None = None) -> int:
        return 0


def test_a_worker_has_a_task_slot_for_the_replay_beside_those_of_the_present(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[_Started] = []

    def start(command: Sequence[str], **options: Any) -> _Started:
        started.append(_Started(command, **options))
        return started[-1]

    monkeypatch.setattr("spark_jobs.agent.spark_worker.subprocess.Popen", start)
    (tmp_path / "log").mkdir()
    workers = SparkWorkers(
        node="node-1",
        address="127.0.1.1",
        slots=1,
        master="spark://127.0.0.1:7077",
        secret="",
        home=tmp_path,
        node_home=tmp_path / "node-1",
    )
    workers.reconcile(frozenset({"hashtags"}))
    (worker,) = started
    assert worker.command[worker.command.index("--cores") + 1] == "3", (
        "one for the present, one for a replay, one for what is prepared"
    )
    workers.stop_all()
    assert worker.ended
