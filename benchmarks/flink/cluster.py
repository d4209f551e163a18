"""A standalone Flink cluster on this machine: a JobManager without a quota, and nodes with one, each a
TaskManager that leads a session of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx

from benchmarks.flink.configuration import ADDRESS, HEAP_MB, LOGGING, Ports, configuration, yaml_text
from benchmarks.flink.installation import MAIN, FlinkError, Installation
from benchmarks.other_engines import kept_environment, wait_for
from harness.stack import free_port
from host.cgroups import QuotaPeriods, quota_percent, quota_periods
from host.detached import DetachedProcesses
from host.processes import TICKS_PER_SECOND, facts
from workers.providers.cgroups import CpuCaps, groups_remove

MANAGER = "manager"
SESSION_MAIN = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
NODE_MAIN = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
# Small heaps on a fraction of a core. The second compiler takes more of a small quota than its code saves in
# the minutes after a start: without it nodes were there 7 s sooner, and less busy.
JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k", "-XX:+IgnoreUnrecognizedVMOptions")


@dataclass(frozen=True, slots=True)
class Checkpoints:
    completed: int
    failed: int


class FlinkCluster:
    """`capacity`: CPU percent of a node; 0 for none. `make_archive`: nodes write the archive of classes when
    they end in good order."""

    def __init__(
        self,
        home: Path,
        installation: Installation,
        *,
        nodes: int,
        capacity: int,
        make_archive: bool = False,
    ) -> None:
        self.home = home
        self.outputs = home / "outputs"
        self.nodes = nodes
        self.capacity = capacity
        self._installation = installation
        self._make_archive = make_archive
        self._processes = DetachedProcesses(home / "run")
        self._caps = CpuCaps(home, enabled=capacity > 0)
        self._ports = Ports(rpc=free_port(), rest=free_port())
        self._rest = httpx.Client(base_url=f"http://{ADDRESS}:{self._ports.rest}", timeout=10.0)
        self.options = configuration(home=home, ports=self._ports, parallelism=nodes)
        self._job = ""

    def __enter__(self) -> Self:
        for name in ("conf", "checkpoints", "tmp", "log", "outputs"):
            (self.home / name).mkdir(parents=True, exist_ok=True)
        (self.home / "conf" / "config.yaml").write_text(yaml_text(self.options), encoding="utf-8")
        (self.home / "conf" / "log4j.properties").write_text(LOGGING, encoding="utf-8")
        if self.capacity and self._caps.state in ("none", "off"):
            raise FlinkError("there is no access to control groups, so nodes would have no CPU quota")
        try:
            self._start(MANAGER, SESSION_MAIN, ["-Xmx512m"], [])
            self.expect(lambda: self.get("/overview") is not None, "the JobManager's REST", timeout=60)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End everything, the JobManager first: it would start the job again on the nodes that are left, and
        that attempt's rows would take the place of others without being complete."""
        self._processes.kill(MANAGER)
        for name in [record.name for record in self._processes.all()]:
            self._processes.end(name, grace=30.0 if self._make_archive else 0.0)
            self._caps.remove(name)
        groups_remove(self.home)
        self._rest.close()

    # Nodes

    def node_start(self, name: str) -> None:
        options = [f"-Xms{HEAP_MB // 2}m", f"-Xmx{HEAP_MB}m"]
        archive = self._installation.archive
        if self._make_archive:
            options.append(f"-XX:ArchiveClassesAtExit={archive}")
        elif archive.is_file():
            options.append(f"-XX:SharedArchiveFile={archive}")
        pid = self._start(name, NODE_MAIN, options, [f"-Dtaskmanager.resource-id={name}"])
        if self.capacity:
            self._caps.apply(name, pid, self.capacity)

    def nodes_kill(self, *names: str) -> float:
        """SIGKILL all of them; returns when (Unix time)."""
        at = time.time()
        for name in names:
            self._processes.kill(name)
        return at

    def node_runs(self, name: str) -> bool:
        record = self._processes.get(name)
        return record is not None and record.alive

    def quota(self, name: str) -> float | None:
        """The quota that the kernel says the node has, in percent of a core."""
        return quota_percent(str(self._pid(name)))

    def periods(self, name: str) -> QuotaPeriods | None:
        return quota_periods(str(self._pid(name)))

    def cpu_seconds(self, name: str) -> float:
        found = facts(self._pid(name))
        return 0.0 if found is None else found.cpu_ticks / TICKS_PER_SECOND

    def registered(self) -> set[str]:
        """The nodes that the JobManager knows."""
        answer = self.get("/taskmanagers") or {"taskmanagers": []}
        return {str(one["id"]) for one in answer["taskmanagers"]}

    # The job

    def submit(self, arguments: list[str]) -> None:
        job = self._installation.job
        with job.open("rb") as stream:
            files = {"jarfile": (job.name, stream, "application/x-java-archive")}
            answer = self._rest.post("/jars/upload", files=files, timeout=60.0)
        jar = Path(_checked(answer)["filename"]).name
        body = {"entryClass": MAIN, "programArgsList": arguments, "parallelism": self.nodes}
        self._job = str(_checked(self._rest.post(f"/jars/{jar}/run", json=body, timeout=60.0))["jobid"])

    def parallelism(self) -> int:
        """How many subtasks of the queries run."""
        answer = self.get(f"/jobs/{self._job}")
        if not answer or answer["state"] != "RUNNING":
            return 0
        return min((int(one["tasks"].get("RUNNING", 0)) for one in answer["vertices"]), default=0)

    def checkpoints(self) -> Checkpoints:
        counts = (self.get(f"/jobs/{self._job}/checkpoints") or {}).get("counts", {})
        return Checkpoints(int(counts.get("completed", 0)), int(counts.get("failed", 0)))

    def get(self, path: str) -> dict[str, Any] | None:
        """An answer of the JobManager, None while it has none."""
        try:
            answer = self._rest.get(path)
        except httpx.HTTPError:
            return None
        return dict(answer.json()) if answer.is_success else None

    def expect(self, predicate: Callable[[], object], what: str, *, timeout: float) -> None:
        """Wait until it is true. Raises `FlinkError` with the end of the JobManager's log."""
        wait_for(predicate, what, timeout=timeout, log=self._log(MANAGER), error=FlinkError)

    def _start(self, name: str, main: str, options: list[str], arguments: list[str]) -> int:
        logging = f"-Dlog4j.configurationFile={self.home / 'conf' / 'log4j.properties'}"
        command = self._installation.command(
            main, [*JVM, *options, logging], ["--configDir", str(self.home / "conf"), *arguments]
        )
        record = self._processes.start(
            name, command, environment=kept_environment(), directory=self.home, output=self._log(name)
        )
        return record.pid

    def _pid(self, name: str) -> int:
        record = self._processes.get(name)
        if record is None:
            raise FlinkError(f"no node {name} was started")
        return record.pid

    def _log(self, name: str) -> Path:
        return self.home / "log" / f"{name}.log"


def _checked(answer: httpx.Response) -> dict[str, Any]:
    if not answer.is_success:
        raise FlinkError(f"Flink refused the job ({answer.status_code}): {answer.text[-600:]}")
    return dict(answer.json())
