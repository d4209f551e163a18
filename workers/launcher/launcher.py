"""The launcher's loop: from the database to processes, again and again."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import structlog
from django.db import DatabaseError, close_old_connections

from controlplane.topologies.choices import Desired, TopologyStatus
from controlplane.topologies.models import Topology
from host.environment import Environment
from workers.launcher.drivers import Drivers, WantedDriver
from workers.launcher.nodes import (
    FirstNodes,
    dead_nodes_forget,
    due_nodes_launch,
    first_nodes_launch,
    nodes_leave,
)
from workers.providers.base import NodeProvider

log = structlog.get_logger()

INTERVAL = 0.5


class Launcher:
    """Ends on SIGTERM. Drivers and nodes go on without it and are adopted by the next launcher, unless
    `run/stopping` says that the whole installation stops."""

    def __init__(self, environment: Environment, provider: NodeProvider) -> None:
        self._environment = environment
        self._provider = provider
        self._drivers = Drivers(environment.home)
        self._stop = threading.Event()

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        log.info("launcher starts", provider=self._provider.describe().text)
        while not self._stop.is_set():
            try:
                self.step()
            except DatabaseError as error:
                log.warning("database not usable now", error=str(error))
            self._stop.wait(INTERVAL)
            close_old_connections()
        if (self._environment.run / "stopping").exists():
            self._end_everything()
        log.info("launcher ends")

    def step(self) -> None:
        first_nodes_launch(provider=self._provider, order=self._environment.run / "first-nodes.json")
        dead_nodes_forget(provider=self._provider)
        due_nodes_launch(provider=self._provider, default=FirstNodes(nodes=0))
        self._drivers.reconcile(wanted_drivers())

    def _end_everything(self) -> None:
        self._drivers.end_all()
        try:
            nodes_leave(reason="the installation is stopped")
        except DatabaseError as error:
            log.warning("nodes not recorded as left", error=str(error))
        with ThreadPoolExecutor(max_workers=8) as pool:
            for node in self._provider.nodes():
                pool.submit(self._provider.halt, node.description.name)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stop.set()


def wanted_drivers() -> list[WantedDriver]:
    """Every topology that is to run, with what identifies its present deployment."""
    return [
        WantedDriver(
            topology=topology.name,
            deployment=f"{topology.version}/{topology.deployed_at}",
            finished=topology.status == TopologyStatus.COMPLETED,
        )
        for topology in Topology.objects.filter(desired=Desired.RUNNING)
    ]
