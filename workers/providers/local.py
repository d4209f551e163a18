"""Nodes on this machine: each one an agent in a session of its own, on an address of its own."""

from __future__ import annotations

import os
import random
import re
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
import structlog

from host.detached import DetachedProcess, DetachedProcesses
from host.environment import ROOT, Delay
from host.process_secrets import environment_for
from workers.providers.base import (
    NodeDescription,
    NodeWanted,
    ProviderError,
    RunningNode,
)
from workers.providers.cgroups import CpuCaps
from workers.quarantine import quarantine

log = structlog.get_logger()

_NUMBERED = re.compile(r"^[a-z][a-z-]*-([1-9][0-9]*)$")
ADDRESSES = 254 * 254
GRACE = 5.0
"""Seconds in which an agent may end by itself once it was told to."""
_descriptions = msgspec.json.Decoder(NodeDescription)


class LocalNodeProvider:
    """Starts agents as processes recorded below `run/nodes`; every process that has the same home sees
    the same nodes, so that the launcher starts what a recovery worker may kill."""

    list_interval = 0.0

    def __init__(
        self,
        *,
        home: Path,
        delay: Delay,
        seed: int | str = 0,
        environment: Mapping[str, str] | None = None,
        cpu_cap: bool = True,
    ) -> None:
        self._home = home
        self._processes = DetachedProcesses(home / "run" / "nodes")
        self._delay = delay
        self._seed = seed
        self._environment = environment_for("node", os.environ if environment is None else environment)
        self._caps = CpuCaps(home, enabled=cpu_cap)
        self._guard = threading.Lock()

    def describe(self) -> str:
        return f"processes on this machine, a new one after {self._delay} s, CPU cap: {self._caps.state}"

    def due(self, wanted: NodeWanted) -> float:
        """When a node comes (Unix time): replacements with a delay, as they would from a cloud."""
        if not wanted.replacement:
            return wanted.requested_at
        # Seeded by the request: asking again after a crash gives the same answer.
        chance = random.Random(f"{self._seed}/{wanted.request}")  # noqa: S311
        return wanted.requested_at + self._delay.draw(chance)

    def acquire(self, wanted: NodeWanted) -> float | None:
        due = self.due(wanted)
        if due > time.time():
            return due
        self.launch(wanted.node)
        return None

    def launch(self, node: NodeDescription) -> RunningNode:
        """Start a node now, unless it runs already."""
        with self._guard:
            known = self._processes.get(node.name)
            if known is not None and known.alive:
                return _running(known)
            if known is not None:
                self._processes.kill(node.name)
            record = self._start(node)
            self._caps.apply(node.name, record.pid, node.capacity)
        log.info(
            "node launched", node=node.name, address=address_of(node.name), rack=node.rack, pid=record.pid
        )
        return _running(record)

    def nodes(self) -> list[RunningNode]:
        found: list[RunningNode] = []
        for record in self._processes.all():
            try:
                found.append(_running(record))
            except ProviderError as error:  # the other nodes go on
                quarantine.refuse(f"file {record.name}.json", str(error))
        return found

    def fail(self, name: str) -> bool:
        record = self._processes.get(name)
        if record is None:
            raise ProviderError(f"{name}: the local provider runs no such node")
        alive = record.alive
        killed = self._processes.kill(name)
        log.warning("node killed on request", node=name, processes=killed)
        return alive

    def release(self, name: str, *, keep_disk: bool = False) -> None:
        """`keep_disk` keeps the record too, so that the node is known when the installation starts again."""
        self._processes.end(name, grace=GRACE)
        self._caps.remove(name)
        if not keep_disk:
            self._processes.forget(name)
            shutil.rmtree(self._home / "nodes" / name, ignore_errors=True)

    def _python_path(self) -> str:
        """Where its Python processes find modules: here first, then where those that start it do."""
        return os.pathsep.join(filter(None, (str(ROOT), self._environment.get("PYTHONPATH"))))

    def _start(self, node: NodeDescription) -> DetachedProcess:
        command = [sys.executable, "-m", "spark_jobs.agent", "--node", node.name]
        command += ["--address", address_of(node.name), "--rack", node.rack]
        command += ["--slots", str(node.slots), "--capacity", str(node.capacity)]
        if node.standby:
            command.append("--standby")
        try:
            return self._processes.start(
                node.name,
                command,
                environment={**self._environment, "PYTHONPATH": self._python_path(), "PYTHONUNBUFFERED": "1"},
                directory=ROOT,
                output=self._home / "log" / f"{node.name}.log",
                details=msgspec.to_builtins(node),
            )
        except OSError as error:
            raise ProviderError(f"{node.name}: cannot start its agent: {error}") from error


def address_of(name: str) -> str:
    """The loopback address of a node by the number its name ends with: `node-3` has 127.0.1.3."""
    found = _NUMBERED.match(name)
    if found is None:
        raise ProviderError(f"{name}: a local node's name is a word and a number, such as node-3")
    number = int(found.group(1)) - 1
    if number >= ADDRESSES:
        raise ProviderError(f"{name}: the local provider has addresses for {ADDRESSES} nodes")
    return f"127.0.{1 + number // 254}.{1 + number % 254}"


def rack_of(number: int) -> str:
    """Racks alternate: odd nodes in rack-a, even ones in rack-b."""
    return "rack-a" if number % 2 else "rack-b"


def _running(record: DetachedProcess) -> RunningNode:
    try:
        description = _descriptions.decode(msgspec.json.encode(record.details))
    except ValueError as error:
        raise ProviderError(f"{record.name}: its record in run/nodes describes no node: {error}") from error
    return RunningNode(
        description=description,
        address=address_of(record.name),
        pid=record.pid,
        alive=record.alive,
    )
