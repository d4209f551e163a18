"""No value that another process writes ends a thread, or hides the values that come after it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kazoo.client import KazooClient

from controlplane.config.life_signs import LASTS, MUST_LIVE, signs_write, threads_missing
from controlplane.nodes.models import Node
from controlplane.topologies.models import Problem, Topology
from controlplane.topologies.telemetry import topology_metrics_apply
from coordination.paths import Paths
from coordination.session import SessionState
from domain.messages import (
    TELEMETRY_FIELD,
    TELEMETRY_STREAM,
    DriverStatus,
    NodeRegistration,
    NodeStats,
    encode,
)
from tests.integration.control_plane.steps import status
from tests.unit.controlplane import specs
from tests.unit.hostile import HOSTILE, altered
from workers import decisions, detection, ingestion
from workers.detection import Watch
from workers.ingestion import GROUP, REFUSED_STREAM, Ingestion
from workers.quarantine import Quarantine, quarantine
from workers.zookeeper import WorkerSession

pytestmark = [
    pytest.mark.integration,
    pytest.mark.django_db,
    # Threads of kazoo draw their pauses meanwhile, which is taken for a strategy that draws by itself.
    pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies"),
]

AT = 1.7e9
"""What is drawn from must be the same in every run."""

drawn = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def registration(name: str, **changed: Any) -> NodeRegistration:
    given_ = {
        "id": name, "address": "127.0.0.1", "rack": "rack-a", "slots": 2, "capacity": 100, "pid": 1,
        "session": "a1", "registered_at": time.time(), **changed,
    }  # fmt: skip
    return NodeRegistration(**given_)


def stats(name: str, **changed: Any) -> NodeStats:
    given_ = {
        "id": name, "at": time.time(), "session": "a1", "cpu_percent": 5.0, "memory_bytes": 1,
        "disk_free_bytes": 1, **changed,
    }  # fmt: skip
    return NodeStats(**given_)


def write(raw: KazooClient, path: str, value: bytes) -> None:
    raw.ensure_path(path)
    raw.set(path, value)


class Watching:
    """The node watch, round by round, on a real ZooKeeper."""

    def __init__(self, coordination: WorkerSession, raw: KazooClient) -> None:
        self.raw = raw
        self.watch = Watch()
        self.watch._coordination = coordination
        self.watch._lifelines.start()
        self.watch._round([SessionState.CONNECTED])
        self._count = 0

    def later_node_is_seen(self) -> None:
        """A node that registers last, and whose name is the last, is recorded with its heartbeat."""
        self._count += 1
        name = f"z{self._count}"
        write(self.raw, Paths.node(name), encode(registration(name)))
        write(self.raw, Paths.stats(name), encode(stats(name, cpu_percent=41.0)))
        self.round()
        self.round()
        node = Node.objects.get(name=name)
        assert (node.state, node.cpu_percent) == ("alive", 41.0)
        assert self.watch._lifelines.is_alive()
        for path in (Paths.node(name), Paths.stats(name)):
            self.raw.delete(path)

    def round(self) -> None:
        self.watch._stats_at = float("-inf")
        self.watch._round([])


@pytest.fixture
def watching(coordination: WorkerSession, raw: KazooClient, deployed: Topology) -> Iterator[Watching]:
    coordination._on_refused = quarantine.refuse_znode
    one = Watching(coordination, raw)
    yield one
    one.watch._lifelines.finish()


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Quarantine:
    """A quarantine that tells at once and knows nothing of other tests."""
    one = Quarantine(clock=iter(range(0, 10**9, 3600)).__next__)
    for module in (decisions, detection, ingestion):
        monkeypatch.setattr(module, "quarantine", one)
    monkeypatch.setattr(quarantine, "refuse", one.refuse)
    return one


def test_a_heartbeat_out_of_time(watching: Watching, fresh: Quarantine) -> None:
    write(watching.raw, Paths.node("node-1"), encode(registration("node-1")))
    write(watching.raw, Paths.stats("node-1"), encode(stats("node-1", at=1e30)))
    watching.later_node_is_seen()
    fresh.tell()
    problem = Problem.objects.get()
    assert (problem.topology, problem.where, problem.count) == (None, "ZooKeeper /resurge/stats/node-1", 1)
    assert "at must be at most" in problem.what


@pytest.mark.parametrize(
    "changed",
    [
        {"slots": -1},
        {"session": "s" * 40},
        {"lifeline": 70_000},
        {"lifeline": 9, "address": "a" * 70 + ".b"},
        {"lifeline": 9, "address": "\0"},
        {"registered_at": 4e9},
        {"id": "another"},
    ],
)
def test_a_registration_that_cannot_be_recorded_hides_no_later_one(
    watching: Watching, fresh: Quarantine, changed: dict[str, Any]
) -> None:
    write(watching.raw, Paths.node("node-7"), encode(registration("node-7", **changed)))
    for _ in range(3):
        watching.later_node_is_seen()
    assert not Node.objects.filter(slots__lt=0).exists()


def test_a_registration_from_the_future_gives_way_to_a_later_one(watching: Watching) -> None:
    write(watching.raw, Paths.node("node-7"), encode(registration("node-7", registered_at=4e9, session="a")))
    watching.round()
    write(watching.raw, Paths.node("node-7"), encode(registration("node-7", session="b")))
    watching.round()
    assert Node.objects.get(name="node-7").session == "b"


def test_a_driver_speaks_of_its_own_topology_only(coordination: WorkerSession, raw: KazooClient) -> None:
    write(raw, Paths.driver("counts"), encode(msgspec.structs.replace(status(1), topology="other")))
    write(raw, Paths.driver("other"), encode(msgspec.structs.replace(status(1), topology="other")))
    facts = coordination.topology_facts(["counts", "other"])
    assert facts["counts"].driver is None
    assert facts["other"].driver is not None


def test_a_value_is_refused_once_and_again_when_it_is_written_anew(
    coordination: WorkerSession, raw: KazooClient
) -> None:
    told: list[str] = []
    coordination._on_refused = lambda path, why: told.append(path)
    for times in (1, 2):
        write(raw, Paths.node("node-1"), b"{")
        for _ in range(3):
            assert coordination.registrations() == []
        assert told == [Paths.node("node-1")] * times


@drawn
@given(st.data())
def test_no_znode_ends_the_watch_or_hides_a_later_node(watching: Watching, data: st.DataObject) -> None:
    place, valid = data.draw(
        st.sampled_from(
            [
                (Paths.node("node-9"), encode(registration("node-9", lifeline=9, registered_at=AT))),
                (Paths.stats("node-1"), encode(stats("node-1", at=AT, cpu_seconds={"counts": 1.0}))),
                (Paths.driver("counts"), encode(msgspec.structs.replace(status(1), at=AT))),
                (Paths.spec("counts"), b'{"name":"counts","version":1,"spec":{}}'),
                (Paths.plan("counts"), b'{"generation":1,"kind":"deploy","assignment":{"O0[0]":"node-1"}}'),
                (Paths.executors("counts"), b'{"pid":1,"gone":{"node-1":{"session":"a","at":1.0}}}'),
                (Paths.latest_checkpoint("counts"), b'{"checkpoint":1,"generation":1,"completed_at":1}'),
            ]
        )
    )
    bad = data.draw(st.one_of(st.sampled_from(HOSTILE), st.binary(max_size=40), altered(valid)))
    write(watching.raw, place, bad)
    watching.round()
    watching.later_node_is_seen()


# ---- Redis ---------------------------------------------------------------------------------------


@pytest.fixture
def ingesting(stream: redis.Redis, deployed: Topology, monkeypatch: pytest.MonkeyPatch) -> Ingestion:
    monkeypatch.setattr(ingestion, "BLOCK_MS", 1)
    one = Ingestion()
    one._read("0")  # makes the group
    return one


def rounds(one: Ingestion, count: int) -> None:
    """As the thread goes, with what it had in hand read again after a failure; not further than until nothing
    is left, because Redis lets a read that finds nothing wait a tenth of a second."""
    position = "0"
    for _ in range(count):
        entries = one._read(position)
        try:
            if entries:
                one._apply(entries)
            elif position == ">":
                return
            else:
                position = ">"
        except ingestion.NotYetError:
            position = "0"


def send(stream: redis.Redis, data: bytes) -> None:
    stream.xadd(TELEMETRY_STREAM, {TELEMETRY_FIELD: data})


def later_report_is_applied(stream: redis.Redis, one: Ingestion, epoch: int) -> None:
    topology = Topology.objects.get(name="counts")
    send(stream, encode(specs.epoch_report(topology, epoch=epoch, generation=1)))
    rounds(one, 6)
    topology.refresh_from_db()
    assert (topology.committed_epoch, topology.applied_generation) == (epoch, 1)
    assert stream.xpending(TELEMETRY_STREAM, GROUP)["pending"] == 0


def test_a_message_that_the_database_refuses_blocks_none(
    stream: redis.Redis, ingesting: Ingestion, fresh: Quarantine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another column that refuses a value than those whose bounds are known: what the schema lets through."""
    from django.db import DataError

    def refuse(*, report: Any, **rest: Any) -> None:
        if report.committed == 666:
            raise DataError("value out of range")
        topology_metrics_apply(report=report, **rest)

    monkeypatch.setattr(ingestion, "topology_metrics_apply", refuse)
    topology = Topology.objects.get(name="counts")
    bad = encode(specs.epoch_report(topology, epoch=666))
    send(stream, bad)
    later_report_is_applied(stream, ingesting, 7)
    fresh.tell()
    problem = Problem.objects.get()
    assert (problem.where, problem.topology) == ("telemetry", topology)
    assert "DataError" in problem.what
    kept: Any = stream.xrange(REFUSED_STREAM)
    assert [fields[TELEMETRY_FIELD.encode()] for _, fields in kept] == [bad]


