"""What the kernel says of the CPU quota a process runs under, in control groups of version 1 or 2."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
V1 = Path("/sys/fs/cgroup/cpu")
V2 = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class QuotaPeriods:
    """Periods of the quota so far, and those in which the group had used up its share and was stopped."""

    all: int
    throttled: int


def quota_periods(process: str = "self") -> QuotaPeriods | None:
    """Those of the group that `process` (a number, or `self`) is in; None where there is none to be read."""
    try:
        text = (_group(process) / "cpu.stat").read_text()
        found = dict(line.split() for line in text.splitlines())
        return QuotaPeriods(all=int(found["nr_periods"]), throttled=int(found["nr_throttled"]))
    except (OSError, KeyError, ValueError):
        return None


def quota_percent(process: str = "self") -> float | None:
    """The quota of the group that `process` is in, in percent of one core; None where it has none."""
    try:
        group = _group(process)
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota = (group / "cpu.cfs_quota_us").read_text()
            period = (group / "cpu.cfs_period_us").read_text()
        share = 100.0 * int(quota) / int(period)
    except (OSError, ValueError):
        return None
    return share if share > 0 else None


def _group(process: str) -> Path:
    """The directory of the process's group for the `cpu` controller. Raises `OSError` without one."""
    for line in (PROC / process / "cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return V1 / path.lstrip("/")
        if number == "0" and not controllers and (V2 / "cgroup.controllers").exists():
            return V2 / path.lstrip("/")
    raise OSError(f"process {process} is in no control group for CPU")
