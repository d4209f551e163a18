"""Celery tasks: each fetches by id and calls one function; none keeps anything between two calls.

ZooKeeper or the database being away ends a task with a warning, not a retry: the sweep comes again in two
seconds and finds the same work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import wraps

import structlog
from celery import shared_task
from django.db import DatabaseError
from django.db.models import Q
from django.utils import timezone

from controlplane.alerts.evaluation import alerts_evaluate
from controlplane.events.choices import OPERATION_OPEN
from controlplane.events.models import Operation
from controlplane.incidents.balancing import rebalance_by_policy
from controlplane.incidents.overload import parking_by_policy
from controlplane.incidents.selectors import incidents_open, incidents_with_queries_down
from controlplane.incidents.services import incident_queries_note
from controlplane.lifecycle.forgetting import nodes_forget_old
from controlplane.lifecycle.slow_nodes import drain_by_policy
from controlplane.measurements.measuring import measurements_take
from controlplane.replication.figures import fidelities_note
from controlplane.replication.services import replicas_look
from controlplane.results.corrections import corrections_look
from controlplane.retention.services import retention_enforce
from controlplane.topologies.choices import Desired, ReplicationMode, TentativeOutput, TopologyStatus
from controlplane.topologies.former import former_uncleared, names_uncleared
from controlplane.topologies.models import Topology
from controlplane.topologies.racks import rack_exposure_note
from controlplane.webhooks.deliveries import deliveries_trim
from coordination.session import CoordinationUnavailableError
from host import environment
from workers import operations, reconciliation
from workers.clearing import formers_agree, formers_clear, formers_clear_again, savepoints_remove
from workers.quarantine import quarantine
from workers.settled import topologies_settled
from workers.zookeeper import TopologyFacts, coordination

log = structlog.get_logger(__name__)

OVERLOOKED = timedelta(seconds=4)
"""An operation that old and still pending has lost its message."""


def _alone(task: Callable[[], None]) -> Callable[[], None]:
    """Have a task that beat sends again and again run once at a time. One that takes longer than its interval
    would take thread after thread, until none is left for recoveries and for what operators ask for."""
    running = threading.Lock()

    @wraps(task)
    def run() -> None:
        if not running.acquire(blocking=False):
            log.info("left out, since the one before still runs", task=task.__name__)
            return
        try:
            task()
        finally:
            running.release()

    return run


class Turns:
    """Has one step run at a time, and one of each incident wait. Several would make the same plans at once,
    of which one counts; and the one that waits sees all that has happened before it begins."""

    def __init__(self) -> None:
        self._running = threading.Lock()
        self._guard = threading.Lock()
        self._waiting: set[int] = set()

    def take(self, number: int, step: Callable[[], None]) -> None:
        with self._guard:
            if number in self._waiting:
                return
            self._waiting.add(number)
        with self._running:
            with self._guard:
                self._waiting.discard(number)
            step()


_turns = Turns()


@shared_task(name="recovery.incident_step")
def incident_step(number: int) -> None:
    def step() -> None:
        reconciliation.incident_step(coordination(), number)

    _turns.take(number, lambda: _attempt(step, task="incident_step", of=number))


@shared_task(name="recovery.topology_step")
def topology_step(name: str) -> None:
    """Something has happened to a topology: whatever incident concerns it goes on."""
    for number in list(incidents_open().filter(topologies__name=name).values_list("number", flat=True)):
        incident_step(number)


@shared_task(name="recovery.topology_publish")
def topology_publish(name: str) -> None:
    def publish() -> None:
        if former_uncleared(name):
            formers_clear(coordination(), environment.read())
        reconciliation.topology_reconcile(coordination(), name)

    _attempt(publish, task="topology_publish", of=name)


@shared_task(name="recovery.operation_run")
def operation_run(operation_id: str) -> None:
    _attempt(
        lambda: operations.operation_run(coordination(), operation_id), task="operation_run", of=operation_id
    )


@shared_task(name="recovery.sweep")
@_alone
def sweep() -> None:
    """Look at everything that is to run, is open or was asked for, as if no message had ever come."""
    wanted = Topology.objects.exclude(
        desired=Desired.STOPPED,
        status__in=(TopologyStatus.DRAFT, TopologyStatus.STOPPED, TopologyStatus.FAILED),
    )
    names = list(wanted.values_list("name", flat=True))

    def drivers() -> None:
        former = names_uncleared()
        for facts in coordination().topology_facts(names).values():
            if facts.name in former:  # a driver there is not one of the present topology
                facts = TopologyFacts(facts.name, None, None, None, None)
            _attempt(lambda facts=facts: reconciliation.driver_reconcile(facts), task="driver", of=facts.name)  # type: ignore[misc]

    _attempt(lambda: formers_clear(coordination(), environment.read()), task="clearing", of="all")
    settled: set[str] = set()
    _attempt(lambda: settled.update(topologies_settled(coordination(), names)), task="settled", of="all")
    for name in names:
        if name not in settled:
            topology_publish(name)
    _attempt(drivers, task="drivers", of="all")
    for number in list(incidents_open().values_list("number", flat=True)):
        incident_step(number)
    for number in list(incidents_with_queries_down().values_list("number", flat=True)):
        _attempt(lambda number=number: incident_queries_note(number=number), task="queries_note", of=number)  # type: ignore[misc]
    _attempt(parking_by_policy, task="parking", of="all")
    _attempt(drain_by_policy, task="slow_nodes", of="all")
    _attempt(quarantine.tell, task="quarantine", of="refused values")
    overlooked = Operation.objects.filter(
        state__in=OPERATION_OPEN, created_at__lt=timezone.now() - OVERLOOKED
    )
    for operation in list(overlooked.values_list("pk", flat=True)):
        operation_run(str(operation))


@shared_task(name="recovery.balance")
@_alone
def balance() -> None:
    """Note what the loss of a rack would take down. Move partitions to nodes with more room, or out of racks,
    where a policy wants that and all is well."""
    _attempt(rack_exposure_note, task="racks", of="all")
    _attempt(fidelities_note, task="fidelities", of="all")
    _attempt(rebalance_by_policy, task="balance", of="all")


@shared_task(name="recovery.alerts")
@_alone
def alerts() -> None:
    """Look at the rules for alerts."""
    _attempt(alerts_evaluate, task="alerts", of="all")


@shared_task(name="recovery.replicas_place")
def replicas_place(name: str) -> None:
    """Have the replicas that a topology's policy asks for."""
    _attempt(lambda: replicas_look(name), task="replicas", of=name)
    _attempt(lambda: reconciliation.replicas_put(coordination(), name), task="replicas_put", of=name)


