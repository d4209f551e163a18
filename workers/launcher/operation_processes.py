"""A process for each operation of a kind that takes long, one at a time: verifications, savepoints."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from controlplane.events.choices import OPERATION_OPEN, OperationKind
from controlplane.events.models import Operation
from controlplane.events.operations import operation_fail
from controlplane.lifecycle.savepoints import savepoint_failed
from host.detached import DetachedProcess, DetachedProcesses
from host.environment import ROOT
from host.process_secrets import environment_for

log = structlog.get_logger()

LONGEST: Final = 1_800.0
"""Seconds after which an operation is given up."""


@dataclass(frozen=True, slots=True)
class Program:
    """What carries out the operations of a kind. name: of its logs, and for the secrets that it needs. done:
    what was not done where it fails. fail: notes that, and why."""

    kind: OperationKind
    name: str
    done: str
    fail: Callable[..., object]

    def command(self, operation_id: str) -> list[str]:
        return [sys.executable, "manage.py", self.name, "--operation", operation_id]


VERIFY = Program(OperationKind.TOPOLOGY_VERIFY, "verify", "verified", operation_fail)
SAVEPOINT = Program(OperationKind.TOPOLOGY_SAVEPOINT, "savepoint", "saved", savepoint_failed)


class OperationProcesses:
    """Reconciles processes with the open operations. A process that ends without an outcome fails its
    operation; a launcher that is killed leaves its process to the next one."""

    def __init__(
        self, home: Path, program: Program, *, command: Callable[[str], list[str]] | None = None
    ) -> None:
        self._home = home
        self._program = program
        self._command = command or program.command
        self._processes = DetachedProcesses(home / "run" / f"{program.name}-operations")

    def reconcile(self, asked: list[Operation]) -> None:
        """asked: the open operations, the oldest first."""
        wanted = {str(operation.pk): operation for operation in asked}
        running = [record for record in self._processes.all() if self._runs(record, wanted)]
        if running:
            return
        for name, operation in wanted.items():
            # Its process may have recorded the outcome and ended since it was listed.
            if Operation.objects.filter(pk=name, state__in=OPERATION_OPEN).exists():
                self._start(operation)
                return

    def asked(self) -> list[Operation]:
        """The open operations of the kind, the oldest first."""
        rows = Operation.objects.filter(kind=self._program.kind, state__in=OPERATION_OPEN)
        return list(rows.order_by("created_at"))

    def end_all(self) -> None:
        """The operations stay open: the next launcher begins again."""
        for record in self._processes.all():
            self._processes.kill(record.name)
            self._processes.forget(record.name)

    def _runs(self, record: DetachedProcess, wanted: dict[str, Operation]) -> bool:
        """Whether a process goes on. One that has ended is forgotten, one that takes too long is ended."""
        late = record.alive and record.age > LONGEST
        if record.alive and not late:
            return True
        self._processes.kill(record.name)
        self._processes.forget(record.name)
        operation = wanted.get(record.name)
        if operation is not None:  # one that has its outcome meanwhile keeps it
            log_path = self._log(operation.target)
            why = f"it took longer than {LONGEST:g} s" if late else f"its process ended; {log_path} says why"
            self._fail(operation, why)
        return False

    def _start(self, operation: Operation) -> None:
        try:
            record = self._processes.start(
                str(operation.pk),
                self._command(str(operation.pk)),
                environment={
                    **environment_for(self._program.name, os.environ),
                    "PYTHONPATH": str(ROOT),
                    "PYTHONUNBUFFERED": "1",
                },
                directory=ROOT,
                output=self._log(operation.target),
            )
        except OSError as error:
            self._fail(operation, str(error))
            return
        log.info("operation started", kind=operation.kind, topology=operation.target, pid=record.pid)

    def _fail(self, operation: Operation, why: str) -> None:
        self._program.fail(operation=operation, error=f"not {self._program.done}: {why}")

    def _log(self, topology: str) -> Path:
        return self._home / "log" / f"{self._program.name}.{topology}.log"
