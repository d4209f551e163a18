"""Pairs of services at the same moment, on PostgreSQL: SQLite runs one transaction that writes after another,
so that no test there shows what two at once do.

The first service stops before one of its statements that write. Then the second one
runs, until it has ended or waits for a lock that the first holds; then the first goes on. Both must succeed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.utils import timezone

from controlplane.checkpoints.services import checkpoint_apply
from controlplane.events import tasks
from controlplane.events.choices import Channel, OperationKind
from controlplane.events.models import Event, EventCounter
from controlplane.incidents.choices import INCIDENT_ACTIVE
from controlplane.incidents.models import Incident, RecoveryPlan
from controlplane.incidents.plans import plan_mark_applied
from controlplane.incidents.services import incident_advance, incident_open_or_grow, recover_now
from controlplane.lifecycle.nodes import node_drain, node_register, nodes_heartbeat, nodes_lost
from controlplane.lifecycle.recovery_terms import topology_policy_set
from controlplane.lifecycle.topologies import topology_action, topology_deploy, topology_undeploy
from controlplane.nodes.models import Node
from controlplane.retention.kinds import KINDS
from controlplane.retention.selectors import retention_read
from controlplane.retention.services import kind_trim
from controlplane.topologies.models import Topology
from controlplane.topologies.services import topology_create
from controlplane.topologies.telemetry import driver_status_apply, problem_record, topology_metrics_apply
from domain.messages import NodeStats, ProblemReport
from domain.recovery.events import NodesLost
from harness.eventually import eventually
from host.environment import database_parse
from tests.integration.control_plane.postgresql import Filled, Server, database, programs, server
from tests.unit.controlplane import specs
from tests.unit.controlplane.incidents.places import driver, registration

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed on this machine"),
]

NAME = "interleaving"
BY: dict[str, Any] = {"actor": "ada", "reason": "test", "channel": Channel.CLI}
WRITES = ("INSERT", "UPDATE", "DELETE")


def counts() -> Topology:
    return Topology.objects.get(name="counts")


def lost(name: str) -> Callable[[], object]:
    return lambda: nodes_lost(evidence={name: "silent"}, at=timezone.now())


def heartbeat() -> None:
    now = timezone.now()
    nodes_heartbeat(
        stats=[
            NodeStats(
                id=name, at=now.timestamp(), session="a", cpu_percent=1, memory_bytes=1, disk_free_bytes=1
            )
            for name in ("node-3", "node-4")
        ],
        at=now,
    )


def opened() -> None:
    now = timezone.now()
    incident_open_or_grow(events=[NodesLost(at=now.timestamp(), nodes={"node-2": "silent"})], at=now)


def advanced() -> None:
    for incident in Incident.objects.filter(state__in=INCIDENT_ACTIVE):
        incident_advance(number=incident.number, events=driver(1, "degraded"))


SERVICES: dict[str, Callable[[], object]] = {
    "node_lost": lost("node-1"),
    "another_node_lost": lost("node-2"),
    "incident_opened": opened,
    "incident_advanced": advanced,
    "recover_now": lambda: recover_now(topology="counts", actor="ada", reason="test"),
    "node_registered": lambda: node_register(registration=registration("node-9"), at=timezone.now()),
    "heartbeats": heartbeat,
    "node_drained": lambda: node_drain(name="node-3", **BY),
    "driver_status": lambda: driver_status_apply(status=specs.driver_status(counts(), committed=9)),
    "epoch": lambda: topology_metrics_apply(report=specs.epoch_report(counts(), epoch=9), health={}),
    "checkpoint": lambda: checkpoint_apply(report=specs.checkpoint_report(counts())),
    "problem": lambda: problem_record(report=ProblemReport(topology="counts", where="a", what="b")),
    "checkpoint_asked": lambda: topology_action(
        name="counts", kind=OperationKind.TOPOLOGY_CHECKPOINT, idempotency_key="key", **BY
    ),
    "policy": lambda: topology_policy_set(name="counts", changes={"approval": "confirm"}, **BY),
    "undeployed": lambda: topology_undeploy(name="counts", **BY),
}


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Server]:
    with server() as one:
        one.execute(f"CREATE DATABASE {NAME}")
        yield one


@pytest.fixture(scope="module")
def filled(postgresql: Server, django_db_blocker: Any) -> Iterator[Filled]:
    """A database with a topology that runs on four nodes."""
    with (
        django_db_blocker.unblock(),
        database(database_parse(postgresql.url(NAME))),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(tasks, "task_send", lambda *_: None)
        call_command("migrate", verbosity=0)
        for number in range(1, 5):
            node_register(registration=registration(f"node-{number}"), at=timezone.now())
        topology_create(spec=specs.spec_of(), **BY)
        topology_deploy(name="counts", **BY)
        Topology.objects.update(status="running")
        plan_mark_applied(topology="counts", generation=counts().generation)
    with django_db_blocker.unblock():
        yield Filled(postgresql, NAME)


@pytest.fixture
def fresh(filled: Filled) -> Iterator[Filled]:
    filled.put_back()
    with database(database_parse(filled.url)):
        yield filled


class Run(threading.Thread):
    """One service in a thread of its own, in one transaction, held before its statement number `hold` that
    writes."""

    def __init__(self, service: Callable[[], object], *, hold: int | None = None) -> None:
        super().__init__(daemon=True)
        self._service = service
        self._hold = hold
        self.writes = 0
        self.holds = threading.Event()
        self.go_on = threading.Event()
        self.backend = 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                self.backend = cursor.fetchone()[0]
            with connection.execute_wrapper(self._watch), transaction.atomic():
                self._service()
        except Exception as error:
            self.error = error
        finally:
            self.holds.set()
            connections.close_all()

    def _watch(self, execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        if sql.startswith(WRITES):
            if self.writes == self._hold:
                self._wait()
            self.writes += 1
        return execute(sql, parameters, many, context)

    def _wait(self) -> None:
        self.holds.set()
        assert self.go_on.wait(60)


def waits_for_a_lock(backend: int) -> bool:
    if not backend:
        return False
    with connection.cursor() as cursor:
        cursor.execute("SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s", [backend])
        row = cursor.fetchone()
    return row is not None and row[0] == "Lock"


def interleave(first: Callable[[], object], second: Callable[[], object], hold: int) -> tuple[Run, Run]:
    one, two = Run(first, hold=hold), Run(second)
    one.start()
    assert one.holds.wait(60)
    two.start()
    eventually(lambda: not two.is_alive() or waits_for_a_lock(two.backend), "the second one", pause=0.002)
    one.go_on.set()
    for run in (one, two):
        run.join(60)
        assert not run.is_alive()
    return one, two


def check(told: str, one: Run, two: Run) -> None:
    from controlplane.errors import ServiceError

    for run in (one, two):
        # In words, one of two may be told that the other was first.
        assert run.error is None or isinstance(run.error, ServiceError), f"{told}: {run.error!r}"
    assert Incident.objects.filter(state__in=INCIDENT_ACTIVE).count() <= 1, told
    sequences = list(Event.objects.order_by("sequence").values_list("sequence", flat=True))
    assert sequences == list(range(1, len(sequences) + 1)), told
    assert EventCounter.objects.get().value == len(sequences), told
    newest = RecoveryPlan.objects.filter(topology__name="counts").order_by("-generation").first()
    assert newest is not None
    assert newest.generation == counts().generation, told


@pytest.mark.parametrize("first", SERVICES)
def test_pairs_of_services(fresh: Filled, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With itself and every service after it, stopped before its first write."""
    monkeypatch.setattr(tasks, "task_send", lambda *_: None)
    names = list(SERVICES)
    for second in names[names.index(first) :]:
        connections.close_all()
        fresh.put_back()
        one, two = interleave(SERVICES[first], SERVICES[second], 0)
        check(f"{first} held, {second} meanwhile", one, two)


