"""The one kind of ZooKeeper session, which agents, drivers and workers share: typed values, bounded calls.

kazoo's own blocking calls wait for as long as ZooKeeper is away, and one made in the moment the connection
breaks can wait for ever. Here every method ends within `CALL_DEADLINE`, with a result or with
`CoordinationUnavailableError`. Only the connection is retried, never a call: a write whose answer was lost
may have been carried out, so the caller reads again and decides in its next round.

kazoo runs listeners and watches in its own threads, where a blocking call deadlocks. The callbacks given to
`Session` are called there and may only set a flag or put something into a queue. These threads do not survive
a fork either: a session belongs to the process that started it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

import msgspec
import structlog
from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, WatchedEvent, ZnodeStat
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL

from coordination.packing import LARGEST_PACKED, packed, unpacked
from coordination.session_guard import SessionGuard
from domain.messages import PartitionCosts, UnreadableValueError, decode, encode

log = structlog.get_logger(__name__)

REFUSED_KEPT = 10_000
"""Paths of values that were refused, so that each is told once."""

CALL_DEADLINE = 5.0
"""Seconds within which each method of a session ends, however many requests it makes."""

USER = "resurge"
"""The name under which ZooKeeper knows a secret. It keeps a hash of both."""

Value = msgspec.Struct | PartitionCosts
S = TypeVar("S", bound=Value)


class CoordinationUnavailableError(ConnectionError):
    """ZooKeeper did not answer in time. A read has no result; a write may have been carried out or not."""


class CoordinationRefusedError(CoordinationUnavailableError):
    """The znode is of holders of another secret, or the value too large; trying again is of no use."""


class SessionState(StrEnum):
    CONNECTED = KazooState.CONNECTED
    SUSPENDED = KazooState.SUSPENDED
    """The connection is down; the server may still keep the session and its ephemeral znodes."""
    LOST = KazooState.LOST
    """The session has ended, and its ephemeral znodes and watches are gone."""


@dataclass(frozen=True, slots=True)
class Stored(Generic[S]):
    """What a znode holds."""

    value: S
    owner: str
    """Hexadecimal id of the session that an ephemeral znode belongs to; empty for a persistent one."""
    version: int = 0
    """The transaction that wrote it."""
    created: int = 0
    """The transaction that created the znode."""


class Session:
    """Connects after `start()` and stays connected or reconnects until `close()`."""

    def __init__(
        self,
        hosts: str,
        session_timeout: float,
        *,
        secret: str = "",
        on_state: Callable[[SessionState], None] | None = None,
        on_change: Callable[[], None] | None = None,
        on_refused: Callable[[str, str], None] | None = None,
    ) -> None:
        """`on_change` is called when something read with `watch=True` has changed. Watches are lost with the
        session, so after `CONNECTED` everything must be read again. What this session creates can be read and
        changed by sessions with the same `secret` only; without one, by every client of the server.
        `on_refused`: called with the path and what is wrong, once for each value that is written there and
        cannot be used, in the thread that read it."""
        self.hosts = hosts
        self._on_refused = on_refused
        self._refused: dict[str, int] = {}
        self._on_state = on_state
        self._on_change = on_change
        self._up = threading.Event()
        self._away_since = time.monotonic()
        self._client = KazooClient(
            hosts=hosts,
            timeout=session_timeout,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, backoff=2, max_delay=1.0),
            command_retry=KazooRetry(max_tries=0),
            # Sent anew with each connection, before anything else.
            auth_data=[("digest", f"{USER}:{secret}")] if secret else None,
            default_acl=CREATOR_ALL_ACL if secret else None,
        )
        self._secret = bool(secret)
        self._client.add_listener(self._state_changed)
        self._guard = SessionGuard(self._client, session_timeout=session_timeout)
        self._guarding = threading.Lock()

    # ---- the connection --------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to connect; returns at once."""
        self._client.start_async()

    def close(self) -> None:
        """End the session, which removes its ephemeral znodes at once. Also where `start` was interrupted."""
        try:
            self._client.stop()
        except AttributeError:
            # kazoo wakes its connection by a socket, which one that was not begun does not have. It has ended
            # its threads by now.
            log.debug("the connection to zookeeper was never begun")
        self._client.close()

    def check(self) -> None:
        """Replace a session that a server without its data would refuse for ever. Call it about once a second
        while the session is not connected, in a thread of your own, never from a callback."""
        if self._guarding.acquire(blocking=False):
            try:
                self._guard.check()
            finally:
                self._guarding.release()

    @property
    def connected(self) -> bool:
        return self._up.is_set() and bool(self._client.connected)

    @property
    def session(self) -> str:
        """The hexadecimal session id; empty before there is one."""
        client_id = self._client.client_id
        return f"{client_id[0]:x}" if client_id else ""

    @property
    def away(self) -> float:
        """Seconds since the connection was lost, or first asked for; 0.0 while there is one."""
        return 0.0 if self._up.is_set() else time.monotonic() - self._away_since

    def wait_connected(self, limit: float) -> bool:
        return self._up.wait(limit)

    def require_connected(self, limit: float) -> None:
        """Wait until connected; raises `CoordinationUnavailableError` after `limit` seconds."""
        if not self.wait_connected(limit):
            self.check()
            raise CoordinationUnavailableError(
                f"ZooKeeper at {self.hosts} cannot be reached: start the process zookeeper or correct "
                "RESURGE_ZOOKEEPER"
            )

    # Called in kazoo's threads.
    def _state_changed(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._up.set()
        elif self._up.is_set():
            self._away_since = time.monotonic()
            self._up.clear()
        if self._on_state is not None:
            self._on_state(SessionState(state))

    # Called in kazoo's threads. The same bound method for every watch, which kazoo then keeps once per path.
    def _changed(self, event: WatchedEvent) -> None:
        if self._on_change is not None:
            self._on_change()

    # ---- reading ---------------------------------------------------------------------------------

    def get(self, path: str, kind: type[S], *, watch: bool = False) -> Stored[S] | None:
        """The value at `path`; None where there is no znode, or one that cannot be read as `kind`."""
        return self.get_many([(path, kind)], watch=watch)[0]

    def get_many(
        self, wanted: Sequence[tuple[str, type[S]]], *, watch: bool = False
    ) -> list[Stored[S] | None]:
        """As `get`, for several paths in one round trip; results in the order of `wanted`."""
        found = self._read([path for path, _ in wanted], self._begin(), watch=watch)
        return [
            None if (znode := found[path]) is None else self._stored(path, znode, kind)
            for path, kind in wanted
        ]

    def children(self, path: str, *, watch: bool = False) -> list[str] | None:
        """Names of the children, ascending; None where there is no such znode."""
        deadline = self._begin()
        seen = self._changed if watch else None
        while True:
            try:
                call = self._client.get_children_async(path, watch=seen)
                return sorted(self._result(call, path, deadline))
            except NoNodeError:
                if not watch or not self._watch_missing([path], deadline):
                    return None

    def exists(self, path: str) -> bool:
        deadline = self._begin()
        return self._result(self._client.exists_async(path), path, deadline) is not None

    def _read(
        self, paths: Iterable[str], deadline: float, *, watch: bool = False
    ) -> dict[str, tuple[bytes, ZnodeStat] | None]:
        seen = self._changed if watch else None
        found: dict[str, tuple[bytes, ZnodeStat] | None] = {}
        left = list(dict.fromkeys(paths))
        while left:
            calls = [(path, self._client.get_async(path, watch=seen)) for path in left]
            found.update(self._results(calls, deadline))
            missing = [path for path in left if found[path] is None]
            left = self._watch_missing(missing, deadline) if watch else []
        return found

    def _watch_missing(self, paths: list[str], deadline: float) -> list[str]:
        """Watch for the creation of znodes that were missing; returns those that exist by now."""
        calls = [(path, self._client.exists_async(path, watch=self._changed)) for path in paths]
        return [path for path, stat in self._results(calls, deadline).items() if stat is not None]

    def refuse(self, path: str, why: str, *, version: int) -> None:
        """The value that was written there by this transaction cannot be used: tell it, once."""
        if self._refused.get(path) == version:
            return
        if len(self._refused) >= REFUSED_KEPT:
            self._refused.clear()
        self._refused[path] = version
        log.error("unusable value in zookeeper, ignored", path=path, error=why)
        if self._on_refused is not None:
            self._on_refused(path, why)

    def _stored(self, path: str, znode: tuple[bytes, ZnodeStat], kind: type[S]) -> Stored[S] | None:
        data, stat = znode
        try:
            value = decode(unpacked(data), kind)
        except UnreadableValueError as error:
            self.refuse(path, str(error), version=stat.mzxid)
            return None
        return Stored(value, _owner(stat), stat.mzxid, stat.czxid)

    # ---- writing ---------------------------------------------------------------------------------

    def put(self, path: str, value: Value, *, new: bool = False) -> None:
        """Set the value; a missing znode is created with its parents. new: it is missing, most likely, so
        that it is created first, which takes one request instead of two."""
        data, deadline = _packed(path, value), self._begin()
        if new and self._create(path, data, deadline):
            return
        while True:
            try:
                self._result(self._client.set_async(path, data), path, deadline)
                return
            except NoNodeError:
                if self._create(path, data, deadline):
                    return

    def change(self, path: str, kind: type[S], decide: Callable[[S | None], S]) -> S:
        """Replace the value by `decide(value)`, unless that is the same; returns what is in force then.
        `decide` gets None where there is no readable value. It is called again if another process has
        written meanwhile."""
        deadline = self._begin()
        while True:
            znode = self._read([path], deadline)[path]
            stored = None if znode is None else self._stored(path, znode, kind)
            before = None if stored is None else stored.value
            after = decide(before)
            if before is not None and after == before:
                return before
            version = None if znode is None else znode[1].version
            if self._replace(path, _packed(path, after), version, deadline):
                return after

    def claim(self, path: str, value: S, *, replaceable: Callable[[S], bool] | None = None) -> bool:
        """Hold an ephemeral znode with this value. One that belongs to another session, such as an earlier
        one of this process, is deleted and created anew; with `replaceable`, only if that holds for its
        value. False if it is kept, or has changed meanwhile."""
        data, deadline = _packed(path, value), self._begin()
        znode = self._read([path], deadline)[path]
        if znode is not None:
            owner, version = _owner(znode[1]), znode[1].version
            if owner and owner == self.session:
                return self._replace(path, data, version, deadline)
            if replaceable is not None:
                stored = self._stored(path, znode, type(value))
                if stored is None or not replaceable(stored.value):
                    return False
            try:
                self._result(self._client.delete_async(path, version=version), path, deadline)
            except BadVersionError:
                return False
            except NoNodeError:
                pass  # its session has ended just now
        return self._create(path, data, deadline, ephemeral=True)

    def release(self, path: str) -> None:
        """Delete an ephemeral znode that this session holds; one of another session stays."""
        deadline = self._begin()
        while True:
            znode = self._read([path], deadline)[path]
            if znode is None or not self.session or _owner(znode[1]) != self.session:
                return
            try:
                self._results([(path, self._client.delete_async(path, version=znode[1].version))], deadline)
                return
            except BadVersionError:
                continue  # another thread of this process, or a session that took it, has written meanwhile

    def delete_tree(self, path: str, *, depth: int | None = None) -> None:
        """Delete a znode, if it is there, and everything below it. depth: how many levels that is, most
        likely; then the lowest ones are not asked for what is below them."""
        deadline = self._begin()
        while True:
            levels = [[path]]
            while levels[-1] and (depth is None or len(levels) <= depth):
                listings = [(one, self._client.get_children_async(one)) for one in levels[-1]]
                found = self._results(listings, deadline)
                levels.append([f"{one}/{name}" for one, names in found.items() for name in names or ()])
            try:
                for level in reversed(levels):
                    self._results([(one, self._client.delete_async(one)) for one in level], deadline)
            except NotEmptyError:
                depth = None
                continue  # it has more levels, or another process has created something below it meanwhile
            return

    def restrict(self, tree: str, alone: Iterable[str] = ()) -> None:
        """Have only holders of this session's secret read and change the znodes at and below `tree`, which is
        created, and those of `alone`, which other sessions may have made. Does nothing without a secret."""
        if not self._secret:
            return
        deadline = self._begin()
        self._restrict(alone, deadline)
        self._create(tree, b"", deadline)
        level = [tree]
        while level:
            self._restrict(level, deadline)
            listings = [(one, self._client.get_children_async(one)) for one in level]
            found = self._results(listings, deadline)
            level = [f"{one}/{name}" for one, names in found.items() for name in names or ()]

    def _restrict(self, paths: Iterable[str], deadline: float) -> None:
        calls = [(path, self._client.set_acls_async(path, CREATOR_ALL_ACL)) for path in paths]
        self._results(calls, deadline)

    def _create(self, path: str, data: bytes, deadline: float, *, ephemeral: bool = False) -> bool:
        call = self._client.create_async(path, data, ephemeral=ephemeral, makepath=True)
        try:
            self._result(call, path, deadline)
        except NodeExistsError:
            return False
        return True

    def _replace(self, path: str, data: bytes, version: int | None, deadline: float) -> bool:
        if version is None:
            return self._create(path, data, deadline)
        try:
            self._result(self._client.set_async(path, data, version=version), path, deadline)
        except (BadVersionError, NoNodeError):
            return False
        return True

    # ---- calls -----------------------------------------------------------------------------------

    def _begin(self) -> float:
        """Wait for the connection; returns when the call that begins now has to end. Without a connection
        kazoo would keep the request, and send it long after the caller has given it up."""
        deadline = time.monotonic() + CALL_DEADLINE
        if not self.wait_connected(CALL_DEADLINE):
            raise CoordinationUnavailableError(
                f"ZooKeeper at {self.hosts} did not answer in {CALL_DEADLINE:.0f} s (no connection); "
                "see the log of the process zookeeper"
            )
        return deadline

    def _results(self, calls: list[tuple[str, Any]], deadline: float) -> dict[str, Any]:
        """Results of requests sent together, by path; None where there is no such znode."""
        results: dict[str, Any] = {}
        for path, call in calls:
            try:
                results[path] = self._result(call, path, deadline)
            except NoNodeError:
                results[path] = None
        return results

    def _result(self, call: Any, path: str, deadline: float) -> Any:
        try:
            return call.get(timeout=max(deadline - time.monotonic(), 0.0))
        except (NoNodeError, NodeExistsError, BadVersionError, NotEmptyError):
            raise
        except NoAuthError as error:
            raise CoordinationRefusedError(
                f"ZooKeeper at {self.hosts} refuses {path}: this tree was made with another "
                "RESURGE_ZOOKEEPER_SECRET; every process needs the same, which run/environment holds"
            ) from error
        except (KazooException, KazooTimeoutError, ConnectionError) as error:
            raise CoordinationUnavailableError(
                f"ZooKeeper at {self.hosts} did not answer for {path} ({error!r}); "
                "see the log of the process zookeeper"
            ) from error


def _packed(path: str, value: Value) -> bytes:
    """Raises `CoordinationRefusedError` for what a server would not take."""
    data = packed(encode(value))
    if len(data) > LARGEST_PACKED:
        raise CoordinationRefusedError(
            f"the value of {path} has {len(data)} bytes, compressed, and {LARGEST_PACKED} are possible: give "
            "the topology fewer partitions"
        )
    return data


def _owner(stat: ZnodeStat) -> str:
    owner = stat.owner_session_id
    return "" if owner is None else f"{owner:x}"
