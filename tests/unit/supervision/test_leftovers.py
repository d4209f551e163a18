"""What is ended before a start, and after a stop in which the supervisor was dead."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

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
