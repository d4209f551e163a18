"""A node's membership in the cluster: registration, heartbeats, and which topologies need an executor on it.

Losing ZooKeeper changes nothing on the node: the last known topologies stay in force, and with a new session
(after an expiry, or a server that lost its data) everything is written again.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import structlog

from coordination.paths import Paths
from coordination.session import CoordinationUnavailableError, Session, SessionState
from domain.messages import (
    CheckpointAck,
    DeployedSpec,
    DriverStatus,
    Former,
    LatestCheckpoint,
    NodeRegistration,
    NodeStats,
    Plan,
    Replicas,
    SparkApplication,
)
from spark_jobs.agent.forgetting import NOTHING, Over, kept_here, over
from spark_jobs.agent.prefetch import Newest
from spark_jobs.agent.statistics import NodeUsage
from spark_jobs.state.checkpoint_storage import Deployment

log = structlog.get_logger()

RELIST_INTERVAL = 5.0
"""Seconds. Watches are hints; listing everything this often finds what one of them missed."""
MISSING_GRACE = 30.0
"""Seconds for which a topology keeps its executor after its specification has vanished from ZooKeeper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """What a node says about itself; `capacity` in CPU percent, 100 is one core.
    `lifeline`: see `NodeRegistration`."""

    id: str
    address: str
    rack: str
    slots: int
    capacity: int
    standby: bool
    pid: int
    lifeline: int = 0


