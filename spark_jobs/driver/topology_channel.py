"""The driver's side of ZooKeeper: what it must do (plan, specification, control) and what it says of itself.

The session's callbacks only set a flag; the loop's thread reads. While ZooKeeper is away the driver goes on
with what it knows: its plan stays in force until a higher generation can be read.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import msgspec
import structlog

from coordination.paths import Paths
from coordination.session import CoordinationUnavailableError, Session
from domain.messages import (
    CheckpointAck,
    Control,
    DeployedSpec,
    DriverStatus,
    LatestCheckpoint,
    NodeRegistration,
    PartitionCosts,
    Plan,
    Replicas,
)
from spark_jobs.driver.only_driver import AnotherDriverError

log = structlog.get_logger()
REREAD_INTERVAL = 3.0
"""Seconds. Watches are hints; reading everything this often finds what one of them missed."""
NODE_GRACE = 1.0
"""Seconds in which a node whose session has ended may register again with a new one."""
NODES_INTERVAL = 0.3
"""Seconds between two readings of the registrations while a job runs."""
ADDRESSES_INTERVAL = 30.0
"""Seconds until the addresses of nodes that were registered all the time are read again: a node that began
anew elsewhere may have taken the place of its registration at once."""
CONNECT_LIMIT = 30.0


class TopologyChannel:
    """One ZooKeeper session. After `refresh()` the attributes hold what ZooKeeper last said."""

    def __init__(self, *, topology: str, hosts: str, session_timeout: float, secret: str = "") -> None:
        self.topology = topology
        self.session_timeout = session_timeout
        self.spec: DeployedSpec | None = None
        self.plan: Plan | None = None
        self.control = Control()
        self.replicas = Replicas()
        self.latest: LatestCheckpoint | None = None
        self.addresses: dict[str, str] = {}
        """Of every node that was ever registered, by name."""
        self.alive: frozenset[str] = frozenset()
        """Names of the registered nodes."""
        self.changed = threading.Event()
        """Set when there may be something to read; wakes the loop."""
        self.changed.set()
        self.superseded = 0
        """Process that holds the driver znode in the place of this one; 0 for none."""
        self._stale = False
        """A read or a publication failed, and `refresh` has to do it again."""
        self._read_at = 0.0
        self._reading_nodes = threading.Lock()
        self._nodes_read_at = 0.0
        self._addresses_read_at = 0.0
        self._left: set[str] = set()
        """Addresses at which nodes were that are at others now."""
        self._missing_since: dict[str, float] = {}
        self._status: DriverStatus | None = None
        self._published: DriverStatus | None = None
        self._acks: dict[str, CheckpointAck] = {}  # by path, as they were read last
        self._session = Session(
            hosts,
            session_timeout,
            secret=secret,
            on_state=lambda state: self.changed.set(),
            on_change=self.changed.set,
        )

    def connect(self) -> None:
        """Connect for the first time; raises when ZooKeeper cannot be reached in half a minute."""
        self._session.start()
        self._session.require_connected(CONNECT_LIMIT)

    def close(self) -> None:
        self._session.close()

    @property
    def connection(self) -> Session:
        """For what another thread of the driver reads and writes; a session may be used in any."""
        return self._session

    @property
    def session(self) -> str:
        return self._session.session

    # -- what is to be done --------------------------------------------------------------------------------

    def refresh(self, *, force: bool = False) -> bool:
        """Read again if something changed or some seconds went by; False while ZooKeeper is away."""
        due = self.changed.is_set() or self._stale or time.monotonic() - self._read_at > REREAD_INTERVAL
        if not (due or force):
            return True
        self.changed.clear()
        self._stale = True
        if not self._session.connected:
            self._session.check()
            return False
        try:
            self._read()
            self._read_nodes()
            self._stale = not self._publish()
        except CoordinationUnavailableError as error:
            log.warning("zookeeper call failed", error=str(error))
            return False
        self._read_at = time.monotonic()
        return True

    def _read(self) -> None:
        """What cannot be read now stays as it was."""
        kinds: list[tuple[str, type[msgspec.Struct]]] = [
            (Paths.spec(self.topology), DeployedSpec),
            (Paths.plan(self.topology), Plan),
            (Paths.control(self.topology), Control),
            (Paths.replicas(self.topology), Replicas),
            (Paths.latest_checkpoint(self.topology), LatestCheckpoint),
        ]
        found: list[Any] = [
            None if one is None else one.value for one in self._session.get_many(kinds, watch=True)
        ]
        spec, plan, control, replicas, latest = found
        self.spec = spec or self.spec
        if plan is not None and (self.plan is None or plan.generation > self.plan.generation):
            self.plan = plan
        self.control, self.replicas = control or self.control, replicas or self.replicas
        if latest is None and self.latest is not None:
            self.complete(self.latest)  # ZooKeeper lost its data; the checkpoint is still in storage
        self.latest = latest or self.latest

    def replicas_of(self, deployed: int) -> dict[str, str]:
        """Where replicas are to run in this deployment, by partition."""
        return self.replicas.assignment if self.replicas.deployed == deployed else {}

    def tentative_of(self, deployed: int) -> dict[str, float]:
        """Operators whose queries may give tentative output in this deployment -> the least fidelity."""
        return self.replicas.tentative if self.replicas.deployed == deployed else {}

    # -- nodes ---------------------------------------------------------------------------------------------

    def _read_nodes(self) -> None:
        with self._reading_nodes:
            self._nodes_read_at = time.monotonic()
            names = self._session.children(Paths.NODES, watch=True)
            if names is None:
                return
            alive, now = frozenset(names), time.monotonic()
            all_of_them = now - self._addresses_read_at > ADDRESSES_INTERVAL
            wanted = sorted(alive if all_of_them else alive - (self.alive & self.addresses.keys()))
            found = self._session.get_many([(Paths.node(name), NodeRegistration) for name in wanted])
            read = {
                name: one.value.address for name, one in zip(wanted, found, strict=True) if one is not None
            }
            self._left |= {self.addresses[name] for name in read if name in self.addresses}
            self.addresses |= read
            self._left.difference_update(self.addresses.values())
            self.alive = alive
            self._addresses_read_at = now if all_of_them else self._addresses_read_at
            # When no node at all is registered, ZooKeeper has rather lost its data than every node failed.
            missing = self.addresses.keys() - self.alive if self.alive else ()
            self._missing_since = {name: self._missing_since.get(name, now) for name in missing}

    def gone_addresses(self) -> frozenset[str]:
        """Addresses at which a node was registered and none is any more: it froze, is elsewhere now, or the
        network between is cut, and Spark may notice only after a minute. May be called in any thread; reads
        again when there is news, which the loop itself does not while a job runs."""
        news = self.changed.is_set() or self._stale
        if news and time.monotonic() - self._nodes_read_at > NODES_INTERVAL:
            try:
                if self._session.connected:
                    self._read_nodes()
            except CoordinationUnavailableError as error:
                log.warning("nodes not read", error=str(error))
        since = time.monotonic() - NODE_GRACE
        gone = {self.addresses[name] for name, missing in self._missing_since.items() if missing <= since}
        here = {self.addresses[name] for name in self.alive if name in self.addresses}
        return frozenset((gone | self._left) - here)

    # -- what the driver says of itself --------------------------------------------------------------------

    def wait_for_predecessor(self) -> None:
        """A driver killed a moment ago leaves its znode until its session ends; one that lives keeps it."""
        deadline = time.monotonic() + 3 * self.session_timeout + 2
        while self._has_driver():
            if time.monotonic() > deadline:
                raise AnotherDriverError(
                    f"another driver of {self.topology!r} is running; stop it before starting a second one"
                )
            time.sleep(0.1)

    def _has_driver(self) -> bool:
        """Whether there is a driver znode, as far as ZooKeeper can be asked."""
        try:
            return self._session.exists(Paths.driver(self.topology))
        except CoordinationUnavailableError:
            return True

    def publish(self, status: DriverStatus) -> None:
        """Keep the driver znode at this value; written again under every new session."""
        self._status = status
        try:
            if self._session.connected and not self._publish():
                self._stale = True
        except CoordinationUnavailableError as error:
            self._stale = True
            log.warning("driver status not written", error=str(error))

    def _publish(self) -> bool:
        """Claim the ephemeral znode, also in the place of one that an earlier session of this process left.
        False if another process holds it, unless that is a driver with a lower fencing number."""
        if self._status is None:
            return True
        status = msgspec.structs.replace(self._status, session=self.session)
        if status == self._published:
            return True
        path = Paths.driver(self.topology)
        if not self._session.claim(path, status, replaceable=lambda other: _precedes(other, status)):
            holder = self._session.get(path, DriverStatus)
            if holder is not None and not _precedes(holder.value, status):
                self.superseded = holder.value.pid
            log.warning("driver status not written: another process holds the znode", path=path)
            return False
        self.superseded = 0
        self._published = status
        return True

    # -- checkpoints and costs -----------------------------------------------------------------------------

    def acknowledgements(
        self, checkpoint: int, deployed: int, *, job: tuple[int, int] | None = None
    ) -> list[CheckpointAck]:
        """What the agents wrote so far of a deployment; empty while ZooKeeper is away. job: generation and
        attempt, of which each acknowledgement is read once, since it does not change; one with an error does,
        where the same checkpoint is tried again."""
        if not self._session.connected:
            return []
        path = Paths.acks(self.topology, checkpoint)
        known = {
            name: ack
            for name, ack in self._acks.items()
            if (ack.generation, ack.attempt) == job and not ack.error
        }
        try:
            names = [
                f"{path}/{name}"
                for name in self._session.children(path) or []
                if name.endswith(f".{deployed}")
            ]
            new = [name for name in names if name not in known]
            found = self._session.get_many([(name, CheckpointAck) for name in new])
        except CoordinationUnavailableError:
            return []
        known |= {name: one.value for name, one in zip(new, found, strict=True) if one is not None}
        self._acks = {name: known[name] for name in names if name in known}
        return [ack for ack in self._acks.values() if ack.deployed == deployed]

    def complete(self, latest: LatestCheckpoint) -> bool:
        """Make cp(P_k) the one to recover from; False if ZooKeeper did not take it."""
        try:
            self._session.put(Paths.latest_checkpoint(self.topology), latest)
        except CoordinationUnavailableError as error:
            log.warning("checkpoint pointer not written", error=str(error))
            return False
        self.latest = latest
        return True

    def reset_checkpoint(self) -> None:
        """Nothing is complete yet: the deployment is new. Raises if ZooKeeper does not take it."""
        self._session.delete_tree(Paths.checkpoints(self.topology))
        self.latest = None

    def forget_checkpoints(self, below: int) -> None:
        """Remove the acknowledgements of checkpoints older than `below`; what fails is removed next time."""
        if not self._session.connected:
            return
        path = Paths.checkpoints(self.topology)
        try:
            for name in self._session.children(path) or []:
                if name.isdigit() and int(name) < below:
                    self._session.delete_tree(f"{path}/{name}", depth=2)
        except CoordinationUnavailableError as error:
            log.warning("old acknowledgements not removed", error=str(error))

    def read_costs(self) -> PartitionCosts:
        """What the driver before this one had learnt; empty if that cannot be read."""
        try:
            found = self._session.get(Paths.costs(self.topology), PartitionCosts)
        except CoordinationUnavailableError:
            return {}
        return {} if found is None else found.value

    def write_costs(self, costs: PartitionCosts) -> None:
        """For the planner; measured and written again with the next checkpoint."""
        if not self._session.connected:
            return
        try:
            self._session.put(Paths.costs(self.topology), costs)
        except CoordinationUnavailableError as error:
            log.warning("costs not written", error=str(error))


def _precedes(holder: DriverStatus, status: DriverStatus) -> bool:
    """Whether a znode is of this process, or of a driver that worked on the same epoch log before it."""
    return holder.pid == status.pid or holder.life < status.life
