"""The launcher's loop: from the database to processes, again and again."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import structlog
from django.db import DatabaseError, close_old_connections, connections

from controlplane.lifecycle.nodes import nodes_leave
from controlplane.topologies.choices import Desired, TopologyStatus
from controlplane.topologies.former import names_uncleared
from controlplane.topologies.models import Topology
from domain.execution.checkpoints import UPLOAD_TIMEOUT
from host.environment import Environment
from workers.keeping import SignWriter
from workers.launcher.drivers import Drivers, WantedDriver
from workers.launcher.nodes import Nodes
from workers.launcher.operation_processes import SAVEPOINT, VERIFY, OperationProcesses
from workers.providers.base import NodeProvider, ProviderError
from workers.quarantine import quarantine

log = structlog.get_logger()

INTERVAL = 0.5
QUIET = 300.0
"""Seconds that one step may take: a provider's calls, one after the other."""
DRIVERS, NODES = "launcher-drivers", "launcher-nodes"


class Launcher:
    """Ends on SIGTERM. Drivers and nodes go on without it and are adopted by the next launcher, unless
    `run/stopping` says that the whole installation stops."""

    def __init__(self, environment: Environment, provider: NodeProvider) -> None:
        self._environment = environment
        self._provider = provider
        self._drivers = Drivers(environment.home)
        self._operations = [OperationProcesses(environment.home, one) for one in (VERIFY, SAVEPOINT)]
        self._nodes = Nodes(provider, order=environment.run / "first-nodes.json")
        self._stop = threading.Event()
        self._beats: dict[str, float] = {}
        self._signs = SignWriter(lambda: dict(self._beats), url=environment.redis_url, quiet=QUIET)

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        log.info("launcher starts", provider=self._provider.describe())
        self._signs.start()
        try:
            self._run()
        finally:
            self._signs.finish()
        if (self._environment.run / "stopping").exists():
            self._end_everything()
        log.info("launcher ends")

    def _run(self) -> None:
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="nodes") as pool:
            # Beside the drivers: a provider that takes its time must not keep a driver from its restart.
            nodes = pool.submit(self._repeat, NODES, self._nodes.step)
            self._repeat(DRIVERS, self._drivers_step)
        nodes.result()

    def _drivers_step(self) -> None:
        self._drivers.reconcile(wanted_drivers())
        for kind in self._operations:
            kind.reconcile(kind.asked())
        quarantine.tell()

    def _repeat(self, name: str, step: Callable[[], None]) -> None:
        """Until the launcher ends; an error that `step` does not expect ends it, to be started again."""
        try:
            while not self._stop.is_set():
                self._beats[name] = time.monotonic()
                try:
                    step()
                except DatabaseError as error:
                    log.warning("database not usable now", error=str(error))
                self._stop.wait(INTERVAL)
                close_old_connections()
        finally:
            self._beats.pop(name, None)
            self._stop.set()
            connections.close_all()

    def _end_everything(self) -> None:
        for kind in self._operations:
            kind.end_all()
        self._drivers.end_all()
        try:
            nodes_leave(reason="the installation is stopped")
        except DatabaseError as error:
            log.warning("nodes not recorded as left", error=str(error))
        try:
            with ThreadPoolExecutor(max_workers=8) as pool:
                names = [node.description.name for node in self._provider.nodes()]
                list(pool.map(lambda name: self._provider.release(name, keep_disk=True), names))
        except ProviderError as error:
            log.error("nodes not ended", error=str(error))

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stop.set()


def wanted_drivers() -> list[WantedDriver]:
    """Every topology that is to run, with what identifies its present deployment. One whose name a former
    topology had waits until nothing of that is left."""
    uncleared = names_uncleared()
    return [
        WantedDriver(
            topology=topology.name,
            deployment=f"{topology.version}/{topology.deployed_at}",
            finished=topology.status == TopologyStatus.COMPLETED,
            checkpoint_timeout=topology.spec.get("checkpoint_timeout") or UPLOAD_TIMEOUT,
        )
        for topology in Topology.objects.filter(desired=Desired.RUNNING)
        if topology.name not in uncleared
    ]
