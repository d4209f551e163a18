"""`python -m supervision.data_plane --home DIR --nodes 4`: the data plane alone, in the foreground.

ZooKeeper, Redis, a Spark master and the agents of some nodes, without a control plane: for work on the driver
and for benchmarks. Ctrl-C or SIGTERM ends everything.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec

from host.environment import ROOT, Delay, read
from host.java import java_home
from host.private import home_protect
from host.process_secrets import SPARK, ZOOKEEPER, environment_for
from host.processes import end_session
from supervision import ports, readiness
from supervision.installation import recorded_variables, redis_url, variables_record
from supervision.ports import LOOPBACK
from supervision.program import Program
from supervision.programs import SERVERS, server_programs
from supervision.spark_master import spark_recovery_clear
from supervision.zookeeper import tree_close
from workers.providers.base import NodeDescription
from workers.providers.cgroups import groups_remove
from workers.providers.local import LocalNodeProvider, rack_of


def data_plane_environment(home: Path, chosen: Mapping[str, int]) -> dict[str, str]:
    """The variables by which other processes find these servers. Secrets last, as ZooKeeper's data does."""
    previous = recorded_variables(home)
    return {
        "RESURGE_HOME": str(home),
        "JAVA_HOME": str(java_home()),
        # As the demo, it may use the Redis that a wheel carries.
        "RESURGE_HTTPS": "0",
        "RESURGE_ZOOKEEPER": f"{LOOPBACK}:{chosen['zookeeper']}",
        "RESURGE_REDIS_URL": redis_url(chosen["redis"]),
        "RESURGE_SPARK_MASTER": f"spark://{LOOPBACK}:{chosen['spark_master']}",
        **{name: previous.get(name) or secrets.token_urlsafe(48) for name in (ZOOKEEPER, SPARK)},
    }


class DataPlane:
    """Starts the servers as children of this process and some nodes through the local provider."""

    def __init__(self, home: Path, *, environment: Mapping[str, str] | None = None) -> None:
        self.home = home
        home_protect(home)
        (home / "run").mkdir(parents=True, exist_ok=True)
        (home / "log").mkdir(parents=True, exist_ok=True)
        self.ports = ports.choose(home / "run" / "ports.json")
        (home / "run" / "ports.json").write_bytes(msgspec.json.encode(self.ports))
        self.environment = {**data_plane_environment(home, self.ports), **(environment or {})}
        variables_record(home, self.environment)
        self._programs: dict[str, Program] = {}
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self.provider = LocalNodeProvider(
            home=home, delay=Delay(0, 0), environment={**os.environ, **self.environment}
        )

    def start(self, *, nodes: int, slots: int = 2, capacity: int = 100) -> None:
        """Start everything and wait until the servers answer; raises `readiness.NotReadyError`."""
        spark_recovery_clear(self.home)
        programs = server_programs(self.home, self.ports, read(self.environment), SERVERS)
        started = [(program, self._spawn(program)) for program in programs]
        for program, child in started:
            readiness.wait_until(
                program.ready,
                what=program.name,
                timeout=60,
                alive=lambda child=child: None if child.poll() is None else f"exited with {child.returncode}",  # type: ignore[misc]
            )
        tree_close(read(self.environment), whole_server=True)
        for number in range(1, nodes + 1):
            self.provider.launch(
                NodeDescription(name=f"node-{number}", rack=rack_of(number), slots=slots, capacity=capacity)
            )

    def stop(self) -> None:
        for node in self.provider.nodes():
            self.provider.fail(node.description.name)
            self.provider.release(node.description.name)
        for child in reversed(self._children.values()):
            end_session(child.pid, grace=5)
            child.wait()
        self._children.clear()
        groups_remove(self.home)

    def child(self, name: str) -> subprocess.Popen[bytes]:
        """A server's process (`zookeeper`, `redis`, `spark-master`)."""
        return self._children[name]

    def restart(self, name: str) -> None:
        """Start a server that has ended once more."""
        self._spawn(self._programs[name])

    def _spawn(self, program: Program) -> subprocess.Popen[bytes]:
        with open(self.home / "log" / f"{program.name}.log", "ab") as output:
            child = subprocess.Popen(
                program.command,
                cwd=ROOT,
                env={
                    **environment_for(program.name, {**os.environ, **self.environment}),
                    **program.environment,
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._programs[program.name] = program
        self._children[program.name] = child
        return child


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m supervision.data_plane", description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="directory for all data, logs and ports")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--slots", type=int, default=2, help="cores of each topology's executor on a node")
    parser.add_argument("--capacity", type=int, default=100, help="CPU percent of a node; 100 is one core")
    options = parser.parse_args()
    finished = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: finished.set())
    plane = DataPlane(options.home.resolve())
    try:
        plane.start(nodes=options.nodes, slots=options.slots, capacity=options.capacity)
        print(f"set -a; . {shlex.quote(str(plane.home / 'run' / 'environment'))}; set +a")
        print(f"# {options.nodes} nodes, logs in {plane.home / 'log'}; Ctrl-C ends everything", flush=True)
        finished.wait()
    except readiness.NotReadyError as error:
        print(f"{error}; see {plane.home / 'log'}", file=sys.stderr)
        return 1
    finally:
        plane.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
