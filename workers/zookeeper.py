"""The workers' ZooKeeper client: the structs of `domain.messages`, typed, with deadlines.

One client per process, made on first use and made anew after a fork, because kazoo's threads do not
survive one. Every call has a deadline: kazoo would otherwise wait for as long as ZooKeeper is away.
Listeners and watches only put something into a queue; a blocking call in one of them would deadlock.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
import structlog
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, WatchedEvent
from kazoo.retry import KazooRetry

from coordination.paths import Paths
from coordination.session_guard import SessionGuard
from domain.messages import (
    Control,
    DeployedSpec,
    DriverStatus,
    LatestCheckpoint,
    NodeRegistration,
    NodeStats,
    Plan,
    decode,
    encode,
)
from host import environment

log = structlog.get_logger(__name__)

CALL_LIMIT = 3.0  # seconds one call may take
CONFLICTS = 20  # attempts of a compare-and-set before giving up

S = TypeVar("S", bound=msgspec.Struct)


class CoordinationUnavailableError(ConnectionError):
    """ZooKeeper did not answer. Nothing was decided; whoever called tries again at the next sweep."""


@dataclass(frozen=True, slots=True)
class Versioned(Generic[S]):
    """A znode's value with the version to compare and set."""

    value: S
    version: int


@dataclass(frozen=True, slots=True)
class TopologyFacts:
    """What ZooKeeper says of one topology now; None where there is no znode."""

    name: str
    spec: DeployedSpec | None
    plan: Plan | None
    driver: DriverStatus | None
    latest: LatestCheckpoint | None


