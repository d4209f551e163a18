"""A standalone Spark cluster on this machine: a master and a driver without a quota, and workers with one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import msgspec

from benchmarks.flink.installation import compiler_find
from benchmarks.other_engines import kept_environment, last_words, wait_for
from benchmarks.structured.job import Job
from harness.stack import free_port
from host.cgroups import QuotaPeriods, quota_percent, quota_periods
from host.detached import DetachedProcesses
from host.environment import ROOT
from host.java import (
    SMALL_JVM,
    MissingProgramError,
    class_archive_options,
    spark_daemon_command,
    spark_home,
    spark_variables,
)
from supervision.readiness import tcp_open
from workers.providers.cgroups import CpuCaps, groups_remove

ADDRESS = "127.0.0.1"
BENCHMARKS = ROOT / "benchmarks"
SOURCES = (
    BENCHMARKS / "flink" / "java" / "Input.java",
    BENCHMARKS / "structured" / "java" / "PacedTexts.java",
)
MASTER, DRIVER = "master", "driver"
HEAP_MB = 640
COMPILERS = int(os.environ.get("COMPILERS", "1"))
"""Java's compilers that executors use: the first alone, or both."""
JVM = " ".join(option for option in SMALL_JVM if COMPILERS == 1 or "TieredStopAtLevel" not in option)
TUNING: Mapping[str, str] = {
    # One executor with one task at a time on each node.
    "spark.executor.cores": "1",
    "spark.executor.memory": f"{HEAP_MB}m",
    "spark.executor.extraJavaOptions": JVM,
    "spark.driver.memory": "1g",
    "spark.driver.host": ADDRESS,
    "spark.driver.bindAddress": ADDRESS,
    "spark.ui.enabled": "false",
    # No task waits for a node that had its data, and each of the four queries gets its turn.
    "spark.locality.wait": "0s",
    "spark.scheduler.mode": "FAIR",
    # Nodes are lost in the experiment; that is no reason to give up.
    "spark.task.maxFailures": "1000",
    "spark.sql.broadcastTimeout": "600",
}


class StructuredError(RuntimeError):
    """The cluster or its application did not work; the message has the end of the driver's log."""


class StructuredCluster:
    """nodes: workers, each with `capacity` percent of a core."""

    def __init__(self, home: Path, *, nodes: int, capacity: int) -> None:
        self.home, self.nodes, self.capacity = home, nodes, capacity
        self.progress = home / "progress.jsonl"
        classes = str(home / "classes")
        self.configuration = {
            **TUNING,
            "spark.driver.extraClassPath": classes,
            "spark.executor.extraClassPath": classes,
        }
        self._port = free_port()
        self._processes = DetachedProcesses(home / "run")
        self._caps = CpuCaps(home, enabled=True)

    def __enter__(self) -> Self:
        if self._caps.state in ("none", "off"):
            raise StructuredError("there is no access to control groups, so nodes would have no CPU quota")
        for name in ("log", "checkpoints", "run", "classes"):
            (self.home / name).mkdir(parents=True, exist_ok=True)
        _compile(self.home / "classes")
        try:
            self._start(
                MASTER,
                spark_daemon_command("org.apache.spark.deploy.master.Master", heap_mb=256),
                "--host", ADDRESS, "--port", str(self._port), "--webui-port", "0",
            )  # fmt: skip
            self.expect(lambda: tcp_open(ADDRESS, self._port), "master", timeout=60)
            for number in range(1, self.nodes + 1):
                self.node_start(f"node-{number}")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        for record in self._processes.all():
            self._processes.kill(record.name)
            self._caps.remove(record.name)
        groups_remove(self.home)

    def node_start(self, name: str) -> None:
        work = self.home / name
        work.mkdir()
        record = self._start(
            name,
            spark_daemon_command("org.apache.spark.deploy.worker.Worker", heap_mb=128),
            "--host", ADDRESS, "--port", "0", "--webui-port", "0", "--cores", "1",
            "--memory", f"{HEAP_MB + 384}m", "--work-dir", str(work),
            f"spark://{ADDRESS}:{self._port}",
            variables={"JDK_JAVA_OPTIONS": class_archive_options()},
        )  # fmt: skip
        self._caps.apply(name, record, self.capacity)

    def submit(self, job: Job) -> None:
        """Start the driver."""
        told = msgspec.structs.replace(job, master=f"spark://{ADDRESS}:{self._port}")
        command = (sys.executable, "-m", "benchmarks.structured.job", msgspec.json.encode(told).decode())
        self._start(DRIVER, command, variables={"PYTHONPATH": str(ROOT)})

    def leaders(self) -> dict[str, int]:
        """Node -> its first process."""
        names = (f"node-{number}" for number in range(1, self.nodes + 1))
        return {name: record.pid for name in names if (record := self._processes.get(name)) is not None}

    def quota(self, name: str) -> float | None:
        """The quota that the kernel says the node has, in percent of a core."""
        return quota_percent(str(self.leaders()[name]))

    def periods(self, name: str) -> QuotaPeriods | None:
        return quota_periods(str(self.leaders()[name]))

    def check(self) -> None:
        """Raises `StructuredError` where the driver has ended."""
        if (code := self._processes.exit_code(DRIVER)) is not None:
            raise StructuredError(f"the driver ended with {code}: {last_words(self._log(DRIVER))}")

    def expect(self, predicate: Callable[[], object], what: str, *, timeout: float) -> None:
        """Wait until it is true. Raises `StructuredError`, also where the driver has ended."""
        wait_for(
            predicate, what, timeout=timeout, log=self._log(DRIVER), error=StructuredError, check=self.check
        )

    def _start(
        self, name: str, command: tuple[str, ...], *arguments: str, variables: Mapping[str, str] | None = None
    ) -> int:
        environment = {
            **kept_environment(),
            **spark_variables(ADDRESS),
            "SPARK_LOCAL_DIRS": str(self.home / "local"),
            **(variables or {}),
        }
        record = self._processes.start(
            name, (*command, *arguments), environment=environment, directory=self.home, output=self._log(name)
        )
        return record.pid

    def _log(self, name: str) -> Path:
        return self.home / "log" / f"{name}.log"


def _compile(classes: Path) -> None:
    """Compile the source of texts. Raises `StructuredError`."""
    try:
        compiler = compiler_find()
    except MissingProgramError as error:
        raise StructuredError(str(error)) from error
    jars = f"{spark_home() / 'jars'}/*"
    command = [str(compiler), "--release", "17", "-cp", jars, "-d", str(classes), *map(str, SOURCES)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StructuredError(f"javac failed with code {done.returncode}: {done.stderr.strip()[-800:]}")
