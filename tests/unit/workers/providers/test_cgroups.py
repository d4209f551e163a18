from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from host.processes import facts
from workers.providers import cgroups
from workers.providers.cgroups import CpuCaps


def test_without_permission_it_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "not-a-directory").touch()
    monkeypatch.setattr(cgroups, "V1", tmp_path / "absent")
    monkeypatch.setattr(cgroups, "V2", tmp_path / "not-a-directory")
    caps = CpuCaps(tmp_path)
    assert caps.state == "none"
    caps.apply("node-1", 1, 50)
    caps.remove("node-1")


def test_two_installations_do_not_share_groups(tmp_path: Path) -> None:
    assert cgroups.group_name(tmp_path / "a") != cgroups.group_name(tmp_path / "b")


def test_a_capped_process_gets_its_share_only(tmp_path: Path) -> None:
    caps = CpuCaps(tmp_path)
    if caps.state == "none":
        pytest.skip("control groups cannot be written here")
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        caps.apply("node-1", process.pid, 20)
        time.sleep(0.2)
        before = facts(process.pid)
        time.sleep(1.5)
        after = facts(process.pid)
        assert before is not None
        assert after is not None
        # Ticks are hundredths of a second: 20 % of 1.5 s are 30, an uncapped loop would take up to 150.
        assert after.cpu_ticks - before.cpu_ticks < 60
    finally:
        process.kill()
        process.wait()
        cgroups.groups_remove(tmp_path)
