"""Keeping one driver process alive for every topology that is to run."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from domain.execution.checkpoints import UPLOAD_TIMEOUT
from host.detached import DetachedProcess, DetachedProcesses, ExitedAtOnceError
from host.environment import ROOT
from host.process_secrets import environment_for
from host.processes import send

log = structlog.get_logger()

BACK_OFF_FIRST = 1.0
BACK_OFF_LAST = 30.0
HEALTHY_AFTER = 60.0
# A driver stops by itself when its topology is undeployed; this is how long it may take, besides its last
# checkpoint.
STOP_PATIENCE = 15.0
STOP_GRACE = 10.0
UNTOLD_AFTER = 60.0
"""Seconds after which a driver that has completed is started again where the control plane does not know it:
its last status was lost, as where Redis was away, and it sends it again."""
THREADS_END = 5.0
"""Seconds that the threads of a driver which has ended may take: without its exit code it would be started
again, although it has completed."""


def driver_command(topology: str) -> list[str]:
    return [sys.executable, "-m", "spark_jobs.driver", "--topology", topology]


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedDriver:
    """A topology that is to run. `deployment` changes with every deployment of it; `finished` says that
    the control plane already knows that this deployment has completed. `checkpoint_timeout`: seconds that its
    last checkpoint may take."""

    topology: str
    deployment: str
    finished: bool
    checkpoint_timeout: float = UPLOAD_TIMEOUT


class Drivers:
    """Reconciles driver processes with the wanted topologies. A driver that exits with 0 has completed and is
    left alone until its topology is deployed again, or its last status is wanted again; every other exit is
    answered with a restart."""

    def __init__(self, home: Path, *, command: Callable[[str], list[str]] | None = None) -> None:
        self._home = home
        self._command = command or driver_command
        self._processes = DetachedProcesses(home / "run" / "drivers")
        self._completed = Completions(home / "run" / "drivers")
        self._not_before: dict[str, float] = {}
        self._pause: dict[str, float] = {}
        self._unwanted_since: dict[str, float] = {}
        self._untold_since: dict[str, float] = {}

    def reconcile(self, wanted: list[WantedDriver]) -> None:
        now = time.monotonic()
        by_name = {one.topology: one for one in wanted}
        for record in self._processes.all():
            if record.alive:
                one = by_name.get(record.name)
                if one is not None and one.deployment == record.details.get("deployment"):
                    self._unwanted_since.pop(record.name, None)
                else:
                    self._press(record, now)
            else:
                self._exited(record, by_name.get(record.name), now)
        for one in wanted:
            running = self._processes.get(one.topology)
            done = one.finished or (running is None and self._has_completed(one, now))
            if running is None and not done and now >= self._not_before.get(one.topology, 0.0):
                self._start(one)

    def _has_completed(self, one: WantedDriver, now: float) -> bool:
        """Whether its driver has completed, and does not have to send its last status again."""
        if self._completed.get(one.topology) != one.deployment:
            return False
        if now - self._untold_since.setdefault(one.topology, now) < UNTOLD_AFTER:
            return True
        log.warning("driver started again: its last status was lost", topology=one.topology)
        return False

    def end_all(self, *, grace: float = STOP_GRACE) -> None:
        """End every driver: all are asked first, so that they stop at their epoch boundaries side by side."""
        records = self._processes.all()
        for record in records:
            if record.alive:
                send(record.pid, signal.SIGTERM)
        for record in records:
            self._processes.end(record.name, grace=grace)
            self._processes.forget(record.name)

    def _start(self, one: WantedDriver) -> None:
        self._untold_since.pop(one.topology, None)
        try:
            record = self._processes.start(
                one.topology,
                self._command(one.topology),
                environment={
                    **environment_for("driver", os.environ),
                    "PYTHONPATH": str(ROOT),
                    "PYTHONUNBUFFERED": "1",
                },
                directory=ROOT,
                output=self._home / "log" / f"driver.{one.topology}.log",
                details={"deployment": one.deployment, "checkpoint_timeout": one.checkpoint_timeout},
            )
        except OSError as error:
            if isinstance(error, ExitedAtOnceError) and error.code == 0:
                self._completed.set(one.topology, one.deployment)
                log.info("driver finished", topology=one.topology)
                return
            self._back_off(one.topology, time.monotonic())
            log.error("driver not started", topology=one.topology, error=str(error))
            return
        log.info("driver started", topology=one.topology, pid=record.pid)

    def _exited(self, record: DetachedProcess, wanted: WantedDriver | None, now: float) -> None:
        code = self._processes.exit_code(record.name, within=THREADS_END)
        self._processes.kill(record.name)  # its JVM, should that have survived
        self._processes.forget(record.name)
        self._unwanted_since.pop(record.name, None)
        if code == 0:
            self._completed.set(record.name, str(record.details.get("deployment", "")))
            log.info("driver finished", topology=record.name)
            return
        if time.time() - record.launched_at > HEALTHY_AFTER:
            self._pause.pop(record.name, None)
        if wanted is not None:
            self._back_off(record.name, now)
            log.warning("driver exited", topology=record.name, code=code, restart_in=self._pause[record.name])

    def _back_off(self, topology: str, now: float) -> None:
        self._pause[topology] = min(self._pause.get(topology, BACK_OFF_FIRST / 2) * 2, BACK_OFF_LAST)
        self._not_before[topology] = now + self._pause[topology]

    def _press(self, record: DetachedProcess, now: float) -> None:
        """A driver that is no longer wanted, or is of an earlier deployment: wait, then SIGTERM, then
        SIGKILL."""
        since = self._unwanted_since.setdefault(record.name, now)
        patience = STOP_PATIENCE + float(record.details.get("checkpoint_timeout", 0.0))
        if now - since > patience + STOP_GRACE:
            log.warning("driver killed: it did not stop", topology=record.name)
            self._processes.kill(record.name)
        elif now - since > patience:
            send(record.pid, signal.SIGTERM)


class Completions:
    """Which deployment of a topology has completed: one small file each, so that it survives the launcher."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, topology: str) -> str | None:
        try:
            return self._path(topology).read_text()
        except OSError:
            return None

    def set(self, topology: str, deployment: str) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._path(topology).write_text(deployment)

    def _path(self, topology: str) -> Path:
        return self._directory / f"{topology}.completed"
