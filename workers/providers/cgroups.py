"""A CPU cap for each node through control groups, version 1 or 2, where this process may write them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path

import structlog

log = structlog.get_logger()

V1 = Path("/sys/fs/cgroup/cpu")
V2 = Path("/sys/fs/cgroup")
# Short, so that a node that has used up its share waits for milliseconds only.
PERIOD_US = 20_000


class CpuCaps:
    """One group per node with a quota of its capacity. Without permission, or with
    `enabled=False`, it does nothing and says so once."""

    def __init__(self, home: Path, *, enabled: bool = True) -> None:
        self._name = group_name(home)
        self._parent: Path | None = None
        self._version = 0
        self.state = "off"
        if enabled:
            self._open()

    def apply(self, node: str, pid: int, capacity: int) -> None:
        """Put `pid`, and with it all it will start, under a quota of `capacity` percent of one core."""
        if self._parent is None:
            return
        group = self._parent / node
        quota = max(1000, PERIOD_US * capacity // 100)
        try:
            group.mkdir(exist_ok=True)
            if self._version == 1:
                (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (group / "cpu.cfs_quota_us").write_text(str(quota))
            else:
                (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
            (group / "cgroup.procs").write_text(str(pid))
        except ProcessLookupError:
            pass  # it has ended already; others are capped all the same
        except OSError as error:
            self._give_up(str(error))

    def remove(self, node: str) -> None:
        """Remove a node's group; its processes have just been killed and may take a moment to vanish."""
        if self._parent is None:
            return
        for _ in range(20):
            try:
                (self._parent / node).rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.02)
            else:
                return

    def _open(self) -> None:
        try:
            if (V1 / "cpu.cfs_quota_us").exists() or (V1 / "cgroup.procs").exists():
                self._version, self._parent = 1, V1 / self._name
                self._parent.mkdir(exist_ok=True)
                if not (self._parent / "cpu.cfs_quota_us").exists():
                    raise OSError("the cpu controller has no quota")
            else:
                self._version, self._parent = 2, _own_group() / self._name
                self._parent.mkdir(exist_ok=True)
                (self._parent.parent / "cgroup.subtree_control").write_text("+cpu")
                (self._parent / "cgroup.subtree_control").write_text("+cpu")
        except OSError as error:
            self._give_up(str(error))
        else:
            self.state = f"control groups version {self._version}"

    def _give_up(self, reason: str) -> None:
        if self._parent is not None:
            with contextlib.suppress(OSError):
                self._parent.rmdir()
        self._parent = None
        self.state = "none"
        log.info("nodes run without a CPU cap: no access to control groups", reason=reason)


def group_name(home: Path) -> str:
    """Name of an installation's group; two installations on one machine do not share one."""
    return "resurge-" + hashlib.sha256(str(home).encode()).hexdigest()[:10]


def groups_remove(home: Path) -> None:
    """Remove the groups of an installation that has ended."""
    parents = [V1]
    with contextlib.suppress(OSError):
        parents.append(_own_group())
    for parent in parents:
        with contextlib.suppress(OSError):
            for group in (parent / group_name(home)).iterdir():
                if group.is_dir():
                    group.rmdir()
            (parent / group_name(home)).rmdir()


def _own_group() -> Path:
    """Where this process may make groups: below the root as root, else in its own (delegated) group."""
    if os.geteuid() == 0 and os.access(V2 / "cgroup.subtree_control", os.W_OK):
        return V2
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return V2 / line[3:].lstrip("/")
    raise OSError("no control group of version 2")
