"""The whole installation for a test: started by the code of `make up`, in a home of its own, on free ports.

    with Stack(tmp_path, nodes=4) as stack:
        stack.deploy("hashtags", input=path, rate=2000, limit=40_000)
        stack.wait_for(lambda: stack.topology("hashtags")["status"] == "running", "running")
        stack.kill_nodes("node-2", "node-3")

Leaving the block ends every process, also after a failure, and asserts that none is left.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from coordination.paths import Paths
from coordination.session import USER
from domain.topology import load_yaml
from harness.eventually import eventually
from harness.freezing import freeze
from harness.roles import OF_DRIVERS, ON_NODES, role_of
from host.detached import DetachedProcess, DetachedProcesses
from host.environment import ROOT
from host.processes import kill_session, processes_with_environment, session_members
from supervision.access import Access, manage
from supervision.installation import INSTANCE, Installation
from supervision.rest import Rest, RestError
from supervision.screen import Progress
from supervision.start import StartOptions, start
from supervision.stop import stop
from supervision.supervisor import Supervisor

T = TypeVar("T")

NOT_YET = (RestError, OSError, LookupError)
# Failures are to be found and mended within the patience of a test.
QUICK = {
    "RESURGE_SESSION_TIMEOUT": "4",
    "RESURGE_REPLACEMENT_DELAY": "uniform:1:2",
    "RESURGE_CHECKPOINT_INTERVAL": "5",
    "RESURGE_CHECKPOINTS_KEPT": "3",
    "RESURGE_FAULT_INJECTION": "1",
}


class Stack:
    """`variables` are RESURGE_* settings of this stack, on top of `QUICK`. `home` is below `directory`.
    `pipeline`, `input` and `rate` are those of `make up`; by default it deploys nothing."""

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int = 4,
        standbys: int = 0,
        slots: int = 2,
        capacity: int = 100,
        variables: Mapping[str, str] | None = None,
        quiet: bool = True,
        pipeline: str = "",
        input: str | Path = "",  # noqa: A002  (the option of `make up`)
        rate: str = "",
    ) -> None:
        self.home = directory / "home"
        self._options = StartOptions(
            pipeline=pipeline,
            input=str(input),
            rate=rate,
            nodes=nodes,
            standbys=standbys,
            slots=slots,
            capacity=capacity,
            wait_queries=False,
        )
        self._variables = {**QUICK, "RESURGE_PORT": str(free_port()), **(variables or {})}
        self._progress = Progress(quiet=quiet)
        self._supervisor = Supervisor(self.home)
        self._nodes = DetachedProcesses(self.home / "run" / "nodes")
        self._drivers = DetachedProcesses(self.home / "run" / "drivers")
        self.installation: Installation
        self.access: Access
        self.rest: Rest

    def __enter__(self) -> Self:
        try:
            self.up()
        except BaseException:
            self._keep_logs()
            self.down()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._keep_logs()
        self.down()
        left = self.processes()
        assert left == [], f"processes left after the stop: {left}"

    # ---- the installation as a whole

    def up(self) -> None:
        """Start, or start again after `down` with the same data."""
        with settings_of_the_shell_replaced({**self._variables, "RESURGE_HOME": str(self.home)}):
            started = start(self.home, self._options, self._progress)
        self.installation, self.access = started.installation, started.access
        self.rest = Rest(self.access.url, self.access.token)
        wanted = self._options.nodes + self._options.standbys
        self.wait_for(lambda: len(self.nodes("alive")) >= wanted, f"{wanted} nodes alive", timeout=60)

    def down(self) -> None:
        with settings_of_the_shell_replaced({**self._variables, "RESURGE_HOME": str(self.home)}):
            stop(self.home, self._progress)

    def processes(self) -> list[int]:
        """Every process of this installation, wherever it is in the process tree."""
        installation = getattr(self, "installation", None)
        if installation is None:
            return []
        return processes_with_environment(f"{INSTANCE}={installation.variables[INSTANCE]}")

    def manage(self, *arguments: str) -> str:
        return manage(self.installation, *arguments)

    # ---- what an operator does

    def deploy(
        self,
        pipeline: str = "hashtags",
        *,
        input: str | Path,  # noqa: A002  (the option of `manage.py deploy`)
        rate: int = 1000,
        limit: int | None = None,
        name: str | None = None,
        goes_on: bool = False,
        savepoint: str = "",
        **more: Any,
    ) -> None:
        """more: fields of the specification instead of the pipeline's own. goes_on: from its newest
        checkpoint. savepoint: with which it begins. Nothing moves by itself."""
        source = str(pipeline_with(self.home, pipeline, more)) if more else pipeline
        self.manage(
            *("deploy", source, "--input", str(input), "--rate", str(rate)),
            *(["--limit", str(limit)] if limit is not None else []),
            *(["--name", name] if name else []),
            *(["--continue"] if goes_on else []),
            *(["--savepoint", savepoint] if savepoint else []),
        )
        self.manual(name or Path(pipeline).stem)

    def manual(self, name: str = "hashtags") -> None:
        """Let nothing of this topology move or stop by itself."""
        reason = "measurements and tests say when something moves or stops"
        policy = {"rebalancing": "manual", "overload": "manual", "slow_nodes": "manual", "reason": reason}
        self.rest.patch(f"topologies/{name}/policy/", policy)

    def topology(self, name: str = "hashtags") -> dict[str, Any]:
        return dict(self.rest.get(f"topologies/{name}/"))

    def incidents(self) -> list[dict[str, Any]]:
        return self.rest.listing("incidents/?ordering=number")

    def nodes(self, state: str | None = None) -> dict[str, dict[str, Any]]:
        """Nodes by name, all or those in one state."""
        rows = self.rest.listing("nodes/")
        return {str(row["name"]): row for row in rows if state in (None, row["state"])}

    def wait_for(
        self, predicate: Callable[[], T], what: str, *, timeout: float = 60.0, pause: float = 0.2
    ) -> T:
        """Wait until `predicate()` is true and return its value. An unreachable server counts as not
        yet; so does a row that is not there yet. Raises `AssertionError` naming `what`, with the nodes and
        the story of the newest incident."""
        return eventually(predicate, what, timeout, pause=pause, not_yet=NOT_YET, story=self._told)

    def _told(self) -> str:
        """How nodes and the newest incident are; what cannot be read any more is left out."""
        lines: list[str] = []
        with contextlib.suppress(*NOT_YET):
            lines += [f"{name}: {row['state']}" for name, row in sorted(self.nodes().items())]
            for incident in self.incidents()[-1:]:
                entries = self.rest.get(f"incidents/{incident['number']}/")["entries"]
                lines += [f"{entry['at']} {entry['kind']}: {entry['text']}" for entry in entries]
        return "\n".join(lines)

    def wait_for_status(self, status: str, name: str = "hashtags", *, timeout: float = 120.0) -> None:
        self.wait_for(
            lambda: self.topology(name)["status"] == status,
            f"{name} becomes {status}",
            timeout=timeout,
            pause=0.5,
        )

    def wait_for_incident(
        self, state: str, *, number: int | None = None, timeout: float = 90.0
    ) -> dict[str, Any]:
        """The newest incident (or that one) once it is in `state`."""

        def find() -> dict[str, Any] | None:
            rows = [row for row in self.incidents() if number in (None, row["number"])]
            return rows[-1] if rows and rows[-1]["state"] == state else None

        found = self.wait_for(find, f"an incident that is {state}", timeout=timeout)
        assert found is not None
        return found

    def capacities_set(self, capacity: int) -> None:
        """Let planning count every node with this capacity; replacements inherit that of a lost node."""
        self.manage(
            "shell", "--no-imports", "-c",
            f"from controlplane.nodes.models import Node; Node.objects.update(capacity={capacity})",
        )  # fmt: skip

    # ---- what goes wrong

    def kill(self, process: str) -> None:
        """SIGKILL a supervised process (`web`, `detection`, `zookeeper`...) and wait for its restart."""
        before = self.kill_at_once(process)
        self.wait_for(
            lambda: self._supervisor.pid(process) not in (0, before), f"restart of {process}", timeout=60
        )

    def kill_at_once(self, *processes: str) -> int:
        """SIGKILL supervised processes, all that run, without waiting; returns the id of the last."""
        pid = 0
        for process in processes:
            pid = self.wait_for(
                lambda process=process: self._supervisor.pid(process),  # type: ignore[misc]
                f"a process of {process}",
                timeout=60,
            )
            assert pid > 1, pid  # 0 would be our own process group
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return pid

    def stop_process(self, process: str) -> None:
        self._supervisor.stop([process])

    def start_process(self, process: str) -> None:
        self._supervisor.start(process)

    def restart(self, process: str, *, pause: float = 0.0) -> None:
        """Stop and start a supervised process in good order, with `pause` seconds between."""
        self.stop_process(process)
        time.sleep(pause)
        self.start_process(process)

    def forget_zookeeper_data(self) -> None:
        """Restart ZooKeeper without anything it knew."""
        self.stop_process("zookeeper")
        shutil.rmtree(self.home / "zookeeper" / "data")
        (self.home / "zookeeper" / "data").mkdir()
        self.start_process("zookeeper")

    def kill_nodes(self, *names: str) -> float:
        """SIGKILL everything on these nodes, all at once; returns when (Unix time)."""
        records = [self.node_process(name) for name in names]
        at = time.time()
        for record in records:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(record.pid, signal.SIGKILL)
        for record in records:
            kill_session(record.pid)
        return at

    def freeze_nodes(self, *names: str) -> Callable[[], None]:
        """Stop everything on these nodes without ending it, as when a rack's switch dies: nothing answers,
        and no connection is closed. Returns what lets them go on."""
        sessions = [self.node_process(name).pid for name in names]
        return freeze(member.pid for session in sessions for member in session_members(session)).go_on

    def processes_of(self, role: str, node: str = "") -> list[int]:
        """Those of one kind (`harness.roles`), of one node for the kinds that each node has."""
        if role in ON_NODES:
            found = [member.pid for member in session_members(self.node_process(node).pid)]
        elif role in OF_DRIVERS:
            found = [member.pid for member in session_members(self.driver_process().pid)]
        else:
            found = [self._supervisor.pid(role)]
        return [pid for pid in found if role_of(pid) == role]

    def sessions(self) -> list[int]:
        """Leaders of all sessions: of the supervisor, drivers and nodes. Every process is in one of them."""
        records = [record for kind in (self._drivers, self._nodes) for record in kind.all() if record.alive]
        daemon = self._supervisor.daemon_pid()
        return [*([daemon] if daemon else []), *(record.pid for record in records)]

    def kill_driver(self, topology: str = "hashtags") -> None:
        """SIGKILL a driver with its JVM and wait until the launcher has started the next one."""
        record = self.driver_process(topology)
        kill_session(record.pid)

        def restarted() -> bool:
            found = self._drivers.get(topology)
            return found is not None and found.pid != record.pid and found.alive

        self.wait_for(restarted, f"restart of the driver of {topology}", timeout=60)

    def node_process(self, name: str) -> DetachedProcess:
        found = self._nodes.get(name)
        assert found is not None, f"no node {name} was started"
        return found

    def driver_process(self, topology: str = "hashtags") -> DetachedProcess:
        found = self.wait_for(lambda: self._drivers.get(topology), f"a driver of {topology}")
        assert found is not None
        return found

    # ---- looking inside

    @contextlib.contextmanager
    def zookeeper(self) -> Iterator[Any]:
        """A ZooKeeper client for as long as the block runs."""
        from kazoo.client import KazooClient

        settings = self.installation.settings
        secret = f"{USER}:{settings.zookeeper_secret}"
        client = KazooClient(hosts=settings.zookeeper, timeout=4.0, auth_data=[("digest", secret)])
        client.start(timeout=20)
        try:
            yield client
        finally:
            client.stop()
            client.close()

    def plan(self, topology: str = "hashtags") -> dict[str, Any]:
        with self.zookeeper() as client:
            return dict(msgspec.json.decode(client.get(Paths.plan(topology))[0]))

    def log(self, process: str) -> str:
        """What a process has written (`web`, `node-1`, `driver.hashtags`)."""
        path = self.home / "log" / f"{process}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _keep_logs(self) -> None:
        """After a failure: the ends of the logs go to the test's output."""
        for path in sorted((self.home / "log").glob("*.log")):
            lines = path.read_text(errors="replace").splitlines()[-25:]
            sys.stdout.write(f"\n==> {path.name} <==\n" + "\n".join(lines) + "\n")


@contextlib.contextmanager
def settings_of_the_shell_replaced(variables: Mapping[str, str]) -> Iterator[None]:
    """`os.environ` with these RESURGE_* variables and no others."""
    kept = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("RESURGE_")]:
        del os.environ[name]
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def pipeline_with(directory: Path, pipeline: str, fields: Mapping[str, Any]) -> Path:
    """A file with the specification of a ready-made pipeline, and these fields instead of its own."""
    spec = load_yaml((ROOT / "spark_jobs" / "pipelines" / f"{pipeline}.yaml").read_text())
    path = directory / f"{pipeline}.json"
    path.write_bytes(msgspec.json.encode({**spec, **fields}))
    return path
