"""What the sweep writes, with a ZooKeeper that is a dictionary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from controlplane.lifecycle.topologies import topology_deploy
from controlplane.topologies.models import Topology
from controlplane.topologies.telemetry import driver_status_apply
from coordination.paths import Paths
from coordination.session import Stored
from domain.messages import Control
from tests.unit.controlplane.specs import BY, driver_status
from workers.reconciliation import topology_reconcile
from workers.zookeeper import WorkerSession


class Remembered(WorkerSession):
    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def get(self, path: str, kind: type[Any], *, watch: bool = False) -> Stored[Any] | None:
        return Stored(self.values[path], "") if path in self.values else None

    def put(self, path: str, value: Any, *, new: bool = False) -> None:
        self.values[path] = value

    def change(self, path: str, kind: type[Any], decide: Callable[[Any], Any]) -> Any:
        return self.values.setdefault(path, decide(self.values.get(path)))


@pytest.mark.parametrize("state", ["paused", "running"])
def test_a_paused_topology_stays_paused_where_zookeeper_lost_its_data(topology: Topology, state: Any) -> None:
    zookeeper, path = Remembered(), Paths.control("counts")
    topology_deploy(name="counts", **BY)
    topology_reconcile(zookeeper, "counts")
    topology.refresh_from_db()
    driver_status_apply(status=driver_status(topology, state))
    zookeeper.values.clear()
    topology_reconcile(zookeeper, "counts")
    assert zookeeper.values.get(path, Control()).paused == (state == "paused")
    zookeeper.put(path, Control(paused=False))
    topology_reconcile(zookeeper, "counts")
    assert not zookeeper.values[path].paused, "it is being resumed"
