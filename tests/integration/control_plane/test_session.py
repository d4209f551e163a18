"""`coordination.session` against a real ZooKeeper."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from kazoo.client import KazooClient
from structlog.testing import capture_logs

from coordination.paths import ROOT, Paths
from coordination.session import (
    CALL_DEADLINE,
    CoordinationUnavailableError,
    Session,
    SessionState,
)
from domain.messages import Control, NodeStats, PartitionCosts
from harness.freezing import freeze
from tests.integration.control_plane.stack import Stack
from tests.unit.controlplane.incidents.places import registration

pytestmark = pytest.mark.integration

TIMEOUT = 4.0


@pytest.fixture
def session(servers: Stack) -> Iterator[Session]:
    """A connected session on an empty tree."""
    with closing(_connected(f"127.0.0.1:{servers.ports['zookeeper']}")) as made:
        made.delete_tree(ROOT)
        yield made


def _connected(hosts: str) -> Session:
    made = Session(hosts, TIMEOUT)
    made.start()
    made.require_connected(30)
    return made


def _put(session: Session, path: str, value: NodeStats, *, within: float) -> None:
    """A server that goes on ends a session that is too old, maybe just after it took the connection again:
    then this call fails, and the next one has a new session."""
    deadline = time.monotonic() + within
    while True:
        try:
            return session.put(path, value)
        except CoordinationUnavailableError:
            if time.monotonic() > deadline:
                raise


def test_values_are_typed(session: Session) -> None:
    path = Paths.control("t")
    assert session.get(path, Control) is None
    session.put(path, Control(checkpoint_request=1))
    assert session.get(path, Control).value.checkpoint_request == 1  # type: ignore[union-attr]
    session.put(path, Control(paused=True))
    assert session.get(path, Control).value == Control(paused=True)  # type: ignore[union-attr]
    for value in (Control(checkpoint_request=2), Control(checkpoint_request=3)):
        session.put(Paths.control("new"), value, new=True)
        assert session.get(Paths.control("new"), Control).value == value  # type: ignore[union-attr]
    session.put(Paths.costs("t"), {"O0[0]": 0.5})
    assert session.get(Paths.costs("t"), PartitionCosts).value == {"O0[0]": 0.5}  # type: ignore[union-attr]


def test_a_value_created_meanwhile_is_not_overwritten(session: Session) -> None:
    path = Paths.control("t")
    seen: list[Control | None] = []

    def raised(current: Control | None) -> Control:
        seen.append(current)
        if current is None:
            session.put(path, Control(checkpoint_request=5, paused=True))
            return Control(checkpoint_request=1)
        return Control(checkpoint_request=current.checkpoint_request + 1, paused=current.paused)

    assert session.change(path, Control, raised) == Control(checkpoint_request=6, paused=True)
    assert seen == [None, Control(checkpoint_request=5, paused=True)]


def test_a_change_made_meanwhile_is_not_lost(session: Session) -> None:
    path = Paths.control("t")
    session.put(path, Control(checkpoint_request=1))
    seen: list[Control | None] = []

    def raised(current: Control | None) -> Control:
        seen.append(current)
        if len(seen) == 1:
            session.put(path, Control(checkpoint_request=5, paused=True))
        assert current is not None
        return Control(checkpoint_request=current.checkpoint_request + 1, paused=current.paused)

    assert session.change(path, Control, raised) == Control(checkpoint_request=6, paused=True)
    assert [one.checkpoint_request for one in seen if one] == [1, 5]


def test_an_unreadable_value_is_logged_and_none(session: Session, raw: KazooClient) -> None:
    path = Paths.control("t")
    raw.create(path, b"{nonsense", makepath=True)
    raw.create(Paths.control("u"), b'{"paused": "perhaps"}', makepath=True)
    session.put(Paths.control("v"), Control(paused=True))
    with capture_logs() as logs:
        found = session.get_many([(Paths.control(name), Control) for name in "tuvw"])
    assert [one and one.value for one in found] == [None, None, Control(paused=True), None]
    assert [(entry["log_level"], entry["path"]) for entry in logs] == [
        ("error", path),
        ("error", Paths.control("u")),
    ]
    assert "paused must be true or false" in logs[1]["error"]
    assert session.change(path, Control, lambda current: current or Control()) == Control()


def test_a_watch_signals_what_is_created_changed_and_listed(session: Session) -> None:
    changed = threading.Event()
    with closing(Session(session.hosts, TIMEOUT, on_change=changed.set)) as other:
        other.start()
        other.require_connected(30)
        path = Paths.control("t")
        assert other.get(path, Control, watch=True) is None
        assert other.children(Paths.NODES, watch=True) is None
        writes: list[Callable[[], None]] = [
            lambda: session.put(path, Control()),
            lambda: session.put(path, Control(paused=True)),
            lambda: session.put(Paths.node("node-1"), registration("node-1")),
            lambda: session.put(Paths.node("node-2"), registration("node-2")),
        ]
        for write in writes:
            changed.clear()
            write()
            assert changed.wait(10)
            assert other.get(path, Control, watch=True) is not None
            other.children(Paths.NODES, watch=True)
        assert other.children(Paths.NODES) == ["node-1", "node-2"]


def test_an_ephemeral_znode_of_an_earlier_session_is_replaced(session: Session) -> None:
    path = Paths.node("node-1")
    with closing(_connected(session.hosts)) as earlier:
        assert earlier.claim(path, registration("node-1", pid=1))
        assert not session.claim(
            path, registration("node-1", pid=2), replaceable=lambda other: other.pid == 2
        )
        assert session.claim(path, registration("node-1", pid=2), replaceable=lambda other: other.pid == 1)
        assert session.claim(path, registration("node-1", pid=3)), "its own is only set"
    found = session.get(path, type(registration("node-1")))
    assert found is not None, "the znode no longer belongs to the session that has ended"
    assert (found.value.pid, found.owner) == (3, session.session)


def test_an_unreadable_znode_is_only_replaced_without_a_condition(session: Session, raw: KazooClient) -> None:
    path = Paths.node("node-1")
    raw.create(path, b"{nonsense", makepath=True)
    assert not session.claim(path, registration("node-1"), replaceable=lambda other: True)
    assert session.claim(path, registration("node-1"))


@pytest.mark.parametrize("depth", [None, 0, 2, 3, 9])
def test_a_tree_is_deleted_with_everything_in_it(session: Session, depth: int | None) -> None:
    """Also where it has more levels than was said."""
    session.delete_tree(Paths.checkpoints("t"))
    for partition in ("O0-0", "O0-1"):
        for checkpoint in (10, 20):
            session.put(Paths.ack("t", checkpoint, partition, 1), Control())
    session.delete_tree(Paths.checkpoints("t"), depth=depth)
    assert not session.exists(Paths.checkpoints("t"))
    assert session.exists(Paths.topology("t"))


def test_a_zookeeper_that_is_away_is_an_error_in_time() -> None:
    with closing(Session("127.0.0.1:1", TIMEOUT)) as session:
        session.start()
        started = time.monotonic()
        with pytest.raises(CoordinationUnavailableError, match="did not answer"):
            session.get(Paths.control("t"), Control)
        assert time.monotonic() - started < 6
        assert not session.connected
        assert session.session == ""


def test_a_server_that_stops_in_the_middle_of_a_call_is_an_error_in_time(
    servers: Stack, session: Session
) -> None:
    """The process is frozen, so the connection stays open and no answer comes."""
    states: queue.SimpleQueue[SessionState] = queue.SimpleQueue()
    stats = NodeStats(id="n", at=0.0, session="s", cpu_percent=0.0, memory_bytes=0, disk_free_bytes=0)
    with closing(Session(session.hosts, TIMEOUT, on_state=states.put)) as other:
        other.start()
        assert states.get(timeout=30) == SessionState.CONNECTED
        frozen = freeze([servers.processes["zookeeper"].pid])
        assert frozen.stopped == 1
        try:
            for call in (
                lambda: other.put(Paths.stats("n"), stats),
                lambda: other.get_many([(Paths.stats(f"n{i}"), NodeStats) for i in range(50)]),
            ):
                started = time.monotonic()
                with pytest.raises(CoordinationUnavailableError, match=r"127\.0\.0\.1:\d+ did not answer"):
                    call()
                assert time.monotonic() - started < CALL_DEADLINE + 1
            assert states.get(timeout=30) == SessionState.SUSPENDED
        finally:
            frozen.go_on()
        _put(other, Paths.stats("n"), stats, within=30)
