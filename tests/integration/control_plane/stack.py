"""ZooKeeper, Redis, the Celery workers and small node and driver processes, on free loopback ports.

Every process leads a group of its own, is known by its handle, and is killed with its group at the end.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.eventually import eventually
from host.environment import ROOT
from supervision.installation import redis_url
from supervision.ports import choose
from supervision.redis_server import redis_program
from supervision.zookeeper import zookeeper_program

SESSION_TIMEOUT = 4.0
HEARTBEAT = 1.0

DEPLOY = """
import django; django.setup()
from domain.topology import load_yaml
from controlplane.topologies.services import topology_create
from controlplane.lifecycle.topologies import topology_deploy
spec = {spec!r}
topology_create(spec=spec, actor="test", reason="a test", channel="system")
topology_deploy(name=spec["name"], actor="test", reason="a test", channel="system")
"""


class Stack:
    """`start(name)`, `kill(name)` (SIGKILL of the group), `stop_all()`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.ports = choose(home / "run" / "ports.json", ("zookeeper", "redis"))
        self.database = home / "db" / "resurge.sqlite3"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.celery_app = "workers.celery_app"
        self._reading: sqlite3.Connection | None = None
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("RESURGE_", "DJANGO_"))},
            "RESURGE_HOME": str(home),
            "RESURGE_SECRET_KEY": "integration",
            "RESURGE_DATABASE_URL": f"sqlite:///{self.database}",
            "RESURGE_REDIS_URL": redis_url(self.ports["redis"]),
            "RESURGE_ZOOKEEPER": f"127.0.0.1:{self.ports['zookeeper']}",
            "RESURGE_SESSION_TIMEOUT": str(SESSION_TIMEOUT),
            "RESURGE_HEARTBEAT_INTERVAL": str(HEARTBEAT),
            "RESURGE_REPLACEMENT_DELAY": "fixed:0.5",
            "RESURGE_FAULT_INJECTION": "1",
            "DJANGO_SETTINGS_MODULE": "controlplane.config.settings",
            "PYTHONPATH": str(ROOT),
        }

    # ---- processes -------------------------------------------------------------------------------

    def servers(self) -> None:
        for name in ("zookeeper", "redis"):
            self.start(name)
        self.manage("migrate", "--verbosity", "0", "--skip-checks")

    def start(self, name: str) -> None:
        """Start a process by its role: zookeeper, redis, detection, recovery, webhooks, beat, launcher,
        node-N or driver-T."""
        kind, _, rest = name.partition("-")
        celery = [sys.executable, "-m", "celery", "-A", self.celery_app]
        quiet = ["--without-gossip", "--without-mingle", "-l", "INFO"]
        match kind:
            case "zookeeper":
                command = list(zookeeper_program(home=self.home, port=self.ports["zookeeper"]).command)
            case "redis":
                url = self.environment["RESURGE_REDIS_URL"]
                command = list(
                    redis_program(home=self.home, port=self.ports["redis"], url=url, demo=True).command
                )
            case "detection" | "recovery" | "webhooks":
                pool = ["--pool", "threads", "--concurrency", "2"]
                command = [*celery, "worker", "-Q", kind, *pool, "-n", f"{kind}@%h", *quiet]
            case "beat":
                command = [*celery, "beat", "--schedule", str(self.home / "beat"), "--pidfile="]
            case "launcher":
                command = [sys.executable, "-m", "tests.integration.control_plane.launcher_process"]
            case "node":
                command = [
                    sys.executable, "-m", "tests.integration.control_plane.node_process", name,
                    self.environment["RESURGE_ZOOKEEPER"], str(SESSION_TIMEOUT), str(HEARTBEAT),
                ]  # fmt: skip
            case "driver":
                command = [
                    sys.executable, "-m", "tests.integration.control_plane.driver_process", rest,
                    self.environment["RESURGE_ZOOKEEPER"], self.environment["RESURGE_REDIS_URL"],
                ]  # fmt: skip
            case _:
                raise ValueError(f"no process of the role {name}")
        log = (self.home / f"{name}.log").open("ab")
        with log:
            self.processes[name] = subprocess.Popen(
                command, cwd=ROOT, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        process = self.processes.pop(name)
        os.killpg(process.pid, how)
        process.wait(20)

    def kill_signal(self, name: str, how: signal.Signals) -> None:
        """Send a signal that does not end the process."""
        os.killpg(self.processes[name].pid, how)

    def stop_all(self) -> None:
        for name in list(self.processes):
            process = self.processes.pop(name)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def manage(self, *arguments: str) -> None:
        subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), *arguments],
            env=self.environment,
            check=True,
            timeout=120,
        )

    def python(self, code: str) -> None:
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=self.environment, check=True, timeout=120)

    def deploy(self, spec: dict[str, Any]) -> None:
        self.python(DEPLOY.format(spec=spec))
        self.start(f"driver-{spec['name']}")

    def launch_due(self) -> list[str]:
        """Start the nodes that are requested and due, as the launcher does."""
        rows = self.rows("select node_name from nodes_noderequest where state in ('pending', 'started')")
        started = [row["node_name"] for row in rows if row["node_name"] not in self.processes]
        for name in started:
            self.start(name)
        return started

    # ---- what the database says ------------------------------------------------------------------

    def rows(self, statement: str, *parameters: object) -> list[sqlite3.Row]:
        """By a connection that is kept: a new one reads the whole schema first, and tests ask 20 times a
        second."""
        if self._reading is None:
            self._reading = sqlite3.connect(
                f"file:{self.database}?mode=ro", uri=True, timeout=10, check_same_thread=False
            )
            self._reading.row_factory = sqlite3.Row
        return self._reading.execute(statement, parameters).fetchall()

    def node_states(self) -> dict[str, str]:
        return {row["name"]: row["state"] for row in self.rows("select name, state from nodes_node")}

    def incidents(self) -> list[sqlite3.Row]:
        return self.rows("select * from incidents_incident order by number")

    def plans(self, topology: str) -> list[sqlite3.Row]:
        return self.rows(
            "select p.* from incidents_recoveryplan p join topologies_topology t on t.id = p.topology_id "
            "where t.name = ? order by p.generation",
            topology,
        )

    def story(self) -> list[str]:
        rows = self.rows("select kind, text from incidents_incidententry order by id")
        return [f"{row['kind']}: {row['text']}" for row in rows]

    def applied(self, topology: str) -> list[int]:
        """Generations the driver process applied, in order."""
        text = (self.home / f"driver-{topology}.log").read_text()
        return [int(line.split()[1]) for line in text.splitlines() if line.startswith("applied ")]

    def wait(self, what: str, condition: Callable[[], object], limit: float = 30.0) -> float:
        """Wait until `condition()` holds and return the seconds it took; if it does not hold, fail with the
        story."""
        started = time.monotonic()
        eventually(condition, what, limit, story=self._told)
        return time.monotonic() - started

    def _told(self) -> str:
        incidents = [tuple(row) for row in self.incidents()]
        return "\n".join([f"nodes: {self.node_states()}", f"incidents: {incidents}", *self.story()])
