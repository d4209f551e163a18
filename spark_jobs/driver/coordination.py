"""The driver's side of ZooKeeper: what it must do (plan, specification, control) and what it says of itself.

kazoo's listeners only set a flag; the loop's thread reads. While ZooKeeper is away the driver goes on with
what it knows: its plan stays in force until a higher generation can be read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import structlog
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, WatchedEvent
from kazoo.retry import KazooRetry

from coordination.paths import Paths
from coordination.session_guard import SessionGuard
from domain.messages import (
    CheckpointAck,
    Control,
    DeployedSpec,
    DriverStatus,
    LatestCheckpoint,
    NodeRegistration,
    Plan,
    decode,
    encode,
)

log = structlog.get_logger()
REREAD_INTERVAL = 3.0
CALL_TIMEOUT = 5.0
# A node whose session ended may come back with a new one at once; one missing for longer is gone, in seconds.
NODE_GRACE = 1.0
NODES_INTERVAL = 0.3
UNAVAILABLE = (KazooException, KazooTimeoutError, ConnectionError)
S = TypeVar("S")


class AnotherDriverError(RuntimeError):
    """A living driver of this topology holds the driver znode."""


class Coordination:
    """One ZooKeeper session. After `refresh()` the attributes hold what ZooKeeper last said."""

    def __init__(self, *, topology: str, hosts: str, session_timeout: float) -> None:
        self.topology = topology
        self.session_timeout = session_timeout
        self.spec: DeployedSpec | None = None
        self.plan: Plan | None = None
        self.control = Control()
        self.latest: LatestCheckpoint | None = None
        self.addresses: dict[str, str] = {}
        self.alive: frozenset[str] = frozenset()
        self.changed = threading.Event()
        self.changed.set()
        self._read_at = 0.0
        self._reading_nodes = threading.Lock()
        self._nodes_read_at = 0.0
        self._missing_since: dict[str, float] = {}
        self._status: DriverStatus | None = None
        self._published: DriverStatus | None = None
        self._session = ""
        self.client = KazooClient(
            hosts=hosts,
            timeout=session_timeout,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, backoff=2, max_delay=1.0),
            command_retry=KazooRetry(max_tries=0),
        )
        self.client.add_listener(self._state_changed)
        self._guard = SessionGuard(self.client, session_timeout=session_timeout)

    def connect(self) -> None:
        """Connect for the first time; raises when ZooKeeper cannot be reached in half a minute."""
        try:
            self.client.start(timeout=30)
        except KazooTimeoutError as error:
            raise ConnectionError(
                f"ZooKeeper at {self.client.hosts} does not answer; start it or correct RESURGE_ZOOKEEPER"
            ) from error

    def close(self) -> None:
        self.client.stop()
        self.client.close()

    # Called in kazoo's threads: nothing but a flag.
    def _state_changed(self, state: str) -> None:
        self.changed.set()

    def _watch(self, event: WatchedEvent) -> None:
        self.changed.set()

    def _call(self, pending: Any) -> Any:
        """The result of an asynchronous call, with a bound: kazoo's own blocking calls can wait for ever when
        the connection breaks in the same moment."""
        return pending.get(timeout=CALL_TIMEOUT)

    @property
    def connected(self) -> bool:
        return bool(self.client.connected) and self.client.state == KazooState.CONNECTED

    @property
    def session(self) -> str:
        client_id = self.client.client_id
        return f"{client_id[0]:x}" if client_id else ""

    def refresh(self, *, force: bool = False) -> bool:
        """Read again if something changed or some seconds went by; False while ZooKeeper is away."""
        due = self.changed.is_set() or time.monotonic() - self._read_at > REREAD_INTERVAL
        if not (due or force):
            return True
        if not self.connected:
            self._guard.check()
            return False
        self.changed.clear()
        try:
            self.spec = self._get(Paths.spec(self.topology), DeployedSpec) or self.spec
            plan = self._get(Paths.plan(self.topology), Plan)
            if plan is not None and (self.plan is None or plan.generation > self.plan.generation):
                self.plan = plan
            self.control = self._get(Paths.control(self.topology), Control) or self.control
            latest = self._get(Paths.latest_checkpoint(self.topology), LatestCheckpoint)
            if latest is None and self.latest is not None:
                self.complete(self.latest)  # ZooKeeper lost its data; the checkpoint is still in storage
            self.latest = latest or self.latest
            self._read_nodes()
            self._publish()
        except UNAVAILABLE as error:
            self.changed.set()
            log.warning("zookeeper call failed", error=repr(error))
            return False
        self._read_at = time.monotonic()
        return True

    def _get(self, path: str, kind: type[S]) -> S | None:
        try:
            data, _ = self._call(self.client.get_async(path, watch=self._watch))
            return decode(data, kind)
        except NoNodeError:
            self._call(self.client.exists_async(path, watch=self._watch))
            return None
        except msgspec.MsgspecError as error:
            log.error("unreadable value in zookeeper, ignored", path=path, error=str(error))
            return None

    def _read_nodes(self) -> None:
        with self._reading_nodes:
            self._nodes_read_at = time.monotonic()
            try:
                names = self._call(self.client.get_children_async(Paths.NODES, watch=self._watch))
            except NoNodeError:
                self._call(self.client.exists_async(Paths.NODES, watch=self._watch))
                return
            self.alive = frozenset(names)
            for name in self.alive - self.addresses.keys():
                try:
                    data, _ = self._call(self.client.get_async(Paths.node(name)))
                except NoNodeError:
                    continue
                self.addresses[name] = decode(data, NodeRegistration).address
            # Nobody at all: rather a ZooKeeper that lost its data than a cluster that died in one moment.
            missing = self.addresses.keys() - self.alive if self.alive else ()
            now = time.monotonic()
            self._missing_since = {name: self._missing_since.get(name, now) for name in missing}

    def gone_addresses(self) -> frozenset[str]:
        """Addresses at which a node was registered and none is any more: it froze, or the network between is
        cut, and Spark may notice only after a minute. May be called in any thread; reads again when there is
        news, which the loop itself does not while a job runs."""
        if self.changed.is_set() and time.monotonic() - self._nodes_read_at > NODES_INTERVAL:
            try:
                if self.connected:
                    self._read_nodes()
            except UNAVAILABLE as error:
                log.warning("nodes not read", error=repr(error))
        since = time.monotonic() - NODE_GRACE
        gone = {self.addresses[name] for name, missing in self._missing_since.items() if missing <= since}
        return frozenset(gone - {self.addresses[name] for name in self.alive if name in self.addresses})

    def publish(self, status: DriverStatus) -> None:
        """Keep the driver znode at this value; written again under every new session."""
        self._status = status
        try:
            if self.connected:
                self._publish()
        except UNAVAILABLE as error:
            self.changed.set()
            log.warning("driver status not written", error=repr(error))

    def _publish(self) -> None:
        if self._status is None:
            return
        session = self.session
        status = msgspec.structs.replace(self._status, session=session)
        if status == self._published and session == self._session:
            return
        path = Paths.driver(self.topology)
        if session == self._session:
            self._call(self.client.set_async(path, encode(status)))
        else:
            self._claim(path, status)
            self._session = session
        self._published = status

    def _claim(self, path: str, status: DriverStatus) -> None:
        """Create the ephemeral znode, in the place of one that an earlier session of ours left."""
        try:
            self._call(self.client.create_async(path, encode(status), ephemeral=True, makepath=True))
        except NodeExistsError:
            try:
                data, stat = self._call(self.client.get_async(path))
                if decode(data, DriverStatus).pid == status.pid:
                    self._call(self.client.delete_async(path, version=stat.version))
            except NoNodeError:
                pass
            self._call(self.client.create_async(path, encode(status), ephemeral=True, makepath=True))

    def wait_for_predecessor(self) -> None:
        """A driver killed a moment ago leaves its znode until its session ends; one that lives keeps it."""
        deadline = time.monotonic() + 3 * self.session_timeout + 2
        while self._attempt(lambda: self._call(self.client.exists_async(Paths.driver(self.topology))), True):
            if time.monotonic() > deadline:
                raise AnotherDriverError(
                    f"another driver of {self.topology!r} is running; stop it before starting a second one"
                )
            time.sleep(0.1)

    def _attempt(self, call: Callable[[], S], otherwise: S) -> S:
        try:
            return call()
        except UNAVAILABLE:
            return otherwise

    def acknowledgements(self, checkpoint: int) -> list[CheckpointAck]:
        """What the agents wrote so far; empty while ZooKeeper is away."""
        path = Paths.acks(self.topology, checkpoint)
        try:
            names = self._call(self.client.get_children_async(path))
            return [
                decode(self._call(self.client.get_async(f"{path}/{name}"))[0], CheckpointAck)
                for name in names
            ]
        except NoNodeError:
            return []
        except UNAVAILABLE:
            return []

    def complete(self, latest: LatestCheckpoint) -> bool:
        """Make cp(P_k) the one to recover from; False if ZooKeeper did not take it."""
        path = Paths.latest_checkpoint(self.topology)
        try:
            self._call(self.client.ensure_path_async(path))
            self._call(self.client.set_async(path, encode(latest)))
        except UNAVAILABLE as error:
            log.warning("checkpoint pointer not written", error=repr(error))
            return False
        self.latest = latest
        return True

    def reset_checkpoint(self) -> None:
        """Nothing is complete yet: the deployment is new. Raises if ZooKeeper does not take it."""
        path = Paths.checkpoints(self.topology)
        self._call(self.client.ensure_path_async(path))
        for name in self._call(self.client.get_children_async(path)):
            self._delete_tree(f"{path}/{name}")
        self.latest = None

    def _delete_tree(self, path: str) -> None:
        try:
            for name in self._call(self.client.get_children_async(path)):
                self._delete_tree(f"{path}/{name}")
            self._call(self.client.delete_async(path))
        except NoNodeError:
            return

    def forget_checkpoints(self, below: int) -> None:
        """Remove the acknowledgements of checkpoints older than `below`."""
        path = Paths.checkpoints(self.topology)
        try:
            for name in self._call(self.client.get_children_async(path)):
                if name.isdigit() and int(name) < below:
                    self._delete_tree(f"{path}/{name}")
        except UNAVAILABLE:
            return  # the next checkpoint tries again

    def read_costs(self) -> dict[str, float]:
        """What the driver before this one had learnt; empty if that cannot be read."""
        try:
            data, _ = self._call(self.client.get_async(Paths.costs(self.topology)))
            return msgspec.json.decode(data, type=dict[str, float])
        except (NoNodeError, *UNAVAILABLE, msgspec.DecodeError):
            return {}

    def write_costs(self, costs: dict[str, float]) -> None:
        """CPU seconds per second of each partition, for the planner."""
        path = Paths.costs(self.topology)
        try:
            self._call(self.client.ensure_path_async(path))
            self._call(self.client.set_async(path, msgspec.json.encode(costs)))
        except UNAVAILABLE:
            return  # measured again with the next checkpoint
