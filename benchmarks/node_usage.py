"""CPU seconds that nodes have taken, as the kernel counts them for control groups: all processes, also those
that have ended."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from host.processes import session_members
from workers.providers.cgroups import V1, V2, group_name

COUNTING = Path("/sys/fs/cgroup/cpuacct")
"""Where control groups of version 1 count, if they do not do so where quotas are."""


class NodeUsage:
    """`seconds(node)`: since an unknown moment; differences count."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files

    def seconds(self, node: str) -> float:
        text = self._files[node].read_text()
        if self._files[node].name == "cpu.stat":
            return int(dict(line.split() for line in text.splitlines())["usage_usec"]) / 1e6
        return int(text) / 1e9


@contextmanager
def counting(home: Path, leaders: Mapping[str, int]) -> Iterator[NodeUsage]:
    """Count nodes with a quota. leaders: node -> first process of its session. Where the group of the quota
    does not count, the node's processes are put into one of their own that does; what they start follows.
    Raises `FileNotFoundError` without control groups."""
    files: dict[str, Path] = {}
    made: list[Path] = []
    try:
        for node, leader in leaders.items():
            name = group_name(home)
            present = (V1 / name / node / "cpuacct.usage", V2 / name / node / "cpu.stat")
            found = next((path for path in present if path.exists()), None)
            if found is None:
                if not COUNTING.is_dir():
                    raise FileNotFoundError(f"{node}: no control group counts CPU")
                group = COUNTING / name / node
                group.mkdir(parents=True)
                made.append(group)
                _move(leader, group)
                found = group / "cpuacct.usage"
            files[node] = found
        yield NodeUsage(files)
    finally:
        for group in made:
            # Processes that still run go to where they came from; those of replaced nodes are gone.
            _empty(group)
            with contextlib.suppress(OSError):
                group.rmdir()
                group.parent.rmdir()


def _move(leader: int, group: Path) -> None:
    """Until no process of the session is elsewhere: while one is moved another may be started."""
    moved: set[int] = set()
    while left := {member.pid for member in session_members(leader)} - moved:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                (group / "cgroup.procs").write_text(str(pid))
        moved |= left


def _empty(group: Path) -> None:
    for pid in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(OSError):
            (COUNTING / "cgroup.procs").write_text(pid)
