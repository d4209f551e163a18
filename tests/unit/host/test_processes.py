from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.eventually import eventually
from host import processes
from host.detached import DetachedProcess, DetachedProcesses
from host.processes import (
    end_session,
    facts,
    is_running,
    kill_session,
    numbering,
    processes_with_environment,
    session_members,
    start_time,
)

# A leader with a child in a process group of its own, as Spark's Python workers are.
FAMILY = """
import os, signal, sys, time
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.setpgid(0, 0)
    time.sleep(60)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def family() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", FAMILY], start_new_session=True)
    eventually(lambda: len({one.group for one in session_members(process.pid)}) == 2, "two groups", 10)
    yield process
    kill_session(process.pid)
    process.wait()


def test_facts_of_this_process() -> None:
    found = facts(os.getpid())
    assert found is not None
    assert (found.parent, found.session) == (os.getppid(), os.getsid(0))
    assert facts(2**22 + 1) is None


def test_only_the_files_of_a_session_are_read(
    family: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each agent asks every second, on machines with thousands of other processes."""
    read: list[int] = []

    def noted(pid: int) -> Any:
        read.append(pid)
        return facts(pid)

    monkeypatch.setattr(processes, "facts", noted)
    assert len(session_members(family.pid)) == 2
    assert {os.getsid(pid) for pid in read} == {family.pid}


def test_the_file_tells_where_the_kernel_refuses_the_session(
    family: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(pid: int) -> int:
        raise PermissionError(errno.EPERM, "not permitted")

    monkeypatch.setattr(os, "getsid", refused)
    assert len(session_members(family.pid)) == 2


def test_a_session_holds_the_processes_that_left_the_group(family: subprocess.Popen[bytes]) -> None:
    leader, child = session_members(family.pid)
    assert leader.pid == family.pid
    assert child.group == child.pid != leader.group
    assert kill_session(family.pid) == 2
    assert session_members(family.pid) == []


def test_ending_a_session_kills_what_ignores_the_request(family: subprocess.Popen[bytes]) -> None:
    end_session(family.pid, grace=5)
    assert session_members(family.pid) == []


def test_what_has_started_this_process_is_not_found_by_its_environment() -> None:
    """`make down` in a shell with the environment of the installation: `make` has it as well."""
    entry = f"RESURGE_TEST_MARK={os.getpid()}-{time.time()}"
    name, _, value = entry.partition("=")
    look = (
        f"import sys; from host.processes import processes_with_environment as found; print(found({entry!r}))"
    )
    start = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {look!r}]))"
    run = subprocess.run(
        [sys.executable, "-c", start],
        env={**os.environ, name: value},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "[]"


def test_a_dead_process_that_was_not_reaped_does_not_run() -> None:
    process = subprocess.Popen(["sleep", "60"])
    started = start_time(process.pid)
    assert started is not None
    assert is_running(process.pid, started)
    assert not is_running(process.pid, started + 1), "another process with the same number"
    process.kill()
    eventually(lambda: start_time(process.pid) is None, "its end", 10)
    process.wait()


def test_processes_are_found_by_their_environment() -> None:
    entry = f"RESURGE_TEST_MARK={os.getpid()}-{time.time()}"
    name, _, value = entry.partition("=")
    process = subprocess.Popen(["sleep", "60"], env={**os.environ, name: value})
    try:
        eventually(lambda: processes_with_environment(entry) == [process.pid], "the marked process", 10)
        assert processes_with_environment(entry + "0") == []
    finally:
        process.kill()
        process.wait()


def test_detached_process_is_adopted_by_the_next_owner(tmp_path: Path) -> None:
    first = DetachedProcesses(tmp_path / "records")
    record = first.start(
        "one",
        ["sleep", "60"],
        environment=dict(os.environ),
        directory=tmp_path,
        output=tmp_path / "log" / "one.log",
        details={"rack": "rack-a"},
    )
    second = DetachedProcesses(tmp_path / "records")
    assert second.all() == [record]
    assert is_running(record.pid, record.started)
    assert os.getsid(record.pid) == record.pid
    second.end("one", grace=5)
    assert not is_running(record.pid, record.started)
    assert second.get("one") == record
    assert second.exit_code("one") is None, "only the process that started it learns the exit code"
    assert first.exit_code("one") == -signal.SIGTERM
    second.forget("one")
    assert first.get("one") is None


def recorded(directory: Path, process: subprocess.Popen[bytes], **changed: Any) -> DetachedProcesses:
    """A record of this process, as an earlier start may have left it, with another process's values."""
    started = start_time(process.pid)
    assert started is not None
    record = DetachedProcess(
        name="one",
        pid=process.pid,
        started=started,
        launched_at=time.time(),
        numbering=numbering(),
    )
    (directory / "one.json").write_bytes(msgspec.json.encode(msgspec.structs.replace(record, **changed)))
    return DetachedProcesses(directory)


def ended(processes: DetachedProcesses, how: str) -> None:
    if how == "kill":
        processes.kill("one")
    else:
        processes.end("one", grace=0.1)


@pytest.mark.parametrize("how", ["kill", "end"])
@pytest.mark.parametrize(
    "changed",
    [
        {"started": 12345},
        {"numbering": "of an earlier boot"},
        {"started": 12345, "numbering": ""},
    ],
    ids=["another start", "another boot", "an earlier version"],
)
def test_a_session_with_the_id_of_a_recorded_one_goes_on(
    family: subprocess.Popen[bytes], tmp_path: Path, changed: dict[str, Any], how: str
) -> None:
    processes = recorded(tmp_path, family, **changed)
    (record,) = processes.all()
    assert not record.alive
    ended(processes, how)
    assert len(session_members(family.pid)) == 2


@pytest.mark.parametrize("how", ["kill", "end"])
@pytest.mark.parametrize("reaped", [True, False])
def test_what_a_dead_leader_has_left_is_killed(
    family: subprocess.Popen[bytes], tmp_path: Path, reaped: bool, how: str
) -> None:
    processes = recorded(tmp_path, family)
    family.kill()
    eventually(lambda: start_time(family.pid) is None, "its end", 10)
    if reaped:
        family.wait()
    assert len(session_members(family.pid)) == 1
    ended(processes, how)
    assert session_members(family.pid) == []


@pytest.mark.parametrize("how", ["kill", "end"])
def test_a_process_that_an_earlier_version_recorded_is_ended(
    family: subprocess.Popen[bytes], tmp_path: Path, how: str
) -> None:
    ended(recorded(tmp_path, family, numbering=""), how)
    assert session_members(family.pid) == []


def test_detached_start_that_fails_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-such-program"):
        DetachedProcesses(tmp_path).start(
            "one",
            [str(tmp_path / "no-such-program")],
            environment={},
            directory=tmp_path,
            output=tmp_path / "one.log",
        )
    assert DetachedProcesses(tmp_path).all() == []


def test_a_process_that_cannot_be_recorded_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("host.detached.write_whole", full)
    entry = f"RESURGE_TEST_MARK={os.getpid()}-{time.time()}"
    name, _, value = entry.partition("=")
    with pytest.raises(OSError, match="No space left"):
        DetachedProcesses(tmp_path).start(
            "one",
            ["sleep", "60"],
            environment={**os.environ, name: value},
            directory=tmp_path,
            output=tmp_path / "one.log",
        )
    assert processes_with_environment(entry) == []


def test_damaged_record_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text("{")
    assert DetachedProcesses(tmp_path).all() == []
