"""The rounds of the node watch, with a clock of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from django.db import DataError, OperationalError
from django.utils import timezone

from controlplane.events.models import Event
from controlplane.incidents.models import Incident
from controlplane.lifecycle.nodes import nodes_leave
from controlplane.nodes.models import Node
from coordination.session import CoordinationUnavailableError, SessionState
from domain.messages import NodeRegistration, NodeStats
from domain.recovery.events import NodesLost
from domain.recovery.liveness import NodeAlive
from workers import decisions, detection
from workers.database import TRIES
from workers.decisions import Decisions
from workers.detection import Watch

NAMES = ("node-1", "node-2")


class Quiet:
    """Lifelines of which there is no news."""

    beat = 0.0
    is_alive = staticmethod(lambda: True)
    follow = staticmethod(lambda registrations: None)

    def news(self) -> list[Any]:
        return []


class Coordination:
    """A ZooKeeper in which nodes write heartbeats all the time, except those that are `silent`."""

    def __init__(self, watch: Rounds) -> None:
        self.watch, self.connected, self.hangs = watch, True, 0.0
        self.silent: dict[str, float] = {}

    def check(self) -> None: ...

    def _answer(self) -> None:
        if self.hangs:
            self.watch.time += self.hangs
            raise CoordinationUnavailableError("no answer")

    def registrations(self) -> list[NodeRegistration]:
        self._answer()
        return [
            NodeRegistration(
                id=name, address="a", rack="r", slots=1, capacity=100, pid=1, session="s", registered_at=1.0
            )
            for name in NAMES
        ]

    def heartbeats(self, names: Iterable[str]) -> list[NodeStats]:
        at = self.watch.time
        return [
            NodeStats(
                id=name, at=self.silent.get(name, at), session="s", cpu_percent=0, memory_bytes=0,
                disk_free_bytes=0,
            )
            for name in sorted(names)
        ]  # fmt: skip

    def executors(self, names: Iterable[str]) -> dict[str, Any]:
        return {}

    def topology_facts(self, names: Iterable[str], *, brief: bool) -> dict[str, Any]:
        return {}


class Kept(list[Any]):
    """Decisions that are not recorded."""

    add = list.extend

    def record(self) -> None: ...

    def compare(self, nodes: Any, *, at: float) -> None: ...


class Rounds(Watch):
    """A watch whose rounds are made one by one; `decided` is what it would have recorded."""

    def __init__(self) -> None:
        self.time, self.storing = 1000.0, 0.0
        super().__init__()
        self._decisions: Any = self.decisions()
        self.zookeeper = Coordination(self)
        self._coordination: Any = self.zookeeper
        self._lifelines: Any = Quiet()
        self._round([SessionState.CONNECTED])
        for _ in range(60):
            self.step()

    def now(self) -> float:
        return self.time

    def step(self) -> None:
        self.time += 0.5
        self._round([])

    def _store_statistics(self, stats: list[NodeStats]) -> None:
        self.time += self.storing

    def _refresh_topologies(self) -> None: ...

    def decisions(self) -> Any:
        self.decided = Kept()
        return self.decided

    @property
    def states(self) -> set[str]:
        return {node.state for node in self.detector.nodes.values()}


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Rounds:
    monkeypatch.setattr(detection, "close_old_connections", lambda: None)
    made = Rounds()
    assert made.states == {"alive"}
    return made


def test_no_node_is_given_up_because_the_database_is_slow(watch: Rounds) -> None:
    before = list(watch.decided)
    watch.storing = 60.0
    for _ in range(3):
        watch.step()
    assert watch.decided == before
    assert watch.states == {"alive"}


def test_no_node_is_given_up_because_zookeeper_hangs_and_the_session_does_not_know_yet(watch: Rounds) -> None:
    before = list(watch.decided)
    watch.zookeeper.hangs = 5.0
    for _ in range(10):
        watch.step()
    watch.zookeeper.hangs, watch.zookeeper.connected = 0.0, False
    watch.time += 60.0
    watch.step()
    assert watch.decided == before


def test_a_node_that_is_silent_while_others_are_heard_is_given_up(watch: Rounds) -> None:
    watch.zookeeper.silent = {"node-2": watch.time}
    for _ in range(60):
        watch.step()
    assert [sorted(one.nodes) for one in watch.decided if isinstance(one, NodesLost)] == [["node-2"]]


@pytest.mark.parametrize(
    ("error", "told"),
    [(DataError("out of range"), 2), (OperationalError("canceling statement due to lock timeout"), 0)],
)
def test_a_heartbeat_is_not_at_fault_where_the_database_goes_away_again(
    watch: Rounds, monkeypatch: pytest.MonkeyPatch, error: Exception, told: int
) -> None:
    refused: list[str] = []

    def fails(**_: Any) -> None:
        raise error

    monkeypatch.setattr(detection, "nodes_heartbeat", fails)
    monkeypatch.setattr("workers.quarantine.quarantine.refuse", lambda where, why: refused.append(where))
    watch._store_one_by_one(watch.zookeeper.heartbeats(NAMES))
    assert len(refused) == told


class Recorded(Rounds):
    """What it decides is recorded."""

    def decisions(self) -> Any:
        return Decisions()

    def steps(self, count: int = 30) -> dict[str, str]:
        for _ in range(count):
            self.step()
        return dict(Node.objects.filter(name__in=NAMES).values_list("name", "state"))


@pytest.mark.django_db
def test_what_the_database_loses_of_decisions_is_recorded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where its standby had not got the last transactions: the loss of a node stayed unknown."""
    monkeypatch.setattr(detection, "close_old_connections", lambda: None)
    watch = Recorded()
    watch.zookeeper.silent = {"node-2": watch.time}
    assert watch.steps(60) == {"node-1": "alive", "node-2": "lost"}
    Node.objects.filter(name="node-2").update(state="alive")
    Node.objects.filter(name="node-1").delete()
    assert watch.steps() == {"node-1": "alive", "node-2": "lost"}
    written = Event.objects.filter(kind__in=("node.lost", "node.joined")).count()
    watch.steps()
    assert Event.objects.filter(kind__in=("node.lost", "node.joined")).count() == written