class NodeMembership(threading.Thread):
    """One thread that registers, writes heartbeats and follows topologies.

    The session's callbacks only put a word into a queue. `on_wanted` is called, in this thread, with the
    topologies that need an executor here: by name the application of their driver, None where ZooKeeper has
    none now.
    """

    def __init__(
        self,
        *,
        identity: NodeIdentity,
        hosts: str,
        session_timeout: float,
        heartbeat_interval: float,
        usage: Callable[[], NodeUsage],
        executors: Callable[[], list[str]],
        on_wanted: Callable[[Mapping[str, SparkApplication | None]], None],
        secret: str = "",
    ) -> None:
        super().__init__(name="membership", daemon=True)
        self._identity = identity
        self._interval = heartbeat_interval
        self._usage = usage
        self._executors = executors
        self._on_wanted = on_wanted
        self._events: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._registered_session = ""
        self._listed_at = 0.0
        self._wanted: frozenset[str] = frozenset()
        self._missing_since: dict[str, float] = {}
        self._finished = threading.Event()
        self._session = Session(
            hosts,
            session_timeout,
            secret=secret,
            on_state=self._events.put,
            on_change=lambda: self._events.put("changed"),
        )

    def finish(self) -> None:
        """Leave the cluster: close the session, which removes the registration at once."""
        self._finished.set()
        self._events.put("finish")
        self.join(5)
        self._session.close()

    def run(self) -> None:
        self._session.start()
        next_beat = time.monotonic()
        while not self._finished.is_set():
            event = self._next_event(next_beat - time.monotonic())
            if self._finished.is_set():
                return
            beat = time.monotonic() >= next_beat
            if beat:
                next_beat = max(next_beat + self._interval, time.monotonic())
                self._session.check()
            if not self._session.connected:
                continue
            try:
                self._register()
                if beat:
                    self._write_heartbeat()
                if event is not None or time.monotonic() - self._listed_at > RELIST_INTERVAL:
                    self._list_topologies()
            except CoordinationUnavailableError as error:
                # An event tells when the session is back, or that there is a new one.
                log.warning("zookeeper call failed", error=str(error))

    def acknowledge(self, topology: str, ack: CheckpointAck, directory: str) -> bool:
        """Write an acknowledgement, again if need be; False when ZooKeeper cannot be reached now. May be
        called in any thread."""
        if not self._session.connected:
            return False
        path = Paths.ack(topology, ack.checkpoint, directory, ack.deployed)
        try:
            self._session.put(path, ack, new=True)
        except CoordinationUnavailableError as error:
            log.warning("acknowledgement not written yet", path=path, error=str(error))
            return False
        return True

    def over(self, names: Collection[str]) -> dict[str, Over]:
        """Which deployments of these topologies are over. May be called in any thread; raises
        `CoordinationUnavailableError`."""
        if not self._session.connected:
            raise CoordinationUnavailableError("not connected to ZooKeeper")
        said: dict[str, Over] = {}
        for name in names:
            # The plan last: what is deployed meanwhile has one before it has anything on this node.
            former = self._session.get(Paths.former(name), Former)
            latest = self._session.get(Paths.latest_checkpoint(name), LatestCheckpoint)
            replicas = self._session.get(Paths.replicas(name), Replicas)
            driver = self._session.get(Paths.driver(name), DriverStatus)
            plan = self._session.get(Paths.plan(name), Plan)
            if plan is None and self._session.exists(Paths.plan(name)):
                continue  # one that cannot be read
            in_force = None if plan is None else plan.value
            status = None if driver is None else driver.value
            said[name] = replace(
                over(None if former is None else former.value, in_force, status),
                of=NOTHING if in_force is None else in_force.deployment,
                kept=kept_here(
                    self._identity.id,
                    plan=in_force,
                    driver=status,
                    latest=None if latest is None else latest.value,
                    replicas=None if replicas is None else replicas.value,
                ),
            )
        return said

    def newest_checkpoints(self) -> dict[str, Newest]:
        """Of each topology the newest complete checkpoint of its deployment. May be called in any thread;
        raises `CoordinationUnavailableError`."""
        if not self._session.connected:
            raise CoordinationUnavailableError("not connected to ZooKeeper")
        names = self._session.children(Paths.TOPOLOGIES) or []
        plans = self._session.get_many([(Paths.plan(name), Plan) for name in names])
        told = self._session.get_many([(Paths.latest_checkpoint(name), LatestCheckpoint) for name in names])
        found: dict[str, Newest] = {}
        for name, plan, latest in zip(names, plans, told, strict=True):
            if plan is None or latest is None:
                continue
            deployed = plan.value.deployment
            # Before the driver of a new deployment has begun, the checkpoint is one of the deployment before.
            current = latest.value.generation >= deployed
            found[name] = Newest(
                Deployment(name, deployed),
                latest.value.checkpoint if current else 0,
                self._identity.id in plan.value.assignment.values(),
            )
        return found

    def _next_event(self, wait: float) -> str | None:
        """The last of all events that wait, or None when none comes in time."""
        try:
            event = self._events.get(timeout=max(wait, 0.01))
            while not self._events.empty():
                event = self._events.get_nowait()
        except queue.Empty:
            return None
        if event in (SessionState.SUSPENDED, SessionState.LOST):
            log.warning("zookeeper session " + event.lower(), executors=self._executors())
        return event

    def _register(self) -> None:
        """Create this session's ephemeral znode; one of an earlier session is deleted and replaced."""
        session = self._session.session
        if not session or session == self._registered_session:
            return
        registration = NodeRegistration(
            id=self._identity.id,
            address=self._identity.address,
            rack=self._identity.rack,
            slots=self._identity.slots,
            capacity=self._identity.capacity,
            standby=self._identity.standby,
            pid=self._identity.pid,
            session=session,
            registered_at=time.time(),
            lifeline=self._identity.lifeline,
        )
        if not self._session.claim(Paths.node(self._identity.id), registration):
            return  # it changed meanwhile; the next beat tries again
        self._registered_session = session
        log.info("registered", session=session)
        self._events.put("registered")

    def _write_heartbeat(self) -> None:
        if self._registered_session != self._session.session:
            return
        usage = self._usage()
        stats = NodeStats(
            id=self._identity.id,
            at=time.time(),
            session=self._registered_session,
            cpu_percent=usage.cpu_percent,
            memory_bytes=usage.memory_bytes,
            disk_free_bytes=usage.disk_free_bytes,
            topologies=self._executors(),
            cpu_seconds=dict(usage.cpu_seconds),
            own_cpu_seconds=usage.own_cpu_seconds,
            throttled=usage.throttled,
        )
        self._session.put(Paths.stats(self._identity.id), stats)

    def _list_topologies(self) -> None:
        """Read which topologies are to run and watch for the next change.

        A topology whose specification is missing keeps its executor for a while: a ZooKeeper that lost its
        data gets everything written again, and until then nothing on the node may stop because of it. One
        that is undeployed keeps its executor until its driver, which takes a last checkpoint, has ended.
        """
        names = self._session.children(Paths.TOPOLOGIES, watch=True) or []
        specs = self._session.get_many([(Paths.spec(name), DeployedSpec) for name in names], watch=True)
        now = time.monotonic()
        found = {
            name: spec.value.desired == "running"
            for name, spec in zip(names, specs, strict=True)
            if spec is not None
        }
        for name in self._wanted:
            if name in found:
                self._missing_since.pop(name, None)
            elif now - self._missing_since.setdefault(name, now) < MISSING_GRACE:
                found[name] = True
        stopped = [name for name, running in found.items() if not running and name in self._wanted]
        leaving = {name for name in stopped if self._session.exists(Paths.driver(name))}
        self._wanted = frozenset(name for name, running in found.items() if running or name in leaving)
        # The end of a driver is seen at the next beat.
        self._listed_at = now if not leaving else 0.0
        wanted = sorted(self._wanted)
        applications = self._session.get_many(
            [(Paths.application(name), SparkApplication) for name in wanted], watch=True
        )
        known = {name: one.value for name, one in zip(wanted, applications, strict=True) if one is not None}
        self._on_wanted({name: known.get(name) for name in wanted})
