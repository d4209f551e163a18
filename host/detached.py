"""Processes that outlive their starter: each leads its own session and is recorded in a file. The record
holds process id and start time, and within what they have a meaning, so that a later reader (the launcher
after a crash, `make down`) never takes another process or session with the same id for it.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import structlog

from host.durable import write_whole
from host.processes import (
    TICKS_PER_SECOND,
    end_session,
    facts,
    is_running,
    kill_session,
    numbering,
    start_time,
)

log = structlog.get_logger()


class DetachedProcess(msgspec.Struct, frozen=True, kw_only=True):
    """One record. `started` is in clock ticks since boot, `launched_at` in Unix seconds; `numbering` is what
    `numbering()` says, or empty in records of earlier versions; `details` holds data of the owner."""

    name: str
    pid: int
    started: int
    launched_at: float
    numbering: str = ""
    details: dict[str, Any] = {}

    @property
    def alive(self) -> bool:
        return self.numbering in ("", numbering()) and is_running(self.pid, self.started)

    @property
    def age(self) -> float:
        """Seconds since it was started, whatever became of the clock; of one that is alive."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self.started / TICKS_PER_SECOND

    @property
    def leads(self) -> bool:
        """Whether the session with the id `pid`, should there be one, is the one that this process leads, or
        led: the system reuses no id that still names a session, so what is left of it has no other leader."""
        if self.alive:
            return True
        leader = facts(self.pid)
        return self.numbering == numbering() and (leader is None or leader.started == self.started)


_decoder = msgspec.json.Decoder(DetachedProcess)


class ExitedAtOnceError(OSError):
    """A process ended before it could be recorded; `code` is its exit code."""

    def __init__(self, name: str, code: int, output: Path) -> None:
        super().__init__(f"{name} exited at once with code {code}, see {output}")
        self.code = code


class DetachedProcesses:
    """The records below one directory, and the processes they stand for."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: Path,
        output: Path,
        details: dict[str, Any] | None = None,
    ) -> DetachedProcess:
        """Start `command` in a new session and record it. Raises `OSError`, and `ExitedAtOnceError` when it
        ends before it is recorded; then nothing of it runs."""
        output.parent.mkdir(parents=True, exist_ok=True)
        with open(output, "ab") as stream:
            child = subprocess.Popen(
                command,
                cwd=directory,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._children[name] = child
        started = start_time(child.pid)
        if started is None:
            raise ExitedAtOnceError(name, child.wait(), output)
        record = DetachedProcess(
            name=name,
            pid=child.pid,
            started=started,
            launched_at=time.time(),
            numbering=numbering(),
            details=details or {},
        )
        # On disk before it counts: after a loss of power a node without its record is never started again.
        content = msgspec.json.encode(record)
        try:
            write_whole(self._path(name), content, root=self._directory.parent)
        except OSError:
            kill_session(child.pid)
            self._reap(name)
            raise
        return record

    def get(self, name: str) -> DetachedProcess | None:
        self._reap(name)
        try:
            return _decoder.decode(self._path(name).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            log.error("unreadable process record", path=str(self._path(name)), error=str(error))
            return None

    def all(self) -> list[DetachedProcess]:
        records = (self.get(path.stem) for path in sorted(self._directory.glob("*.json")))
        return [record for record in records if record is not None]

    def exit_code(self, name: str, *, within: float = 0.0) -> int | None:
        """Exit code of a process that this object started; None while it runs or if another object started
        it. within: seconds to wait for it: one that is not alive any more may have threads that still end."""
        child = self._children.get(name)
        if child is None:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(within)
        return None

    def kill(self, name: str) -> int:
        """SIGKILL the whole session; returns the number of processes killed."""
        record = self.get(name)
        killed = kill_session(record.pid) if record is not None and record.leads else 0
        self._reap(name)
        return killed

    def end(self, name: str, *, grace: float) -> None:
        """SIGTERM, `grace` seconds, SIGKILL: nothing of the session is left. The record stays."""
        record = self.get(name)
        if record is not None and record.leads:
            end_session(record.pid, grace=grace)
        self._reap(name)

    def forget(self, name: str) -> None:
        self._reap(name)
        self._children.pop(name, None)
        self._path(name).unlink(missing_ok=True)

    def _reap(self, name: str) -> None:
        child = self._children.get(name)
        if child is not None:
            with contextlib.suppress(ChildProcessError):
                child.poll()

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.json"
