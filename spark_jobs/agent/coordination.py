"""The agent's side of ZooKeeper: one thread that registers, writes heartbeats and follows topologies.

kazoo's listeners and watches run in its own threads and must not block: they only put a word into a
queue. Losing ZooKeeper changes nothing on the node: the last known set of topologies stays in force,
and with a new session (after an expiry, or a server that lost its data) everything is written again.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, WatchedEvent
from kazoo.retry import KazooRetry

from coordination.paths import Paths
from coordination.session_guard import SessionGuard
from domain.messages import (
    DeployedSpec,
    NodeRegistration,
    NodeStats,
    decode,
    encode,
)
from spark_jobs.agent.statistics import NodeUsage

log = structlog.get_logger()

# Watches are a hint; a full listing this often finds whatever one of them missed.
RELIST_INTERVAL = 5.0
MISSING_GRACE = 30.0
CALL_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """What a node says about itself; `capacity` in CPU percent, 100 is one core."""

    id: str
    address: str
    rack: str
    slots: int
    capacity: int
    standby: bool
    pid: int


class Coordination(threading.Thread):
    """Owns the ZooKeeper session. `wanted` is the set of topologies that need a worker here."""

    def __init__(
        self,
        *,
        identity: NodeIdentity,
        hosts: str,
        session_timeout: float,
        heartbeat_interval: float,
        usage: Callable[[], NodeUsage],
        workers: Callable[[], list[str]],
        on_wanted: Callable[[frozenset[str]], None],
    ) -> None:
        super().__init__(name="coordination", daemon=True)
        self._identity = identity
        self._interval = heartbeat_interval
        self._usage = usage
        self._workers = workers
        self._on_wanted = on_wanted
        self._events: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._registered_session = ""
        self._listed_at = 0.0
        self._wanted: frozenset[str] = frozenset()
        self._missing_since: dict[str, float] = {}
        self._finished = threading.Event()
        self.client = KazooClient(
            hosts=hosts,
            timeout=session_timeout,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, backoff=2, max_delay=1.0),
            command_retry=KazooRetry(max_tries=0),
        )
        self.client.add_listener(self._session_changed)
        self._guard = SessionGuard(self.client, session_timeout=session_timeout)

    def connected(self) -> bool:
        return bool(self.client.connected) and self.client.state == KazooState.CONNECTED

    def finish(self) -> None:
        """Leave the cluster: close the session, which removes the registration at once."""
        self._finished.set()
        self._events.put("finish")
        self.join(5)
        self.client.stop()
        self.client.close()

    def run(self) -> None:
        self.client.start_async()
        next_beat = time.monotonic()
        while not self._finished.is_set():
            event = self._next_event(next_beat - time.monotonic())
            if self._finished.is_set():
                return
            beat = time.monotonic() >= next_beat
            if beat:
                next_beat = max(next_beat + self._interval, time.monotonic())
                self._guard.check()
            if not self.connected():
                continue
            try:
                self._register()
                if beat:
                    self._write_heartbeat()
                if event is not None or time.monotonic() - self._listed_at > RELIST_INTERVAL:
                    self._list_topologies()
            except (KazooException, KazooTimeoutError, ConnectionError) as error:
                # The state listener tells when the session is back, or that there is a new one.
                log.warning("zookeeper call failed", error=repr(error))

    # Called in kazoo's threads: enqueue and return.
    def _session_changed(self, state: str) -> None:
        self._events.put(state)

    def _changed(self, event: WatchedEvent) -> None:
        self._events.put("changed")

    def _next_event(self, wait: float) -> str | None:
        """The last of all events that wait, or None when none comes in time."""
        try:
            event = self._events.get(timeout=max(wait, 0.01))
            while not self._events.empty():
                event = self._events.get_nowait()
        except queue.Empty:
            return None
        if event in (KazooState.SUSPENDED, KazooState.LOST):
            log.warning("zookeeper session " + event.lower(), workers=self._workers())
        return event

    def acknowledge(self, path: str, value: bytes) -> bool:
        """Write a znode whether it exists or not; False when ZooKeeper cannot be reached now. May be called
        in any thread."""
        if not self.connected():
            return False
        try:
            try:
                self._done(self.client.create_async(path, value, makepath=True))
            except NodeExistsError:
                self._done(self.client.set_async(path, value))
        except (KazooException, KazooTimeoutError, ConnectionError) as error:
            log.warning("acknowledgement not written yet", path=path, error=repr(error))
            return False
        return True

    @staticmethod
    def _done(call: Any) -> Any:
        """The result of an asynchronous call. Without the limit, a call made in the moment the connection
        breaks would wait for ever."""
        return call.get(timeout=CALL_TIMEOUT)

    def _session(self) -> str:
        client_id = self.client.client_id
        return f"{client_id[0]:x}" if client_id else ""

    def _register(self) -> None:
        """Create this session's ephemeral node; one of an earlier session is deleted and replaced."""
        session = self._session()
        if not session or session == self._registered_session:
            return
        path = Paths.node(self._identity.id)
        value = encode(
            NodeRegistration(
                id=self._identity.id,
                address=self._identity.address,
                rack=self._identity.rack,
                slots=self._identity.slots,
                capacity=self._identity.capacity,
                standby=self._identity.standby,
                pid=self._identity.pid,
                session=session,
                registered_at=time.time(),
            )
        )
        try:
            self._done(self.client.create_async(path, value, ephemeral=True, makepath=True))
        except NodeExistsError:
            if not self._replace(path, value, session):
                return
        self._registered_session = session
        log.info("registered", session=session)
        self._events.put("registered")

    def _replace(self, path: str, value: bytes, session: str) -> bool:
        """Put our registration in the place of an existing one; False to try again at the next beat."""
        try:
            _, stat = self._done(self.client.get_async(path))
            if stat.owner_session_id is not None and f"{stat.owner_session_id:x}" == session:
                self._done(self.client.set_async(path, value))
                return True
            self._done(self.client.delete_async(path, version=stat.version))
            self._done(self.client.create_async(path, value, ephemeral=True, makepath=True))
        except (NoNodeError, NodeExistsError, BadVersionError):
            return False
        return True

    def _write_heartbeat(self) -> None:
        if self._registered_session != self._session():
            return
        usage = self._usage()
        value = encode(
            NodeStats(
                id=self._identity.id,
                at=time.time(),
                session=self._registered_session,
                cpu_percent=usage.cpu_percent,
                memory_bytes=usage.memory_bytes,
                disk_free_bytes=usage.disk_free_bytes,
                workers=self._workers(),
            )
        )
        path = Paths.stats(self._identity.id)
        try:
            self._done(self.client.set_async(path, value))
        except NoNodeError:
            self._done(self.client.create_async(path, value, makepath=True))

    def _list_topologies(self) -> None:
        """Read which topologies are to run and watch for the next change.

        A topology whose specification is missing keeps its worker for a while: a ZooKeeper that lost its
        data gets everything written again, and until then nothing on the node may stop because of it.
        """
        self._done(self.client.ensure_path_async(Paths.TOPOLOGIES))
        now = time.monotonic()
        found: dict[str, bool] = {}
        for name in self._done(self.client.get_children_async(Paths.TOPOLOGIES, watch=self._changed)):
            running = self._is_wanted(name)
            if running is not None:
                found[name] = running
        for name in self._wanted:
            if name in found:
                self._missing_since.pop(name, None)
            elif now - self._missing_since.setdefault(name, now) < MISSING_GRACE:
                found[name] = True
        self._wanted = frozenset(name for name, running in found.items() if running)
        self._listed_at = now
        self._on_wanted(self._wanted)

    def _is_wanted(self, name: str) -> bool | None:
        """Whether a topology is to run; None while it has no readable specification."""
        path = Paths.spec(name)
        try:
            data, _ = self._done(self.client.get_async(path, watch=self._changed))
        except NoNodeError:
            # Between the creation of a topology and its specification; `exists` watches for the latter.
            self._done(self.client.exists_async(path, watch=self._changed))
            return None
        try:
            return decode(data, DeployedSpec).desired == "running"
        except ValueError as error:
            log.error("unreadable specification in zookeeper", path=path, error=str(error))
            return None
