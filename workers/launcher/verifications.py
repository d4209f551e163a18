"""Keeping a process for each verification that was asked for, one at a time."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from controlplane.events.choices import OPERATION_OPEN
from controlplane.events.models import Operation
from controlplane.events.operations import operation_fail
from host.detached import DetachedProcess, DetachedProcesses
from host.environment import ROOT
from host.process_secrets import environment_for

log = structlog.get_logger()

LONGEST: Final = 1_800.0
"""Seconds after which a verification is given up."""


def verify_command(operation_id: str) -> list[str]:
    return [sys.executable, "manage.py", "verify", "--operation", operation_id]


class Verifications:
    """Reconciles processes with the open operations. A process that ends without an outcome fails its
    operation; a launcher that is killed leaves its process to the next one."""

    def __init__(self, home: Path, *, command: Callable[[str], list[str]] = verify_command) -> None:
        self._home = home
        self._command = command
        self._processes = DetachedProcesses(home / "run" / "verifications")

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

    def end_all(self) -> None:
        """The operations stay open: the next launcher begins again."""
        for record in self._processes.all():
            self._processes.kill(record.name)
            self._processes.forget(record.name)

    def _runs(self, record: DetachedProcess, wanted: dict[str, Operation]) -> bool:
        """Whether a process goes on. One that has ended is forgotten, one that takes too long is ended."""
        late = time.time() - record.launched_at > LONGEST
        if record.alive and not late:
            return True
        self._processes.kill(record.name)
        self._processes.forget(record.name)
        operation = wanted.get(record.name)
        if operation is not None:  # one that has its outcome meanwhile keeps it
            log_path = self._log(operation.target)
            why = f"it took longer than {LONGEST:g} s" if late else f"its process ended; {log_path} says why"
            operation_fail(operation=operation, error=f"not verified: {why}")
        return False

    def _start(self, operation: Operation) -> None:
        try:
            record = self._processes.start(
                str(operation.pk),
                self._command(str(operation.pk)),
                environment={
                    **environment_for("verify", os.environ),
                    "PYTHONPATH": str(ROOT),
                    "PYTHONUNBUFFERED": "1",
                },
                directory=ROOT,
                output=self._log(operation.target),
            )
        except OSError as error:
            operation_fail(operation=operation, error=f"not verified: {error}")
            return
        log.info("verification started", topology=operation.target, pid=record.pid)

    def _log(self, topology: str) -> Path:
        return self._home / "log" / f"verify.{topology}.log"