@shared_task(name="recovery.replicas")
@_alone
def replicas() -> None:
    """Look at all topologies that have replicas or tentative output, or are to have some."""
    wanted = Topology.objects.filter(
        Q(replication_mode=ReplicationMode.ON)
        | Q(tentative_output=TentativeOutput.ON)
        | Q(replica_placement__isnull=False)
    )
    for name in list(wanted.values_list("name", flat=True)):
        replicas_place(name)


@shared_task(name="recovery.corrections")
@_alone
def corrections() -> None:
    """Compare tentative rows with the final ones that have superseded them."""
    _attempt(corrections_look, task="corrections", of="all")


@shared_task(name="maintenance.measure")
@_alone
def measure() -> None:
    """Keep what topologies, queries, operators and nodes did in the last seconds."""
    _attempt(measurements_take, task="measure", of="all")


@shared_task(name="maintenance.trim")
@_alone
def trim() -> None:
    """Drop what is too old or too much (`controlplane/retention/kinds.py`), what belongs to deleted
    webhooks, and nodes that are gone after RESURGE_FORGET_NODES_AFTER. Have nodes drop what they have of
    deleted topologies, and the storage of deleted savepoints."""
    retention_enforce(lambda action, of: _attempt(action, task="trim", of=of))
    _attempt(deliveries_trim, task="deliveries_trim", of="deliveries")
    _attempt(nodes_forget_old, task="nodes_forget", of="nodes")
    _attempt(lambda: formers_agree(coordination()), task="formers_agree", of="all")
    _attempt(lambda: formers_clear_again(coordination(), environment.read()), task="clear_again", of="all")
    _attempt(savepoints_remove, task="savepoints", of="all")


def _attempt(action: Callable[[], object], *, task: str, of: object) -> None:
    """Run one piece of work; what is temporary is logged, what is a fault is logged with its traceback.

    A fault in one piece must not keep the sweep from the others.
    """
    try:
        action()
    except (CoordinationUnavailableError, DatabaseError) as error:
        log.warning("put off to the next sweep", task=task, of=of, error=str(error))
    except Exception:
        log.exception("task failed", task=task, of=of)
