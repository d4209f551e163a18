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


@pytest.mark.parametrize(("error", "capped"), [(ProcessLookupError, True), (PermissionError, False)])
def test_a_process_that_has_ended_leaves_the_caps_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[OSError], capped: bool
) -> None:
    own = tmp_path / "cpu" / cgroups.group_name(tmp_path)
    own.mkdir(parents=True)
    for group in (own.parent, own):
        (group / "cgroup.procs").touch()
        (group / "cpu.cfs_quota_us").touch()
    monkeypatch.setattr(cgroups, "V1", own.parent)
    caps = CpuCaps(tmp_path)
    write = Path.write_text

    def refused(path: Path, text: str) -> int:
        if path.parent.name == "node-1" and path.name == "cgroup.procs":
            raise error
        return write(path, text)

    monkeypatch.setattr(Path, "write_text", refused)
    caps.apply("node-1", 1, 50)
    caps.apply("node-2", 2, 50)
    assert (own / "node-2" / "cgroup.procs").exists() is capped


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