def test_retention_on_postgresql(fresh: Filled) -> None:
    """What it does with SQL of its own."""
    kept = {one.name: one for one in retention_read()}
    # The others are files, which this installation may not have.
    assert all(kept[kind.name].bytes for kind in KINDS)
    assert kept["events"].rows > 0
    for kind in KINDS:
        kind_trim(kind)


def test_two_incidents_are_one(fresh: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "task_send", lambda *_: None)
    one, two = interleave(SERVICES["node_lost"], SERVICES["another_node_lost"], 0)
    assert (one.error, two.error) == (None, None)
    incident = Incident.objects.get()
    assert {node.name for node in incident.failed_nodes.all()} == {"node-1", "node-2"}
    assert Node.objects.filter(state="lost").count() == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [("driver_status", "node_lost"), ("node_lost", "epoch"), ("undeployed", "another_node_lost")],
)
def test_every_statement(fresh: Filled, first: str, second: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped before each of its writes in turn: no order in which locks are taken is a deadlock."""
    monkeypatch.setattr(tasks, "task_send", lambda *_: None)
    hold, writes = 0, 1
    while hold < writes:
        connections.close_all()
        fresh.put_back()
        one, two = interleave(SERVICES[first], SERVICES[second], hold)
        check(f"{first} held at {hold}, {second} meanwhile", one, two)
        hold, writes = hold + 1, one.writes