def test_a_report_of_an_unknown_plan_silences_none(
    stream: redis.Redis, ingesting: Ingestion, fresh: Quarantine
) -> None:
    topology = Topology.objects.get(name="counts")
    send(stream, encode(specs.driver_status(topology, generation=10**6)))
    send(stream, encode(specs.epoch_report(topology, generation=10**6)))
    later_report_is_applied(stream, ingesting, 8)
    fresh.tell()
    assert "it is of plan 1000000" in Problem.objects.get().what
    assert Problem.objects.get().count == 2


def test_a_key_of_another_type_is_put_aside(stream: redis.Redis, ingesting: Ingestion) -> None:
    stream.delete(TELEMETRY_STREAM)
    stream.set(TELEMETRY_STREAM, "no stream")
    rounds(ingesting, 3)
    later_report_is_applied(stream, ingesting, 9)


@drawn
@given(st.data())
def test_no_message_ends_the_ingestion_or_blocks_a_later_one(
    stream: redis.Redis, ingesting: Ingestion, data: st.DataObject
) -> None:
    topology = Topology.objects.get(name="counts")
    valid = data.draw(
        st.sampled_from(
            [
                encode(specs.epoch_report(topology)),
                encode(specs.driver_status(topology)),
                encode(specs.checkpoint_report(topology)),
                b'{"kind":"problem","topology":"counts","where":"x","what":"y"}',
            ]
        )
    )
    send(stream, data.draw(st.one_of(st.sampled_from(HOSTILE), st.binary(max_size=40), altered(valid))))
    later_report_is_applied(stream, ingesting, data.draw(st.integers(1, 10**9)))


def test_a_status_from_zookeeper_of_an_unknown_plan(
    deployed: Topology, coordination: WorkerSession, raw: KazooClient
) -> None:
    from workers.reconciliation import driver_reconcile

    bad = msgspec.structs.replace(status(10**6), at=time.time())
    assert isinstance(bad, DriverStatus)
    write(raw, Paths.driver("counts"), encode(bad))
    driver_reconcile(coordination.topology_facts(["counts"])["counts"])
    deployed.refresh_from_db()
    assert deployed.applied_generation == 1


def test_threads_that_live_are_known_and_the_others_are_named(stream: redis.Redis) -> None:
    assert threads_missing(stream) == [*MUST_LIVE]
    signs_write(stream, MUST_LIVE[1:], process=1)
    assert threads_missing(stream) == [MUST_LIVE[0]]
    assert 0 < stream.ttl(f"resurge:alive:{MUST_LIVE[1]}") <= LASTS
