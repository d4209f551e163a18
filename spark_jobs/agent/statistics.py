"""CPU and memory of a node: everything in the agent's session, measured from /proc; and how often the quota
of its control group has stopped it."""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from host.cgroups import QuotaPeriods, quota_periods
from host.processes import PAGE_BYTES, PROC, TICKS_PER_SECOND, ProcessFacts, session_members


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """`cpu_percent`: 100 is one core, as in a node's `capacity`. `memory_bytes` adds up the resident pages
    that no file backs; what forked Python workers still share with their parent counts for each.
    `cpu_seconds`: by topology, since the first sample; `own_cpu_seconds`: of the agent itself. `throttled`:
    share of the quota's periods in which the node had to wait for the next one, between 0 and 1; 0 without a
    quota."""

    cpu_percent: float
    memory_bytes: int
    disk_free_bytes: int
    cpu_seconds: Mapping[str, float] = field(default_factory=dict)
    own_cpu_seconds: float = 0.0
    throttled: float = 0.0


class UsageSampler:
    """What the processes of a session took between one `sample` and the next.

    The time of a process that ends between two samples is not lost: its parent has it in its `reaped_ticks`.
    roots: topology -> the process whose descendants work for it.
    """

    def __init__(self, session: int, disk: Path, *, roots: Callable[[], Mapping[str, int]] = dict) -> None:
        self._session = session
        self._disk = disk
        self._roots = roots
        self._before: dict[tuple[int, int], ProcessFacts] = {}
        self._owner: dict[tuple[int, int], str] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._periods: QuotaPeriods | None = None
        self._at = time.monotonic()

    def sample(self) -> NodeUsage:
        members = session_members(self._session)
        now = time.monotonic()
        used = self._used(members) if self._before else {}
        elapsed = now - self._at
        self._before = {(one.pid, one.started): one for one in members}
        self._at = now
        for topology, ticks in used.items():
            self._seconds[topology] += ticks / TICKS_PER_SECOND
        percent = 100.0 * sum(used.values()) / TICKS_PER_SECOND / elapsed if elapsed > 0 else 0.0
        return NodeUsage(
            cpu_percent=round(percent, 1),
            memory_bytes=sum(private_memory(member.pid) for member in members),
            disk_free_bytes=_disk_free(self._disk),
            cpu_seconds={name: round(count, 2) for name, count in self._seconds.items() if name},
            own_cpu_seconds=round(self._seconds[""], 2),
            throttled=self._throttled(),
        )

    def _used(self, members: Iterable[ProcessFacts]) -> dict[str, int]:
        """Clock ticks since the last sample by topology; those of the agent itself under the empty name."""
        alive = {(one.pid, one.started): one for one in members}
        by_pid = {one.pid: one for one in alive.values()}
        owners = {pid: topology for topology, pid in self._roots().items()}
        used: defaultdict[str, int] = defaultdict(int)
        for key, one in alive.items():
            # A process whose parent has just gone still belongs to whom it belonged to.
            owner = _owner(one, by_pid, owners) or self._owner.get(key, "")
            self._owner[key] = owner
            before = self._before.get(key)
            used[owner] += _ticks(one) - (_ticks(before) if before else 0)
        for key, gone in self._before.items():
            # Its parent has just reaped it, with all that was counted before for whom it belonged to.
            if key not in alive and gone.parent in by_pid:
                used[_owner(by_pid[gone.parent], by_pid, owners)] -= _ticks(gone)
        self._owner = {key: owner for key, owner in self._owner.items() if key in alive}
        return {owner: max(0, ticks) for owner, ticks in used.items()}

    def _throttled(self) -> float:
        before, self._periods = self._periods, quota_periods()
        if before is None or self._periods is None or self._periods.all <= before.all:
            return 0.0
        share = (self._periods.throttled - before.throttled) / (self._periods.all - before.all)
        return round(min(max(share, 0.0), 1.0), 3)


def _ticks(process: ProcessFacts) -> int:
    return process.cpu_ticks + process.reaped_ticks


def _owner(process: ProcessFacts, by_pid: Mapping[int, ProcessFacts], owners: Mapping[int, str]) -> str:
    """The topology that an ancestor of the process, or the process itself, is the root of; else empty."""
    one: ProcessFacts | None = process
    while one is not None and one.pid not in owners:
        one = by_pid.get(one.parent)
    return owners[one.pid] if one is not None else ""


def private_memory(pid: int) -> int:
    """Resident bytes that are not shared with files or other mappings; 0 for a process that is gone."""
    try:
        fields = (PROC / str(pid) / "statm").read_text().split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * PAGE_BYTES if len(fields) > 2 else 0


def _disk_free(path: Path) -> int:
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return 0
