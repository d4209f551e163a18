"""The state of everything at one sequence number: what a client loads before it follows events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction
from django.db.models import F, Prefetch, Window
from django.db.models.functions import RowNumber
from django.utils import timezone

from controlplane.checkpoints.models import Checkpoint
from controlplane.events.choices import OPERATION_OPEN
from controlplane.events.models import EventCounter, Operation
from controlplane.events.representation import (
    Change,
    checkpoint_change,
    entry_change,
    incident_change,
    iso,
    node_change,
    operation_change,
    partition_change,
    plan_change,
    problem_change,
    query_change,
    sample_change,
    topology_change,
)
from controlplane.incidents.models import Incident, IncidentEntry, RecoveryPlan
from controlplane.nodes.models import Node
from controlplane.topologies.models import (
    AvailabilitySample,
    Partition,
    Problem,
    Query,
    Topology,
)

ENTITIES = (
    "topology",
    "partition",
    "query",
    "node",
    "incident",
    "entry",
    "plan",
    "checkpoint",
    "problem",
    "operation",
    "sample",
)
SAMPLES = 900
"""Newest availability samples per topology: a quarter of an hour."""

HISTORY = 200
"""Newest checkpoints, problems and plans per topology."""

INCIDENTS = 50
OPERATIONS = 50


def snapshot_read() -> dict[str, Any]:
    """``{"sequence", "server_time", "entities": {kind: {key: fields}}}``, from one consistent read.

    A constant number of queries. Histories are limited to their newest part.
    """
    with _consistent_read():
        counter = EventCounter.objects.filter(pk=1).first()
        entities: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for change in _changes():
            entities[change["entity"]][change["key"]] = change["fields"]
    return {
        "sequence": counter.value if counter else 0,
        "server_time": iso(timezone.now()),
        "entities": {kind: entities[kind] for kind in ENTITIES},
    }


@contextmanager
def _consistent_read() -> Iterator[None]:
    """All reads inside see one state of the database, and no writer waits for them."""
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "sqlite":
        # Transactions of Django are IMMEDIATE here, so they would take the one write lock.
        with connection.cursor() as cursor:
            cursor.execute("BEGIN DEFERRED")
            try:
                yield
            finally:
                cursor.execute("ROLLBACK")
    else:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield


def _changes() -> Iterator[Change]:
    for topology in Topology.objects.all():
        yield topology_change(topology, graph=True)
    for partition in Partition.objects.select_related("topology", "node"):
        yield partition_change(
            partition,
            topology=partition.topology.name,
            node=partition.node.name if partition.node else None,
        )
    for query in Query.objects.select_related("topology", "partition"):
        yield query_change(query, topology=query.topology.name, partition=query.partition.label)
    for node in Node.objects.all():
        yield node_change(node)
    yield from _incidents()
    for plan in _newest(RecoveryPlan.objects.select_related("topology", "incident"), "-generation"):
        yield plan_change(
            plan,
            topology=plan.topology.name,
            incident=plan.incident.number if plan.incident else None,
        )
    for checkpoint in _newest(Checkpoint.objects.select_related("topology"), "-epoch"):
        yield checkpoint_change(checkpoint, topology=checkpoint.topology.name)
    for problem in _newest(Problem.objects.select_related("topology"), "-at"):
        yield problem_change(problem, topology=problem.topology.name if problem.topology else None)
    yield from _operations()
    for sample in _newest(AvailabilitySample.objects.select_related("topology"), "-at", SAMPLES):
        yield sample_change(sample, topology=sample.topology.name)


def _newest(rows: Any, order: str, limit: int = HISTORY) -> Iterable[Any]:
    """The first `limit` rows of each topology in `order`, oldest first."""
    field = order.removeprefix("-")
    ranked = rows.annotate(
        position=Window(RowNumber(), partition_by=F("topology"), order_by=[F(field).desc(), F("pk").desc()])
    )
    return ranked.filter(position__lte=limit).order_by("topology", field, "pk")


def _incidents() -> Iterator[Change]:
    newest = Incident.objects.defer("costs").order_by("-number")[:INCIDENTS]
    incidents = newest.prefetch_related(
        Prefetch("failed_nodes", Node.objects.only("name")),
        Prefetch("topologies", Topology.objects.only("name")),
    )
    numbers: dict[int, int] = {}
    for incident in incidents:
        numbers[incident.pk] = incident.number
        yield incident_change(
            incident,
            nodes=[node.name for node in incident.failed_nodes.all()],
            topologies=[topology.name for topology in incident.topologies.all()],
        )
    for entry in IncidentEntry.objects.filter(incident__in=list(numbers)).order_by("pk"):
        yield entry_change(entry, incident=numbers[entry.incident_id])


def _operations() -> Iterator[Change]:
    seen = set()
    recent = Operation.objects.order_by("-created_at")[:OPERATIONS]
    still_open = Operation.objects.filter(state__in=OPERATION_OPEN)
    for operation in [*recent, *still_open]:
        if operation.pk not in seen:
            seen.add(operation.pk)
            yield operation_change(operation)
