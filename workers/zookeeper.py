"""What the workers read and write in ZooKeeper, and the one session each of their processes has."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from coordination.paths import Paths
from coordination.session import CALL_DEADLINE, Session, Stored
from domain.messages import (
    Control,
    DeployedSpec,
    DriverStatus,
    ExecutorsSeen,
    LatestCheckpoint,
    NodeRegistration,
    NodeStats,
    Plan,
    Replicas,
)
from host import environment
from workers.quarantine import quarantine

AHEAD = 86_400.0
"""Seconds. A registration from so far in the future is refused: what is written over it would look old, and
its node be kept for ever."""


@dataclass(frozen=True, slots=True)
class TopologyFacts:
    """What ZooKeeper says of one topology now; None where there is no readable znode."""

    name: str
    spec: DeployedSpec | None
    plan: Plan | None
    driver: DriverStatus | None
    latest: LatestCheckpoint | None


_FACTS: tuple[tuple[str, Callable[[str], str], type[msgspec.Struct]], ...] = (
    ("plan", Paths.plan, Plan),
    ("driver", Paths.driver, DriverStatus),
    ("latest", Paths.latest_checkpoint, LatestCheckpoint),
    ("spec", Paths.spec, DeployedSpec),
)


class WorkerSession(Session):
    """A session with what the workers ask of nodes and topologies. Every method raises
    `CoordinationUnavailableError` while ZooKeeper is away; the next sweep or round tries again."""

    # ---- topologies ------------------------------------------------------------------------------

    def plan_publish(self, topology: str, plan: Plan, *, own: Callable[[Plan], bool]) -> Plan:
        """Put a plan in force unless one of the same or a higher generation is, or one that is not our `own`;
        returns the one in force."""

        def newest(current: Plan | None) -> Plan:
            if current is None or (current.generation < plan.generation and own(current)):
                return plan
            return current

        return self.change(Paths.plan(topology), Plan, newest)

    def control_change(self, topology: str, change: Callable[[Control], Control]) -> Control:
        """Apply `change` to the control znode by compare and set; returns what is now in force."""
        return self.change(Paths.control(topology), Control, lambda current: change(current or Control()))

    def topology_facts(self, names: Iterable[str], *, brief: bool = False) -> dict[str, TopologyFacts]:
        """Everything about several topologies, read in one round trip. brief: only the plan and what the
        driver says, for a caller that asks twice a second."""
        wanted, kinds = sorted(names), _FACTS[:2] if brief else _FACTS
        places = [(name, field, path(name), kind) for name in wanted for field, path, kind in kinds]
        stored = self.get_many([(path, kind) for _, _, path, kind in places])
        found: dict[str, dict[str, Any]] = {name: {field: None for field, _, _ in _FACTS} for name in wanted}
        for (name, field, path, _), one in zip(places, stored, strict=True):
            found[name][field] = None if one is None else self._about(name, path, one)
        return {name: TopologyFacts(name, **values) for name, values in found.items()}

    def replicas(self, topology: str) -> Replicas | None:
        """Which replicas its driver is told to have; None where nothing is said."""
        stored = self.get(Paths.replicas(topology), Replicas)
        return None if stored is None else stored.value

    def executors(self, names: Iterable[str]) -> dict[str, ExecutorsSeen]:
        """What the drivers of these topologies say of their executors. Leaves a watch on each."""
        wanted = sorted(names)
        found = self.get_many([(Paths.executors(name), ExecutorsSeen) for name in wanted], watch=True)
        return {name: one.value for name, one in zip(wanted, found, strict=True) if one is not None}

    def _about(self, topology: str, path: str, stored: Stored[Any]) -> Any:
        """The value, unless it speaks of another topology than its place."""
        value = stored.value
        said = value.name if isinstance(value, DeployedSpec) else getattr(value, "topology", topology)
        if said == topology:
            return value
        self.refuse(path, f"it is of the topology {said!r}", version=stored.version)
        return None

    # ---- nodes -----------------------------------------------------------------------------------

    def registrations(self) -> list[NodeRegistration]:
        """Every registered node, with the session that owns its znode. Leaves a watch on the list."""
        names = self.children(Paths.NODES, watch=True) or []
        found = self.get_many([(Paths.node(name), NodeRegistration) for name in names])
        now = time.time()
        registrations: list[NodeRegistration] = []
        for name, one in zip(names, found, strict=True):
            if one is None or not self._of_node(name, Paths.node(name), one):
                continue
            ahead = one.value.registered_at - now
            if ahead > AHEAD:
                why = f"it was registered {ahead:.0f} s in the future, by the clock of this host"
                self.refuse(Paths.node(name), why, version=one.version)
                continue
            registrations.append(
                msgspec.structs.replace(
                    one.value, session=one.owner or one.value.session, created=one.created
                )
            )
        return registrations

    def heartbeats(self, names: Iterable[str]) -> list[NodeStats]:
        wanted = sorted(names)
        found = self.get_many([(Paths.stats(name), NodeStats) for name in wanted])
        return [
            one.value
            for name, one in zip(wanted, found, strict=True)
            if one is not None and self._of_node(name, Paths.stats(name), one)
        ]

    def _of_node(self, name: str, path: str, stored: Stored[Any]) -> bool:
        if stored.value.id == name:
            return True
        self.refuse(path, f"it is of the node {stored.value.id!r}", version=stored.version)
        return False


_lock = threading.Lock()
_sessions: dict[int, WorkerSession] = {}
"""By process id, because kazoo's threads do not survive a fork: a child makes a session of its own."""


def coordination() -> WorkerSession:
    """The connected session of this process, for recovery tasks; made on first use. Waits only while a
    connection may be made soon: a sweep, which asks for it many times, would keep a thread for minutes."""
    with _lock:
        session = _sessions.get(os.getpid())
        if session is None:
            settings = environment.read()
            session = _sessions[os.getpid()] = WorkerSession(
                settings.zookeeper,
                settings.session_timeout,
                secret=settings.zookeeper_secret,
                on_refused=quarantine.refuse_znode,
            )
            session.start()
    session.require_connected(max(CALL_DEADLINE - session.away, 0.0))
    return session


def coordination_close() -> None:
    """End this process's session; part of a worker's orderly shutdown."""
    with _lock:
        session = _sessions.pop(os.getpid(), None)
    if session is not None:
        session.close()