@pytest.mark.django_db
def test_what_is_recorded_has_the_time_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch judges by a clock that never jumps: here it is long behind, as after a host has slept."""
    monkeypatch.setattr(detection, "close_old_connections", lambda: None)
    began = timezone.now()
    watch = Recorded()
    watch.zookeeper.silent = {"node-2": watch.time}
    watch.steps(60)
    moments = [Incident.objects.get().detected_at, *Node.objects.values_list("last_heartbeat", flat=True)]
    assert began <= min(filter(None, moments))


@pytest.mark.django_db
def test_a_node_that_was_replaced_under_its_name_is_lost_where_the_database_knows_the_old_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(detection, "close_old_connections", lambda: None)
    watch = Recorded()
    Node.objects.filter(name="node-1").update(session="before", pid=7)
    watch.steps()
    told = Event.objects.filter(node="node-1").order_by("sequence").values_list("kind", flat=True)
    assert [*told][-2:] == ["node.lost", "node.joined"]


@pytest.mark.django_db
def test_nodes_that_left_stay_so_where_the_watch_still_sees_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """As while an installation is stopped."""
    monkeypatch.setattr(detection, "close_old_connections", lambda: None)
    watch = Recorded()
    nodes_leave(reason="the installation is stopped")
    assert set(watch.steps().values()) == {"left"}


def test_nodes_that_come_together_are_recorded_together(
    watch: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one of them cannot be: it is left out, the others are not."""
    tried: list[tuple[str, ...]] = []

    def register(*, alive: Iterable[NodeAlive], at: Any) -> None:
        tried.append(names := tuple(one.registration.id for one in alive))
        if "node-4" in names:
            raise ValueError("it is refused")

    def arrive(*names: str) -> None:
        tried.clear()
        registrations = (
            msgspec.structs.replace(watch.zookeeper.registrations()[0], id=name) for name in names
        )
        waiting.add(NodeAlive(one, False, "") for one in registrations)
        for _ in range(20):
            waiting.record()
        assert not waiting._waiting

    waiting = Decisions()
    monkeypatch.setattr(decisions, "nodes_register", register)
    arrive("node-3", "node-5", "node-6")
    assert tried == [("node-3", "node-5", "node-6")]
    arrive("node-3", "node-4", "node-5")
    assert tried.count(("node-4",)) == TRIES - 1
    assert tried[-1] == ("node-5",)
    assert ("node-3",) in tried
