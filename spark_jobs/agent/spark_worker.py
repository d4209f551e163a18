"""The Spark workers of one node: one process per deployed topology, restarted when it exits."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog

from host.class_archive import quoted
from host.java import class_archive_options, spark_daemon_command, spark_variables
from host.process_secrets import environment_for
from host.spark_properties import daemon_properties_write
from spark_jobs.executor_resource import executor_resource
from spark_jobs.state.node_home import WORK

log = structlog.get_logger()

# Advertised, not reserved: each application asks what it needs and the node's cgroup is the limit.
ADVERTISED_MEMORY = "64g"
# Tasks beside those of the present, one of the replay and one of what is prepared for the next job: a task
# that finds its node taken for long is given to another one, where it does nothing.
BESIDE = 2
RESTART_FIRST = 0.5
RESTART_LAST = 30.0
HEALTHY_AFTER = 30.0


@dataclass(slots=True)
class _Worker:
    process: subprocess.Popen[bytes]
    started_at: float


class SparkWorkers:
    """Keeps the running workers equal to the wanted topologies. Not thread-safe: one thread owns it,
    and that must be the main thread, since a worker gets SIGKILL when the thread that started it ends."""

    def __init__(
        self, *, node: str, address: str, slots: int, master: str, secret: str, home: Path, node_home: Path
    ) -> None:
        """`secret`: what the master authenticates its workers and applications with; empty if it does not."""
        self._node = node
        self._address = address
        self._slots = slots
        self._master = master
        self._secret = secret
        self._home = home
        self._node_home = node_home
        self._running: dict[str, _Worker] = {}
        self._back_off: dict[str, tuple[float, float]] = {}

    @property
    def topologies(self) -> list[str]:
        return sorted(self._running)

    def processes(self) -> dict[str, int]:
        """Topology -> the process of its worker; may be called in any thread."""
        return {topology: worker.process.pid for topology, worker in list(self._running.items())}

    def reconcile(self, wanted: frozenset[str]) -> None:
        """Reap, stop and start until the workers are those of `wanted`; called several times a second."""
        now = time.monotonic()
        for topology, worker in list(self._running.items()):
            code = worker.process.poll()
            if code is not None:
                del self._running[topology]
                lived = now - worker.started_at
                pause = self._back_off.get(topology, (0.0, 0.0))[1]
                pause = RESTART_FIRST if lived > HEALTHY_AFTER or not pause else min(pause * 2, RESTART_LAST)
                self._back_off[topology] = (now + pause, pause)
                log.warning(
                    "spark worker exited",
                    topology=topology,
                    code=code,
                    lived=round(lived, 1),
                    restart_in=pause,
                )
            elif topology not in wanted:
                log.info("spark worker no longer needed", topology=topology)
                self._stop(worker)
                del self._running[topology]
        for topology in wanted - self._running.keys():
            if now >= self._back_off.get(topology, (0.0, 0.0))[0]:
                self._running[topology] = self._start(topology)

    def forget(self, topology: str, wanted: frozenset[str]) -> None:
        """Remove what the workers of a topology that was deleted left, unless one runs or will."""
        if topology not in self._running and topology not in wanted:
            self._back_off.pop(topology, None)
            shutil.rmtree(self._work(topology), ignore_errors=True)

    def _work(self, topology: str) -> Path:
        return self._node_home / WORK / topology

    def stop_all(self) -> None:
        for worker in self._running.values():
            worker.process.terminate()
        for worker in self._running.values():
            self._stop(worker)
        self._running.clear()

    def _stop(self, worker: _Worker) -> None:
        worker.process.terminate()
        try:
            worker.process.wait(5)
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()

    def _start(self, topology: str) -> _Worker:
        resource = executor_resource(topology)
        work = self._work(topology)
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        resources = work / "resources.json"
        resources.write_bytes(
            msgspec.json.encode(
                [{"id": {"componentName": "spark.worker", "resourceName": resource}, "addresses": ["0"]}]
            )
        )
        command = spark_daemon_command(
            "org.apache.spark.deploy.worker.Worker",
            heap_mb=128,
            options=(
                self._logging(),
                f"-Dspark.worker.resource.{resource}.amount=1",
                f"-Dspark.worker.resourcesFile={resources}",
                "-Dspark.worker.ui.retainedExecutors=10",
            ),
        )
        properties = daemon_properties_write(self._node_home / "spark-worker.properties", self._secret)
        with open(self._home / "log" / f"{self._node}.worker.{topology}.log", "ab") as output:
            process = subprocess.Popen(
                (
                    *die_with_parent(),
                    *command,
                    *("--host", self._address, "--port", "0", "--webui-port", "0"),
                    *("--cores", str(self._slots + BESIDE), "--memory", ADVERTISED_MEMORY),
                    *("--work-dir", str(work), *properties, self._master),
                ),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        log.info("spark worker started", topology=topology, pid=process.pid, resource=resource)
        return _Worker(process, time.monotonic())

    def _logging(self) -> str:
        return f"-Dlog4j2.configurationFile={self._home / 'run' / 'log4j2.properties'}"

    def _environment(self) -> Mapping[str, str]:
        """What the worker, its executors and their Python workers inherit."""
        return {
            **environment_for("spark-worker", os.environ),
            **spark_variables(self._address),
            # Shuffle files and spills belong to the node and die with it.
            "SPARK_LOCAL_DIRS": str(self._node_home / "spark"),
            # Read by every `java`: executors take this node's archive, wherever their driver runs, and log
            # warnings. Without, they log six lines per task.
            "JDK_JAVA_OPTIONS": " ".join(
                (os.environ.get("JDK_JAVA_OPTIONS", ""), class_archive_options(), quoted((self._logging(),)))
            ).strip(),
            "NODE_ID": self._node,
            "NODE_HOME": str(self._node_home),
        }


def die_with_parent() -> tuple[str, ...]:
    """Command prefix that makes the kernel kill the program when the thread that started it ends."""
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "SIGKILL", "--") if setpriv else ()
