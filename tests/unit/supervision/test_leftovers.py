"""What is ended before a start, and after a stop in which the supervisor was dead."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from host.detached import DetachedProcesses
from supervision import stop
from supervision.screen import Progress
from supervision.stop import leftovers_end


@pytest.fixture
def sleeper(tmp_path: Path) -> Path:
    program = tmp_path / "redis-server"
    shutil.copy2(shutil.which("sleep") or "/bin/sleep", program)
    return program


def test_a_redis_whose_supervisor_was_killed_is_ended_and_another_one_goes_on(
    tmp_path: Path, sleeper: Path
) -> None:
    homes = [tmp_path / "home", tmp_path / "other"]
    running = []
    for home in homes:
        (home / "redis").mkdir(parents=True)
        # Redis has overwritten its environment.
        running.append(subprocess.Popen([sleeper, "60"], cwd=home / "redis", env={}))
    try:
        assert leftovers_end(homes[0], Progress(quiet=True))
        assert running[0].wait(10) == -9
        assert running[1].poll() is None
        assert not leftovers_end(homes[0], Progress(quiet=True))
    finally:
        for one in running:
            one.kill()
            one.wait()


def test_the_launcher_ends_before_nodes_whose_disks_it_would_delete(
    tmp_path: Path, sleeper: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = subprocess.Popen([sleeper, "60"])
    monkeypatch.setattr(
        stop,
        "processes_with_environment",
        lambda entry: [launcher.pid] if launcher.poll() is None else [],
    )
    nodes = DetachedProcesses(tmp_path / "run" / "nodes")
    nodes.start("node-1", [str(sleeper), "60"], environment={}, directory=tmp_path, output=tmp_path / "log")
    ended: list[int | None] = []
    kill = DetachedProcesses.kill

    def noted(self: DetachedProcesses, name: str) -> int:
        ended.append(launcher.poll())
        return kill(self, name)

    monkeypatch.setattr(DetachedProcesses, "kill", noted)
    try:
        assert leftovers_end(tmp_path, Progress(quiet=True))
    finally:
        launcher.kill()
        nodes.kill("node-1")
    assert ended[0] == -9
