from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.events import tasks
from controlplane.events.choices import Channel, OperationKind, OperationState
from controlplane.events.models import Operation
from controlplane.events.operations import operation_request, operation_start, operation_succeed
from host.process_secrets import NEEDED, SECRETS
from workers.launcher import operation_processes
from workers.launcher.operation_processes import VERIFY, OperationProcesses

pytestmark = pytest.mark.django_db


class Process:
    """A process in place of the verification: it runs a script, and notes for which operation."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.script = "import time; time.sleep(60)"

    def command(self, operation_id: str) -> list[str]:
        note = f"open({str(self.home / 'starts')!r}, 'a').write({operation_id!r} + ' ')\n"
        return [sys.executable, "-c", note + self.script]

    @property
    def starts(self) -> list[str]:
        path = self.home / "starts"
        return path.read_text().split() if path.exists() else []

    def launcher(self) -> OperationProcesses:
        return OperationProcesses(self.home, VERIFY, command=self.command)


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "task_send", lambda name, *arguments: None)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    made = Process(tmp_path)
    yield made
    made.launcher().end_all()


def ask(topology: str = "hashtags") -> Operation:
    by: dict[str, Any] = {"actor": "ada", "reason": "test", "channel": Channel.CLI}
    return operation_request(kind=OperationKind.TOPOLOGY_VERIFY, target=topology, **by)


def reconcile_until(
    launcher: OperationProcesses, condition: Callable[[], bool], timeout: float = 30.0
) -> None:
    deadline = time.monotonic() + timeout
    while True:
        launcher.reconcile(launcher.asked())
        if condition():
            return
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.02)


def state(operation: Operation) -> str:
    operation.refresh_from_db()
    return operation.state


def test_one_process_at_a_time_the_oldest_first(process: Process) -> None:
    first, second = ask(), ask("trending")
    launcher = process.launcher()
    reconcile_until(launcher, lambda: process.starts == [str(first.pk)])
    for _ in range(5):
        launcher.reconcile(launcher.asked())
    assert process.starts == [str(first.pk)]
    operation_succeed(operation=first)
    launcher.reconcile(launcher.asked())
    assert process.starts == [str(first.pk)], "the process has its outcome, and has not ended yet"
    launcher.end_all()
    reconcile_until(launcher, lambda: process.starts == [str(first.pk), str(second.pk)])
    assert (state(first), state(second)) == (OperationState.SUCCEEDED, OperationState.PENDING)


def test_the_next_launcher_adopts_it(process: Process) -> None:
    operation = ask()
    reconcile_until(process.launcher(), lambda: process.starts == [str(operation.pk)])
    second = process.launcher()
    for _ in range(5):
        second.reconcile(process.launcher().asked())
    assert process.starts == [str(operation.pk)]
    assert state(operation) == OperationState.PENDING


def test_a_process_that_ends_without_an_outcome_fails_its_operation(process: Process) -> None:
    process.script = "raise SystemExit('no memory')"
    operation = ask()
    reconcile_until(process.launcher(), lambda: state(operation) == OperationState.FAILED)
    log = process.home / "log" / "verify.hashtags.log"
    # Whether it was seen to run before it ended is chance.
    assert operation.error.startswith("not verified: ")
    assert str(log) in operation.error
    assert "no memory" in log.read_text()
    assert process.starts == [str(operation.pk)]


def test_a_program_that_cannot_be_started_fails_its_operation(tmp_path: Path) -> None:
    operation = ask()
    launcher = OperationProcesses(tmp_path, VERIFY, command=lambda _: ["/no/such/program"])
    launcher.reconcile(launcher.asked())
    assert state(operation) == OperationState.FAILED
    assert "/no/such/program" in operation.error


def test_an_outcome_recorded_before_the_end_stands(process: Process) -> None:
    """The operation was listed as open, and ended while the launcher looked at processes."""
    end = process.home / "end"
    process.script = f"import os, time\nwhile not os.path.exists({str(end)!r}): time.sleep(0.01)"
    operation = ask()
    launcher = process.launcher()
    reconcile_until(launcher, lambda: process.starts == [str(operation.pk)])
    listed = launcher.asked()
    operation_succeed(operation=operation, result={"exact": 15})
    end.touch()
    record = process.home / "run" / "verify-operations" / f"{operation.pk}.json"
    deadline = time.monotonic() + 30
    while record.exists():
        assert time.monotonic() < deadline
        launcher.reconcile(listed)
    assert state(operation) == OperationState.SUCCEEDED
    assert process.starts == [str(operation.pk)]


def test_one_that_takes_too_long_is_ended(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    operation = ask()
    launcher = process.launcher()
    reconcile_until(launcher, lambda: process.starts == [str(operation.pk)])
    operation_start(operation=operation)
    monkeypatch.setattr(operation_processes, "LONGEST", 0.0)
    reconcile_until(launcher, lambda: state(operation) == OperationState.FAILED)
    assert operation.error == "not verified: it took longer than 0 s"


def test_a_clock_that_is_put_forward_ends_nothing(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    operation = ask()
    launcher = process.launcher()
    reconcile_until(launcher, lambda: process.starts == [str(operation.pk)])
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 7_200)
    launcher.reconcile(launcher.asked())
    assert state(operation) == OperationState.PENDING
    assert process.starts == [str(operation.pk)]


def test_a_stop_of_the_installation_leaves_it_open(process: Process) -> None:
    operation = ask()
    launcher = process.launcher()
    reconcile_until(launcher, lambda: process.starts == [str(operation.pk)])
    launcher.end_all()
    assert not list((process.home / "run" / "verify-operations").glob("*.json"))
    assert state(operation) == OperationState.PENDING
    reconcile_until(process.launcher(), lambda: process.starts == 2 * [str(operation.pk)])


def test_it_gets_its_secrets_only(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, "a secret of this installation")
    seen = process.home / "seen"
    process.script = f"""
import os, time
open({str(seen) + ".part"!r}, "w").write(" ".join(os.environ))
os.replace({str(seen) + ".part"!r}, {str(seen)!r})
time.sleep(60)
"""
    ask()
    reconcile_until(process.launcher(), seen.exists)
    assert SECRETS & set(seen.read_text().split()) == NEEDED["verify"]
