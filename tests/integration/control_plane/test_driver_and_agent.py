"""The driver's and the agent's side of ZooKeeper, against a real server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import msgspec
import pytest
from kazoo.client import KazooClient

from coordination.paths import ROOT, Paths
from coordination.session import Session, Stored
from domain.messages import (
    CheckpointAck,
    Control,
    DeployedSpec,
    DriverStatus,
    LatestCheckpoint,
    NodeRegistration,
    NodeStats,
    Plan,
    SparkApplication,
)
from spark_jobs.agent import membership
from spark_jobs.agent.membership import NodeIdentity, NodeMembership
from spark_jobs.agent.statistics import NodeUsage
from spark_jobs.driver import topology_channel
from spark_jobs.driver.only_driver import AnotherDriverError
from spark_jobs.driver.topology_channel import TopologyChannel
from supervision.readiness import wait_until
from tests.integration.control_plane.stack import Stack
from tests.unit.controlplane.incidents.places import registration

pytestmark = pytest.mark.integration


@pytest.fixture
def session(servers: Stack) -> Iterator[Session]:
    """The other processes: a connected session on an empty tree."""
    with closing(opened(f"127.0.0.1:{servers.ports['zookeeper']}")) as made:
        made.delete_tree(ROOT)
        yield made


@pytest.fixture
def channel(session: Session) -> Iterator[TopologyChannel]:
    with closing(TopologyChannel(topology="t", hosts=session.hosts, session_timeout=1.0)) as made:
        made.connect()
        assert made.refresh(force=True)
        yield made


def opened(hosts: str) -> Session:
    made = Session(hosts, 4.0)
    made.start()
    made.require_connected(30)
    return made


def refreshed(channel: TopologyChannel, condition: Callable[[], object], what: str) -> None:
    """Wait as the loop does, for the signal of a watch."""

    def holds() -> bool:
        channel.refresh()
        return bool(condition())

    wait_until(holds, what=what, timeout=20)


def plan(generation: int) -> Plan:
    return Plan(generation=generation, kind="deploy", assignment={"O0[0]": "node-1"})


def ack(index: int) -> CheckpointAck:
    return CheckpointAck(
        partition=f"O0[{index}]", checkpoint=30, generation=1, node="node-1", size_bytes=index,
        uploaded_bytes=0, files=1, duration=0.1, deployed=4,
    )  # fmt: skip


def status(pid: int, life: int = 0) -> DriverStatus:
    return DriverStatus(
        topology="t", pid=pid, session="", life=life, generation=1, state="running", head=1, committed=1,
        checkpoint=0, at=1.0,
    )  # fmt: skip


def deployed(name: str, desired: Any = "running") -> DeployedSpec:
    return DeployedSpec(name=name, version=1, spec={}, desired=desired)


# ---- the driver ----------------------------------------------------------------------------------


def test_the_driver_follows_plans_upwards_and_keeps_what_it_cannot_read(
    session: Session, channel: TopologyChannel, raw: KazooClient
) -> None:
    session.put(Paths.plan("t"), plan(3))
    session.put(Paths.control("t"), Control(checkpoint_request=2))
    refreshed(channel, lambda: channel.plan == plan(3) and channel.control.checkpoint_request == 2, "plan 3")
    session.put(Paths.plan("t"), plan(2))
    raw.set(Paths.control("t"), b"{nonsense")
    session.put(Paths.spec("t"), deployed("t"))
    refreshed(channel, lambda: channel.spec, "the specification")
    assert channel.plan == plan(3)
    assert channel.control == Control(checkpoint_request=2)


def test_acknowledgements_are_those_that_can_be_read(
    session: Session, channel: TopologyChannel, raw: KazooClient
) -> None:
    assert channel.acknowledgements(30, 4) == []
    for index in range(40):
        session.put(Paths.ack("t", 30, f"O0-{index}", 4), ack(index))
    raw.create(Paths.ack("t", 30, "O1-0", 4), b"{nonsense")
    found = channel.acknowledgements(30, 4)
    assert sorted(found, key=lambda one: one.size_bytes) == [ack(index) for index in range(40)]
    channel.forget_checkpoints(below=30)
    assert len(channel.acknowledgements(30, 4)) == 40
    channel.forget_checkpoints(below=31)
    assert channel.acknowledgements(30, 4) == []


def test_acknowledgements_of_a_job_are_read_once(
    session: Session, channel: TopologyChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    get_many = Session.get_many

    def counted(self: Session, wanted: Any, **more: Any) -> Any:
        asked.append(len(wanted))
        return get_many(self, wanted, **more)

    monkeypatch.setattr(Session, "get_many", counted)
    job = (ack(0).generation, ack(0).attempt)
    earlier = msgspec.structs.replace(ack(2), attempt=job[1] + 1)
    session.put(Paths.ack("t", 30, "O0-0", 4), ack(0))
    session.put(Paths.ack("t", 30, "O0-2", 4), earlier)
    assert channel.acknowledgements(30, 4, job=job) == [ack(0), earlier]
    session.put(Paths.ack("t", 30, "O0-1", 4), ack(1))
    session.put(Paths.ack("t", 30, "O0-2", 4), ack(2), new=True)
    for _ in range(2):
        assert channel.acknowledgements(30, 4, job=job) == [ack(0), ack(1), ack(2)]
    assert asked == [2, 2, 0], "that of another job is read again"
    session.put(Paths.ack("t", 31, "O0-0", 4), ack(3))
    assert channel.acknowledgements(31, 4, job=job) == [ack(3)], "of another checkpoint"


def test_acknowledgements_of_an_earlier_deployment_do_not_count(
    session: Session, channel: TopologyChannel
) -> None:
    """A node that returns uploads what it kept; generations and epochs may be those of the present run."""
    for deployed in (4, 3, 14, 0):
        acknowledged = msgspec.structs.replace(ack(0), deployed=deployed)
        session.put(Paths.ack("t", 30, "O0-0", deployed), acknowledged)
    assert [one.deployed for one in channel.acknowledgements(30, 4)] == [4]


def test_the_checkpoint_pointer_is_written_again_when_zookeeper_lost_it(
    session: Session, channel: TopologyChannel
) -> None:
    latest = LatestCheckpoint(checkpoint=30, generation=1, completed_at=1.0, size_bytes=1)
    assert channel.complete(latest)
    channel.write_costs({"O0[0]": 0.5})
    assert channel.read_costs() == {"O0[0]": 0.5}
    session.delete_tree(ROOT)
    assert channel.refresh(force=True)
    found = session.get(Paths.latest_checkpoint("t"), LatestCheckpoint)
    assert found is not None
    assert found.value == channel.latest == latest
    channel.reset_checkpoint()
    assert channel.refresh(force=True), "and does not bring the pointer back"
    assert session.get(Paths.latest_checkpoint("t"), LatestCheckpoint) is None


def test_a_node_is_gone_after_its_grace_and_not_when_all_registrations_are(
    session: Session, channel: TopologyChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (
        msgspec.structs.replace(registration(f"node-{i}"), address=f"127.0.1.{i}") for i in (1, 2)
    )
    assert session.claim(Paths.node("node-1"), first)
    with closing(opened(session.hosts)) as other:
        assert other.claim(Paths.node("node-2"), second)
        refreshed(channel, lambda: channel.alive == {"node-1", "node-2"}, "both nodes")
        assert channel.addresses == {"node-1": "127.0.1.1", "node-2": "127.0.1.2"}
    monkeypatch.setattr(topology_channel, "NODE_GRACE", 1e9)
    refreshed(channel, lambda: channel.alive == {"node-1"}, "one node")
    assert channel.gone_addresses() == frozenset()
    monkeypatch.setattr(topology_channel, "NODE_GRACE", 0.0)
    assert channel.gone_addresses() == {"127.0.1.2"}
    assert session.claim(Paths.node("node-2"), second)
    wait_until(lambda: not channel.gone_addresses(), what="it is back, seen while a job runs", timeout=20)
    session.delete_tree(Paths.node("node-1"))
    session.delete_tree(Paths.node("node-2"))
    refreshed(channel, lambda: not channel.alive, "no node")
    assert channel.gone_addresses() == frozenset()


def test_only_one_driver_holds_the_znode(session: Session, channel: TopologyChannel) -> None:
    path = Paths.driver("t")
    with closing(opened(session.hosts)) as other:
        assert other.claim(path, status(pid=1))
        with pytest.raises(AnotherDriverError, match="another driver of 't'"):
            channel.wait_for_predecessor()
        channel.publish(status(pid=2))
        assert session.get(path, DriverStatus).value.pid == 1  # type: ignore[union-attr]
        assert channel.superseded == 1, "it has to end"
    channel.wait_for_predecessor()
    refreshed(channel, lambda: session.exists(path), "the status is published as soon as it can be")
    found = session.get(path, DriverStatus)
    assert found is not None
    assert (found.value.pid, found.owner) == (2, channel.session)
    assert not channel.superseded


def test_of_two_drivers_of_one_log_the_later_one_has_the_znode(
    session: Session, channel: TopologyChannel
) -> None:
    path = Paths.driver("t")
    with closing(opened(session.hosts)) as other:
        assert other.claim(path, status(pid=1, life=3))
        channel.publish(status(pid=2, life=2))
        assert channel.superseded == 1
        channel.publish(status(pid=2, life=4))
        assert not channel.superseded
        found = session.get(path, DriverStatus)
        assert found is not None
        assert (found.value.pid, found.value.life, found.owner) == (2, 4, channel.session)


def test_the_znode_of_its_own_earlier_session_is_replaced(session: Session, channel: TopologyChannel) -> None:
    assert session.claim(Paths.driver("t"), status(pid=2))
    channel.publish(status(pid=2))
    found = session.get(Paths.driver("t"), DriverStatus)
    assert found is not None
    assert (found.value.session, found.owner) == (channel.session, channel.session)


def test_a_driver_without_zookeeper_goes_on_and_waits_between_its_turns() -> None:
    with closing(TopologyChannel(topology="t", hosts="127.0.0.1:1", session_timeout=1.0)) as channel:
        started = time.monotonic()
        assert not channel.refresh()
        assert not channel.changed.is_set(), "the flag would end every wait of the loop at once"
        assert channel.acknowledgements(30, 4) == []
        channel.publish(status(pid=2))
        channel.write_costs({"O0[0]": 0.5})
        channel.forget_checkpoints(below=30)
        assert channel.gone_addresses() == frozenset()
        assert time.monotonic() - started < 1, "nothing of it waits for a server"


# ---- the agent -----------------------------------------------------------------------------------


class Node:
    """The membership of a node, and the applications that it has to run."""

    def __init__(self, hosts: str) -> None:
        self.wanted: list[Mapping[str, SparkApplication | None]] = []
        self.identity = NodeIdentity(
            id="node-1", address="127.0.1.1", rack="rack-a", slots=2, capacity=100, standby=False, pid=20,
            lifeline=4711,
        )  # fmt: skip
        self.membership = NodeMembership(
            identity=self.identity,
            hosts=hosts,
            session_timeout=1.0,
            heartbeat_interval=0.1,
            usage=lambda: NodeUsage(cpu_percent=1.0, memory_bytes=1, disk_free_bytes=1),
            executors=list,
            on_wanted=self.wanted.append,
        )

    def wants(self, *topologies: str) -> None:
        def told() -> bool:
            return bool(self.wanted) and self.wanted[-1].keys() == set(topologies)

        wait_until(told, what=str(topologies), timeout=20)


@pytest.fixture
def node(session: Session) -> Iterator[Node]:
    made = Node(session.hosts)
    yield made
    made.membership.finish()


def registered(session: Session) -> Stored[NodeRegistration] | None:
    return session.get(Paths.node("node-1"), NodeRegistration)


def test_a_node_registers_in_the_place_of_an_earlier_process(session: Session, node: Node) -> None:
    assert session.claim(Paths.node("node-1"), registration("node-1", pid=10))
    node.membership.start()

    def replaced() -> bool:
        found = registered(session)
        return found is not None and found.value.pid == 20

    wait_until(replaced, what="the registration", timeout=20)
    found = registered(session)
    assert found is not None
    assert found.value.session == found.owner != session.session
    assert found.value.lifeline == 4711
    wait_until(lambda: session.exists(Paths.stats("node-1")), what="a heartbeat", timeout=20)
    stats = session.get(Paths.stats("node-1"), NodeStats)
    assert stats is not None
    assert stats.value.session == found.owner
    node.membership.finish()
    assert registered(session) is None, "a node that leaves is gone at once"


def test_a_node_works_for_running_topologies_and_some_time_for_vanished_ones(
    session: Session, node: Node, raw: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "MISSING_GRACE", 1e9)
    monkeypatch.setattr(membership, "RELIST_INTERVAL", 0.2)
    session.put(Paths.spec("a"), deployed("a"))
    session.put(Paths.spec("b"), deployed("b"))
    session.put(Paths.spec("c"), deployed("c", "stopped"))
    raw.create(Paths.spec("d"), b"{nonsense", makepath=True)
    node.membership.start()
    node.wants("a", "b")
    session.put(Paths.spec("c"), deployed("c"))
    node.wants("a", "b", "c")
    session.put(Paths.spec("b"), deployed("b", "stopped"))
    node.wants("a", "c")
    session.delete_tree(Paths.TOPOLOGIES)
    count = len(node.wanted)
    wait_until(lambda: len(node.wanted) > count + 3, what="it has looked again", timeout=20)
    node.wants("a", "c")
    monkeypatch.setattr(membership, "MISSING_GRACE", 0.0)
    node.wants()


def test_a_node_is_told_the_application_of_each_topology(session: Session, node: Node) -> None:
    application = SparkApplication(id="app-1", host="127.0.0.1", port=4040, memory="512m", pid=1)
    session.put(Paths.spec("a"), deployed("a"))
    session.put(Paths.spec("b"), deployed("b"))
    assert session.claim(Paths.application("a"), application)
    node.membership.start()

    def told(**wanted: SparkApplication | None) -> None:
        wait_until(lambda: bool(node.wanted) and node.wanted[-1] == wanted, what=str(wanted), timeout=20)

    told(a=application, b=None)
    other = msgspec.structs.replace(application, id="app-2")
    assert session.claim(Paths.application("b"), other)
    told(a=application, b=other)
    session.release(Paths.application("a"))
    told(a=None, b=other)
    with closing(opened(session.hosts)) as stranger:
        stranger.release(Paths.application("b"))
        assert session.exists(Paths.application("b")), "it is not its znode"


def test_an_acknowledgement_is_written_as_often_as_need_be(session: Session, node: Node) -> None:
    assert not node.membership.acknowledge("t", ack(1), "O0-1"), "no session yet"
    node.membership.start()
    wait_until(lambda: registered(session) is not None, what="the registration", timeout=20)
    assert node.membership.acknowledge("t", ack(1), "O0-1")
    again = msgspec.structs.replace(ack(1), uploaded_bytes=7)
    assert node.membership.acknowledge("t", again, "O0-1")
    assert session.get(Paths.ack("t", 30, "O0-1", 4), CheckpointAck).value == again  # type: ignore[union-attr]
