"""Reading the quota's periods, from files as the kernel writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from host import cgroups
from host.cgroups import QuotaPeriods, quota_percent, quota_periods


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cgroups, "PROC", tmp_path / "proc")
    monkeypatch.setattr(cgroups, "V1", tmp_path / "v1")
    monkeypatch.setattr(cgroups, "V2", tmp_path / "v2")
    (tmp_path / "proc" / "self").mkdir(parents=True)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_version_1(system: Path) -> None:
    write(system / "proc/self/cgroup", "4:memory:/x\n1:cpu,cpuacct:/resurge-1/node-1\n0::/\n")
    write(system / "v1/resurge-1/node-1/cpu.stat", "nr_periods 100\nnr_throttled 25\nthrottled_time 5\n")
    assert quota_periods() == QuotaPeriods(all=100, throttled=25)


def test_version_2(system: Path) -> None:
    write(system / "proc/self/cgroup", "0::/resurge-1/node-1\n")
    write(system / "v2/cgroup.controllers", "cpu\n")
    write(system / "v2/resurge-1/node-1/cpu.stat", "usage_usec 12\nnr_periods 7\nnr_throttled 0\n")
    assert quota_periods() == QuotaPeriods(all=7, throttled=0)


@pytest.mark.parametrize(
    ("group", "statistics"),
    [
        ("", None),  # no such controller
        ("1:cpu:/a\n", None),  # no such file
        ("1:cpu:/a\n", "nr_periods many\nnr_throttled 1\n"),
        ("1:cpu:/a\n", "nothing of use\n"),
        ("1:cpu:/a\n", "usage_usec 3\n"),
    ],
)
def test_without_a_quota_that_can_be_read_there_is_none(
    system: Path, group: str, statistics: str | None
) -> None:
    write(system / "proc/self/cgroup", group)
    if statistics is not None:
        write(system / "v1/a/cpu.stat", statistics)
    assert quota_periods() is None


def test_the_quota_in_percent_of_a_core(system: Path) -> None:
    write(system / "proc/self/cgroup", "1:cpu,cpuacct:/resurge-1/node-1\n")
    write(system / "v1/resurge-1/node-1/cpu.cfs_quota_us", "4000\n")
    write(system / "v1/resurge-1/node-1/cpu.cfs_period_us", "20000\n")
    assert quota_percent() == 20.0


def test_the_quota_in_version_2(system: Path) -> None:
    write(system / "proc/self/cgroup", "0::/resurge-1/node-1\n")
    write(system / "v2/cgroup.controllers", "cpu\n")
    write(system / "v2/resurge-1/node-1/cpu.max", "30000 20000\n")
    assert quota_percent() == 150.0


@pytest.mark.parametrize("quota", ["max 100000", "-1 100000", "nothing"])
def test_a_group_without_a_quota(system: Path, quota: str) -> None:
    write(system / "proc/self/cgroup", "0::/resurge-1/node-1\n")
    write(system / "v2/cgroup.controllers", "cpu\n")
    write(system / "v2/resurge-1/node-1/cpu.max", f"{quota}\n")
    assert quota_percent() is None
