"""CPU and memory of a node: everything in the agent's session, measured from /proc."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from host.processes import PAGE_BYTES, PROC, TICKS_PER_SECOND, session_members


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """`cpu_percent`: 100 is one core, as in a node's `capacity`. `memory_bytes` adds up the resident pages
    that no file backs; what forked Python workers still share with their parent counts for each."""

    cpu_percent: float
    memory_bytes: int
    disk_free_bytes: int


class UsageSampler:
    """CPU percent between one `sample` and the next, over all processes of a session.

    A process that ends between two samples takes the time since the last one with it; the error is at
    most one interval of one short-lived process, since Spark keeps its Python workers.
    """

    def __init__(self, session: int, disk: Path) -> None:
        self._session = session
        self._disk = disk
        self._ticks: dict[tuple[int, int], int] = {}
        self._at = time.monotonic()

    def sample(self) -> NodeUsage:
        members = session_members(self._session)
        now = time.monotonic()
        ticks = {(member.pid, member.started): member.cpu_ticks for member in members}
        used = (
            sum(count - self._ticks.get(process, 0) for process, count in ticks.items()) if self._ticks else 0
        )
        elapsed = now - self._at
        self._ticks, self._at = ticks, now
        percent = 100.0 * used / TICKS_PER_SECOND / elapsed if elapsed > 0 else 0.0
        return NodeUsage(
            cpu_percent=round(percent, 1),
            memory_bytes=sum(private_memory(member.pid) for member in members),
            disk_free_bytes=_disk_free(self._disk),
        )


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
