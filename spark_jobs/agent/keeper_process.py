"""The keeper of a node as a process that the agent starts when there is something for it, and starts again
when it exits."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import structlog

from host.process_secrets import environment_for
from host.processes import die_with_parent
from spark_jobs.state.key_requests import desks

log = structlog.get_logger()
PAUSE = 2.0
"""Seconds between two starts."""
LAST = 10.0
"""Seconds in which the keeper stores what waits after SIGTERM, at most."""


class KeeperProcess:
    """Not thread-safe: the main thread owns it, as it does the executors, and for the same reason."""

    def __init__(self, node_home: Path) -> None:
        self._home = node_home
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = float("-inf")

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def reconcile(self) -> None:
        if self._process is not None:
            code = self._process.poll()
            if code is None:
                return
            log.warning("keeper exited", code=code)
            self._process = None
        now = time.monotonic()
        if now - self._started_at < PAUSE or not any(desks(self._home)):
            return
        self._started_at = now
        command = (sys.executable, "-m", "spark_jobs.agent.keeper", str(self._home))
        try:
            self._process = subprocess.Popen(
                (*die_with_parent(), *command),
                env=environment_for("keeper", os.environ),
                stdin=subprocess.DEVNULL,
            )
        except OSError as error:  # such as too many processes: what runs here goes on
            log.error("keeper not started", error=str(error), again_in=PAUSE)
            return
        log.info("keeper started", pid=self._process.pid)

    def stop(self) -> None:
        """What waits is stored first, for a few seconds."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(LAST + 2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