class Coordination:
    """A started client. Raises `CoordinationUnavailableError` from every call while ZooKeeper is away."""

    def __init__(
        self,
        hosts: str,
        session_timeout: float,
        *,
        on_state: Callable[[str], None] | None = None,
        on_change: Callable[[], None] | None = None,
    ) -> None:
        """`on_state` gets kazoo's state names and `on_change` is called when a watched listing has
        changed; both in kazoo's threads, so they may only enqueue."""
        self.hosts = hosts
        self._on_change = on_change
        self.client = KazooClient(
            hosts=hosts,
            timeout=session_timeout,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, backoff=2, max_delay=1.0),
            command_retry=KazooRetry(max_tries=0),
        )
        if on_state is not None:
            self.client.add_listener(on_state)
        self._guard = SessionGuard(self.client, session_timeout=session_timeout)
        self._guarding = threading.Lock()
        self.client.start_async()

    def check(self) -> None:
        """Get out of a session that a ZooKeeper without its data would refuse for ever. To be called
        about once a second by whoever waits for the client, never from one of kazoo's threads."""
        if self._guarding.acquire(blocking=False):
            try:
                self._guard.check()
            finally:
                self._guarding.release()

    def close(self) -> None:
        self.client.stop()
        self.client.close()

    @property
    def connected(self) -> bool:
        return bool(self.client.connected) and self.client.state == KazooState.CONNECTED

    @property
    def session(self) -> str:
        client_id = self.client.client_id
        return f"{client_id[0]:x}" if client_id else ""

    def wait_connected(self, limit: float) -> bool:
        deadline = time.monotonic() + limit
        while not self.connected:
            if time.monotonic() > deadline:
                self.check()
                return False
            time.sleep(0.05)
        return True

    # ---- single values ---------------------------------------------------------------------------

    def get(self, path: str, kind: type[S]) -> Versioned[S] | None:
        """The value at `path`, or None where there is none or it cannot be read as `kind`."""
        try:
            data, stat = self._wait(self.client.get_async(path), path)
        except NoNodeError:
            return None
        value = _decoded(path, data, kind)
        return None if value is None else Versioned(value, stat.version)

    def put(self, path: str, value: msgspec.Struct) -> None:
        """Set the value, creating the znode (and its parents) if need be."""
        data = encode(value)
        for _ in range(CONFLICTS):
            try:
                self._wait(self.client.set_async(path, data), path)
                return
            except NoNodeError:
                if self._create(path, data):
                    return
        raise CoordinationUnavailableError(
            f"{path} could not be written: others create and delete it meanwhile"
        )

    def compare_and_set(self, path: str, value: msgspec.Struct, version: int | None) -> bool:
        """Set the value if the znode still has `version` (None: does not exist); False if it has not."""
        data = encode(value)
        if version is None:
            return self._create(path, data)
        try:
            self._wait(self.client.set_async(path, data, version=version), path)
        except (BadVersionError, NoNodeError):
            return False
        return True

    def _create(self, path: str, data: bytes) -> bool:
        try:
            self._wait(self.client.create_async(path, data, makepath=True), path)
        except NodeExistsError:
            return False
        return True

    # ---- topologies ------------------------------------------------------------------------------

    def plan_publish(self, topology: str, plan: Plan) -> Plan:
        """Put a plan in force unless one of the same or a higher generation is; returns the one in force."""
        path = Paths.plan(topology)
        for _ in range(CONFLICTS):
            current = self.get(path, Plan)
            if current is not None and current.value.generation >= plan.generation:
                return current.value
            if self.compare_and_set(path, plan, None if current is None else current.version):
                return plan
        raise CoordinationUnavailableError(f"{path} changes faster than it can be replaced")

    def control_change(self, topology: str, change: Callable[[Control], Control]) -> Control:
        """Apply `change` to the control znode by compare and set; returns what is now in force."""
        path = Paths.control(topology)
        for _ in range(CONFLICTS):
            current = self.get(path, Control)
            before = Control() if current is None else current.value
            after = change(before)
            if current is not None and after == before:
                return before
            if self.compare_and_set(path, after, None if current is None else current.version):
                return after
        raise CoordinationUnavailableError(f"{path} changes faster than it can be replaced")

    def topology_facts(self, names: Iterable[str]) -> dict[str, TopologyFacts]:
        """Everything about several topologies, with pipelined reads."""
        kinds: tuple[tuple[Callable[[str], str], type[msgspec.Struct]], ...] = (
            (Paths.spec, DeployedSpec),
            (Paths.plan, Plan),
            (Paths.driver, DriverStatus),
            (Paths.latest_checkpoint, LatestCheckpoint),
        )
        wanted = sorted(names)
        values = self._get_all([(path(name), kind) for name in wanted for path, kind in kinds])
        facts: dict[str, TopologyFacts] = {}
        for index, name in enumerate(wanted):
            found: list[Any] = values[index * len(kinds) : (index + 1) * len(kinds)]
            facts[name] = TopologyFacts(name, *found)
        return facts

    # ---- nodes -----------------------------------------------------------------------------------

    def registrations(self) -> list[NodeRegistration]:
        """Every registered node; the session in each is that of the znode's owner. Leaves a watch."""
        owners: dict[str, str] = {}

        def owned(path: str, stat: Any) -> None:
            owner = stat.owner_session_id
            owners[path] = "" if owner is None else f"{owner:x}"

        names = self._children(Paths.NODES)
        found = self._get_all([(Paths.node(name), NodeRegistration) for name in names], seen=owned)
        return [
            msgspec.structs.replace(value, session=owners[Paths.node(value.id)] or value.session)
            for value in found
            if isinstance(value, NodeRegistration) and Paths.node(value.id) in owners
        ]

    def heartbeats(self, names: Iterable[str]) -> list[NodeStats]:
        values = self._get_all([(Paths.stats(name), NodeStats) for name in sorted(names)])
        return [value for value in values if isinstance(value, NodeStats)]

    def _children(self, path: str) -> list[str]:
        try:
            return sorted(self._wait(self.client.get_children_async(path, watch=self._watch), path))
        except NoNodeError:
            self._wait(self.client.exists_async(path, watch=self._watch), path)
            return []

    def _watch(self, event: WatchedEvent) -> None:
        if self._on_change is not None:
            self._on_change()

    # ---- shared ----------------------------------------------------------------------------------

    def _get_all(
        self,
        wanted: list[tuple[str, type[msgspec.Struct]]],
        *,
        seen: Callable[[str, Any], None] | None = None,
    ) -> list[msgspec.Struct | None]:
        pending = [(path, kind, self.client.get_async(path)) for path, kind in wanted]
        values: list[msgspec.Struct | None] = []
        for path, kind, result in pending:
            try:
                data, stat = self._wait(result, path)
            except NoNodeError:
                values.append(None)
                continue
            if seen is not None:
                seen(path, stat)
            values.append(_decoded(path, data, kind))
        return values

    def _wait(self, result: Any, path: str) -> Any:
        try:
            return result.get(timeout=CALL_LIMIT)
        except (NoNodeError, NodeExistsError, BadVersionError):
            raise
        except (KazooException, KazooTimeoutError, ConnectionError) as error:
            raise CoordinationUnavailableError(
                f"ZooKeeper at {self.hosts} did not answer for {path} ({error!r}); "
                "it is tried again, see the log of the process zookeeper"
            ) from error


def _decoded(path: str, data: bytes, kind: type[S]) -> S | None:
    try:
        return decode(data, kind)
    except msgspec.MsgspecError as error:
        log.error("unreadable value in zookeeper, ignored", path=path, error=str(error))
        return None


_lock = threading.Lock()
_clients: dict[int, Coordination] = {}


def coordination() -> Coordination:
    """The client of this process, for recovery tasks; made on first use (never in a parent that forks)."""
    with _lock:
        client = _clients.get(os.getpid())
        if client is None:
            settings = environment.read()
            client = _clients[os.getpid()] = Coordination(settings.zookeeper, settings.session_timeout)
    if not client.wait_connected(CALL_LIMIT):
        raise CoordinationUnavailableError(
            f"ZooKeeper at {client.hosts} cannot be reached; it is tried again, see the process zookeeper"
        )
    return client


def coordination_close() -> None:
    """End this process's client; part of a worker's orderly shutdown."""
    with _lock:
        client = _clients.pop(os.getpid(), None)
    if client is not None:
        client.close()
