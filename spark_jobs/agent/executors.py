"""The Spark executors of one node: one for each topology whose driver runs, started again when it exits.

Spark's standalone cluster has a worker for this, a second JVM for each executor. With a fifth of a core a
node waits 7 s for it before the executor begins to start. An executor needs nothing of it: it registers with
the driver, whose application is in ZooKeeper (`SparkApplication`), and ends when that driver does.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from domain.messages import SparkApplication
from host.java import MissingProgramError, spark_executor_command, spark_variables
from host.process_secrets import EXECUTOR, environment_for
from host.processes import die_with_parent
from host.spark_properties import AUTHENTICATE
from spark_jobs.state.node_home import WORK

log = structlog.get_logger()

# Tasks beside those of the present, one of the replay and one of what is prepared for the next job: a task
# that finds its node taken for long is given to another one, where it does nothing.
BESIDE = 2
RESTART_FIRST = 0.5
RESTART_LAST = 30.0
HEALTHY_AFTER = 30.0
CONNECT = 0.3
"""Seconds within which a driver that runs takes a connection."""
HIGHEST_ID = 2**31 - 1
"""Of an executor: Spark reads it as a signed number of 32 bits."""
LOGS_KEPT = 1
"""Executors before the present one whose output stays."""


@dataclass(slots=True)
class _Executor:
    process: subprocess.Popen[bytes]
    id: str
    application: str
    started_at: float


@dataclass(slots=True)
class _Pause:
    """Before the next executor of an application is started."""

    application: str
    until: float
    seconds: float


class Executors:
    """Keeps the running executors equal to the wanted ones. Not thread-safe: one thread owns it, and that
    must be the main thread, since an executor gets SIGKILL when the thread that started it ends."""

    def __init__(
        self, *, node: str, address: str, slots: int, secret: str, home: Path, node_home: Path
    ) -> None:
        """`secret`: what drivers authenticate their executors with; empty if they do not."""
        self._node = node
        self._address = address
        self._slots = slots
        self._secret = secret
        self._home = home
        self._node_home = node_home
        self._running: dict[str, _Executor] = {}
        self._pauses: dict[str, _Pause] = {}

    @property
    def topologies(self) -> list[str]:
        return sorted(self._running)

    def processes(self) -> dict[str, int]:
        """Topology -> the process of its executor; may be called in any thread."""
        return {topology: executor.process.pid for topology, executor in list(self._running.items())}

    def reconcile(self, wanted: Mapping[str, SparkApplication | None]) -> None:
        """Reap, stop and start until the executors are those of `wanted`; called several times a second.

        wanted: topology -> the application of its driver. None: nothing is known of a driver now, so an
        executor that runs goes on, and none is started.
        """
        for topology, executor in list(self._running.items()):
            application = wanted.get(topology)
            if executor.process.poll() is not None:
                self._exited(topology, executor)
            elif topology not in wanted:
                log.info("executor no longer needed", topology=topology)
                executor.process.terminate()
                self._stop(topology, executor)
            elif application is not None and (why := _obsolete(executor, application)):
                log.warning("executor ended", topology=topology, id=executor.id, reason=why)
                executor.process.kill()
                self._stop(topology, executor)
        for topology, application in wanted.items():
            if application is not None and topology not in self._running:
                self._start_soon(topology, application)

    def forget(self, topology: str, wanted: Mapping[str, SparkApplication | None]) -> None:
        """Remove what the executors of a topology that was deleted left, unless one runs or will."""
        if topology not in self._running and topology not in wanted:
            self._pauses.pop(topology, None)
            for directory in (self._work(topology), self._scratch(topology)):
                shutil.rmtree(directory, ignore_errors=True)

    def stop_all(self) -> None:
        for executor in self._running.values():
            executor.process.terminate()
        for topology, executor in list(self._running.items()):
            self._stop(topology, executor)

    def _exited(self, topology: str, executor: _Executor) -> None:
        del self._running[topology]
        lived = time.monotonic() - executor.started_at
        if lived > HEALTHY_AFTER:
            self._pauses.pop(topology, None)
        seconds = self._pause(topology, executor.application)
        log.warning(
            "executor exited",
            topology=topology,
            id=executor.id,
            code=executor.process.returncode,
            lived=round(lived, 1),
            restart_in=seconds,
        )

    def _pause(self, topology: str, application: str) -> float:
        """Before the next try: twice as many seconds as before the last one of this application."""
        before, seconds = self._pauses.get(topology), RESTART_FIRST
        if before is not None and before.application == application:
            seconds = min(before.seconds * 2, RESTART_LAST)
        self._pauses[topology] = _Pause(application, time.monotonic() + seconds, seconds)
        return seconds

    def _stop(self, topology: str, executor: _Executor) -> None:
        """Wait until it has ended, as it was told to."""
        del self._running[topology]
        try:
            executor.process.wait(5)
        except subprocess.TimeoutExpired:
            executor.process.kill()
            executor.process.wait()

    def _start_soon(self, topology: str, application: SparkApplication) -> None:
        """At once, unless one of this application has just exited, or its driver takes no connections: it has
        ended, and ZooKeeper has not noticed yet."""
        pause = self._pauses.get(topology)
        if pause is not None and pause.application == application.id and time.monotonic() < pause.until:
            return
        if _listens(application.host, application.port):
            try:
                self._running[topology] = self._start(topology, application)
            except (OSError, MissingProgramError) as error:  # such as a full disk: what runs here goes on
                seconds = self._pause(topology, application.id)
                log.error("executor not started", topology=topology, error=str(error), again_in=seconds)
        else:
            seconds = pause.seconds if pause is not None else RESTART_FIRST
            self._pauses[topology] = _Pause(application.id, time.monotonic() + RESTART_FIRST, seconds)

    def _start(self, topology: str, application: SparkApplication) -> _Executor:
        executor = str(secrets.randbelow(HIGHEST_ID) + 1)
        shutil.rmtree(self._scratch(topology), ignore_errors=True)
        self._scratch(topology).mkdir(parents=True)
        self._logs_trim(topology)
        directory = self._work(topology) / application.id / executor
        directory.mkdir(parents=True)
        driver = f"spark://CoarseGrainedScheduler@{application.host}:{application.port}"
        options = [
            f"-Dlog4j2.configurationFile={self._home / 'run' / 'log4j2.properties'}",
            f"-Dspark.driver.port={application.port}",
            *([f"-D{AUTHENTICATE}=true"] if self._secret else []),
        ]
        with open(directory / "stdout", "ab") as output, open(directory / "stderr", "ab") as errors:
            process = subprocess.Popen(
                (
                    *die_with_parent(),
                    *spark_executor_command(memory=application.memory, options=options),
                    *("--driver-url", driver, "--app-id", application.id, "--executor-id", executor),
                    *("--hostname", self._address, "--bind-address", self._address),
                    *("--cores", str(self._slots + BESIDE), "--resourceProfileId", "0"),
                ),
                cwd=directory,
                env=self._environment(topology),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
            )
        log.info("executor started", topology=topology, pid=process.pid, id=executor, driver=driver)
        return _Executor(process, executor, application.id, time.monotonic())

    def _work(self, topology: str) -> Path:
        return self._node_home / WORK / topology

    def _scratch(self, topology: str) -> Path:
        """Shuffle files and spills belong to the node and die with it."""
        return self._node_home / "spark" / topology

    def _logs_trim(self, topology: str) -> None:
        """Of executors that have ended, the newest ones' output stays. Earlier versions left files beside the
        directories of applications."""
        applications = [one for one in self._work(topology).glob("*") if one.is_dir()]
        ended = [one for application in applications for one in application.iterdir()]
        ended.sort(key=lambda path: path.stat().st_mtime)
        for directory in ended[: max(0, len(ended) - LOGS_KEPT)]:
            shutil.rmtree(directory, ignore_errors=True)
        for application in applications:
            with contextlib.suppress(OSError):  # not empty
                application.rmdir()

    def _environment(self, topology: str) -> Mapping[str, str]:
        """What the executor and its Python workers inherit."""
        secret = {EXECUTOR: self._secret} if self._secret else {}
        return {
            **environment_for("executor", {**os.environ, **secret}),
            **spark_variables(self._address),
            "SPARK_LOCAL_DIRS": str(self._scratch(topology)),
            "NODE_ID": self._node,
            "NODE_HOME": str(self._node_home),
        }


def _obsolete(executor: _Executor, application: SparkApplication) -> str:
    """Why another one takes its place; empty if it goes on."""
    if executor.application != application.id:
        return "its driver has been replaced"
    return "its driver has given it up" if executor.id in application.ended else ""


def _listens(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), CONNECT):
            return True
    except OSError:
        return False
