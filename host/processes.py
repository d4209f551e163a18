"""Facts about processes from /proc, and ending whole sessions of them.

A process is identified by its number *and* its start time, since numbers are reused. A *session* holds
everything that one leader started; unlike a process group it includes Spark's Python workers, which make
their own group.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """One line of /proc/<pid>/stat: `started` in clock ticks since boot, `cpu_ticks` user + system,
    `reaped_ticks` the same of children that have ended and were waited for, with what they had reaped."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    started: int
    cpu_ticks: int
    reaped_ticks: int = 0


def facts(pid: int) -> ProcessFacts | None:
    """What the system knows about `pid`, or None when there is no such process."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The command name stands in parentheses and may itself hold spaces and parentheses.
    fields = text[text.rindex(")") + 2 :].split()
    return ProcessFacts(
        pid=pid,
        state=fields[0],
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started=int(fields[19]),
        cpu_ticks=int(fields[11]) + int(fields[12]),
        reaped_ticks=int(fields[13]) + int(fields[14]),
    )


def start_time(pid: int) -> int | None:
    """Start of a living process in ticks since boot; None when it is gone or only waits to be reaped."""
    found = facts(pid)
    return None if found is None or found.state in "ZX" else found.started


def is_running(pid: int, started: int) -> bool:
    """Whether the process that had `pid` and this start time still runs."""
    return start_time(pid) == started


@functools.cache
def numbering() -> str:
    """Within what process ids and start times have a meaning: this boot of the system, this PID namespace."""
    boot, namespace = "", ""
    with contextlib.suppress(OSError):
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
    with contextlib.suppress(OSError):
        namespace = os.readlink(PROC / "self/ns/pid")
    return f"{boot} {namespace}"


def all_processes() -> Iterator[ProcessFacts]:
    return _living(_numbers())


def session_members(session: int) -> list[ProcessFacts]:
    """Every living process of a session, the leader first. Agents ask every second, so files are read of
    these only."""
    own = (pid for pid in _numbers() if _may_be_in(session, pid))
    members = [process for process in _living(own) if process.session == session]
    return sorted(members, key=lambda process: (process.pid != session, process.pid))


def _numbers() -> list[int]:
    return [int(name) for name in os.listdir(PROC) if name.isdigit()]


def _living(pids: Iterable[int]) -> Iterator[ProcessFacts]:
    for pid in pids:
        found = facts(pid)
        if found is not None and found.state not in "ZX":
            yield found


def _may_be_in(session: int, pid: int) -> bool:
    try:
        return os.getsid(pid) == session
    except ProcessLookupError:
        return False
    except PermissionError:  # by a security module of the kernel: the process's file tells
        return True


def processes_with_environment(entry: str) -> list[int]:
    """Processes whose environment holds exactly `entry`, such as `RESURGE_HOME=/x`, but this one and those
    above it, as `make` in a shell into which the environment was read."""
    wanted, above = entry.encode(), _lineage(os.getpid())
    found: list[int] = []
    for process in all_processes():
        if process.pid in above:
            continue
        try:
            environment = (PROC / str(process.pid) / "environ").read_bytes()
        except OSError:
            continue
        if wanted in environment.split(b"\0"):
            found.append(process.pid)
    return found


def processes_of_program(name: str, directory: Path) -> list[int]:
    """Processes of this program that work in this directory, whatever their environment holds."""
    found: list[int] = []
    for process in all_processes():
        place = PROC / str(process.pid)
        with contextlib.suppress(OSError):
            if (place / "comm").read_text().strip() == name and (place / "cwd").samefile(directory):
                found.append(process.pid)
    return found


def _lineage(pid: int) -> set[int]:
    """A process, its parent and so on."""
    found: set[int] = set()
    while pid and pid not in found:
        found.add(pid)
        one = facts(pid)
        pid = one.parent if one is not None else 0
    return found


def send(pid: int, number: signal.Signals) -> bool:
    """Send a signal; False when there is no such process any more."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def kill_session(session: int) -> int:
    """SIGKILL everything in the session until nothing is left, for five seconds at most; returns how many
    processes were killed.

    Safe against reused ids: the system reuses no id that still names a session.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + 5.0
    while members := session_members(session):
        for member in members:
            if send(member.pid, signal.SIGKILL):
                killed.add(member.pid)
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return len(killed)


def end_session(session: int, *, grace: float) -> None:
    """SIGTERM to the session's leader, up to `grace` seconds for all of it to end, then SIGKILL."""
    send(session, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline:
        if start_time(session) is None:
            break
        time.sleep(0.05)
    kill_session(session)


def die_with_parent() -> tuple[str, ...]:
    """Command prefix that makes the kernel kill the program when the thread that started it ends."""
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "SIGKILL", "--") if setpriv else ()
