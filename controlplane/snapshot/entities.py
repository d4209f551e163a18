"""What a snapshot holds: for each kind of entity the rows there are, as clients see them.

Thousands of rows are read as tuples, not as models, and what never changes is kept as it was written. Of what
grows for ever there is the newest part, oldest first: no more than a page keeps (`KEEP` in the front end's
reducer).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import timedelta
from operator import attrgetter
from typing import Any

import msgspec
from django.db.models import F, QuerySet, TextField, Value
from django.db.models.functions import Cast, Concat, JSONObject
from django.utils import timezone

from controlplane.alerts.models import Alert, AlertRule, Silence
from controlplane.alerts.representation import (
    ALERT_STORED,
    alert_fields,
    rule_change,
    silence_change,
)
from controlplane.alerts.selectors import alerts_going_on
from controlplane.checkpoints.models import Checkpoint
from controlplane.checkpoints.representation import CHECKPOINT_STORED, checkpoint_change
from controlplane.events.choices import OPERATION_OPEN
from controlplane.events.models import Operation
from controlplane.events.representation import Change, change, operation_change
from controlplane.incidents.models import Incident, IncidentEntry, RecoveryPlan
from controlplane.incidents.representation import (
    ENTRY_STORED,
    INCIDENT_FIELDS,
    INCIDENT_RELATED,
    PLAN_FIELDS,
    entry_change,
    incident_change,
    plan_change,
)
from controlplane.incidents.selectors import incident_names
from controlplane.nodes.representation import NODE_FIELDS, node_change
from controlplane.nodes.selectors import nodes_known
from controlplane.topologies.drawing import specification_drawn
from controlplane.topologies.models import (
    AvailabilitySample,
    Partition,
    Problem,
    Query,
    Topology,
)
from controlplane.topologies.representation import (
    PARTITION_STORED,
    PROBLEM_STORED,
    QUERY_STORED,
    SAMPLE_STORED,
    problem_change,
    query_change,
    sample_change,
    topology_change,
)
from controlplane.tuple_rows import LABELS, NAMES, PARTS, RAW, Unchanging, tuple_rows
from domain.topology import partition_id

SAMPLES, SAMPLES_OF = 4_000, timedelta(minutes=15)
ENTRIES = 2_000
HISTORY = 400
"""Newest checkpoints, problems and plans."""

INCIDENTS = 50
OPERATIONS = 50
ALERTS = 200
"""Newest that have ended; those that go on are all there."""
SILENCES = 300
"""Those that last, of which there are fewer, and the newest that have ended."""

Key = tuple[Any, ...]
"""The id of a row, its time, and whatever of it can change: after a database was put back the same id can
stand for something else."""

Keys = Collection[Key]

_encoder = msgspec.json.Encoder()


def _topologies() -> Iterator[Change]:
    for topology in Topology.objects.defer("spec").annotate(spec_text=Cast("spec", TextField())):
        row = topology_change(topology)
        yield {**row, "fields": {**(row["fields"] or {}), **specification_drawn(topology.spec_text)}}


def _partitions() -> Iterator[Change]:
    """The one kind with ten thousand rows: the database writes their JSON, as `partition_change` would."""
    index = Cast("index", TextField())
    label = Concat("operator", Value("["), index, Value("]"), output_field=TextField())
    columns = {name: name for name in PARTITION_STORED} | {"topology": "topology__name", "node": "node__name"}
    fields = JSONObject(partition=label, **columns)
    key = Concat("topology__name", Value("/"), label, output_field=TextField())
    for name, text in Partition.objects.order_by("pk").values_list(key, Cast(fields, TextField())):
        written: Any = msgspec.Raw(text)
        yield {"entity": "partition", "key": name, "fields": written}


def _queries() -> Iterator[Change]:
    rows = tuple_rows(
        Query.objects.order_by("pk"),
        *QUERY_STORED,
        topology="topology__name",
        operator="partition__operator",
        index="partition__index",
    )
    for row in rows:
        yield query_change(row, topology=row.topology, partition=partition_id(row.operator, row.index))


def _nodes() -> Iterator[Change]:
    return map(node_change, tuple_rows(nodes_known().order_by("pk"), *NODE_FIELDS))


def _incidents() -> Iterator[Change]:
    read = {"checkpoints": RAW, "proposals": PARTS, "summary": RAW, "forecast": RAW}
    names = [name for name in INCIDENT_FIELDS if name not in read and name not in INCIDENT_RELATED]
    rows = [*tuple_rows(Incident.objects.order_by("-number")[:INCIDENTS], *names, json=read)]
    shown = [row.number for row in rows]
    nodes, topologies = incident_names(shown)
    for row in reversed(rows):
        yield incident_change(row, nodes=nodes[row.number], topologies=topologies[row.number])


def _entries() -> Iterator[Change]:
    shown = Incident.objects.order_by("-number").values("pk")[:INCIDENTS]
    newest = IncidentEntry.objects.filter(incident__in=shown).order_by("-pk")
    return iter(_told.of(_keys(newest[:ENTRIES])).values())


def _entries_read(keys: Keys) -> dict[Key, Change]:
    rows = IncidentEntry.objects.filter(pk__in=[pk for pk, _ in keys])
    found = tuple_rows(
        rows,
        "pk",
        *(name for name in ENTRY_STORED if name != "data"),
        json={"data": PARTS},
        incident="incident__number",
        key=Cast("at", TextField()),
    )
    return {(row.pk, row.key): _fixed(entry_change(row, incident=row.incident)) for row in found}


def _plans() -> Iterator[Change]:
    changing = ("state", "published_at", "applied_at", "caught_up_at", "verified_at")
    texts = [Cast(name, TextField()) for name in ("created_at", *changing)]
    plans = RecoveryPlan.objects.all()
    newest = plans.order_by("-pk").values_list("pk", *texts)[:HISTORY]
    current = plans.filter(generation=F("topology__generation")).values_list("pk", *texts)
    return iter(_planned.of(sorted({*newest, *current})).values())


def _plans_read(keys: Keys) -> dict[Key, Change]:
    read = {"assignment": LABELS, "restore": NAMES, "explanation": PARTS}
    lookups = {"topology": "topology__name", "incident": "incident__number"}
    names = [name for name in PLAN_FIELDS if name not in read and name not in lookups]
    found = tuple_rows(
        RecoveryPlan.objects.filter(pk__in=[key[0] for key in keys]),
        "pk",
        *names,
        json=read,
        **lookups,
    )
    by_pk = {row.pk: _fixed(plan_change(row, topology=row.topology, incident=row.incident)) for row in found}
    return {key: by_pk[key[0]] for key in keys}


def _checkpoints() -> Iterator[Change]:
    names = ("pk", *CHECKPOINT_STORED)
    rows = Checkpoint.objects.all()
    parts = (
        rows.order_by("-started_at")[:HISTORY],
        rows.filter(epoch=F("topology__checkpoint_epoch")),  # the newest complete one of every topology
    )
    found = {row.pk: row for part in parts for row in tuple_rows(part, *names, topology="topology__name")}
    for row in sorted(found.values(), key=attrgetter("started_at", "pk")):
        yield checkpoint_change(row, topology=row.topology)


def _problems() -> Iterator[Change]:
    newest = Problem.objects.order_by("-at", "-pk")[:HISTORY]
    rows = [*tuple_rows(newest, "pk", *PROBLEM_STORED, topology="topology__name")]
    for row in reversed(rows):
        yield problem_change(row, topology=row.topology)


def _operations() -> Iterator[Change]:
    newest = Operation.objects.order_by("-created_at")[:OPERATIONS]
    still_open = Operation.objects.filter(state__in=OPERATION_OPEN)
    found = {operation.pk: operation for operation in (*newest, *still_open)}
    return map(operation_change, sorted(found.values(), key=attrgetter("created_at")))


def _samples() -> Iterator[Change]:
    since = timezone.now() - SAMPLES_OF
    newest = AvailabilitySample.objects.filter(at__gte=since).order_by("-at")
    return iter(_sampled.of(_steps(newest[:SAMPLES])).values())


def _alerts() -> Iterator[Change]:
    ended = Alert.objects.filter(resolved_at__isnull=False).order_by("-resolved_at", "-pk")[:ALERTS]
    names = (*ALERT_STORED, "silence_id")
    found = [row for rows in (ended, alerts_going_on()) for row in tuple_rows(rows, *names)]
    return (
        change("alert", row.id, alert_fields(row)) for row in sorted(found, key=attrgetter("since", "id"))
    )


def _rules() -> Iterator[Change]:
    return map(rule_change, AlertRule.objects.order_by("name"))


def _silences() -> Iterator[Change]:
    newest = Silence.objects.order_by(F("ended_at").desc(nulls_first=True), "-pk")[:SILENCES]
    return map(silence_change, sorted(newest, key=attrgetter("created_at", "pk")))


def _steps(newest: QuerySet[Any]) -> Keys:
    """Of samples of a topology that say the same one after the other, the first and the last: a curve of
    steps needs no other."""
    levels = ("available", "total", "weighted", "tentative")
    rows = newest.values_list("pk", Cast("at", TextField()), "topology_id", *levels)
    kept: dict[Key, None] = {}
    last: dict[int, tuple[Key, tuple[Any, ...]]] = {}
    for pk, at, topology, *level in [*rows][::-1]:
        key, now = (pk, at), tuple(level)
        if topology not in last or last[topology][1] != now:
            kept |= dict.fromkeys([last[topology][0], key] if topology in last else [key])
        last[topology] = (key, now)
    kept |= dict.fromkeys(key for key, _ in last.values())
    return sorted(kept, key=lambda key: (key[1], key[0]))


def _samples_read(keys: Keys) -> dict[Key, Change]:
    rows = AvailabilitySample.objects.filter(pk__in=[pk for pk, _ in keys])
    found = tuple_rows(rows, "pk", *SAMPLE_STORED, topology="topology__name", key=Cast("at", TextField()))
    return {(row.pk, row.key): _fixed(sample_change(row, topology=row.topology)) for row in found}


def _fixed(row: Change) -> Change:
    fields: Any = msgspec.Raw(_encoder.encode(row["fields"]))
    return {**row, "fields": fields}


def _keys(rows: QuerySet[Any]) -> Keys:
    """Of rows that are written once; newest first becomes oldest first."""
    return [*rows.values_list("pk", Cast("at", TextField()))][::-1]


_told, _planned, _sampled = Unchanging(_entries_read), Unchanging(_plans_read), Unchanging(_samples_read)

KINDS: dict[str, Callable[[], Iterable[Change]]] = {
    "topology": _topologies,
    "partition": _partitions,
    "query": _queries,
    "node": _nodes,
    "incident": _incidents,
    "entry": _entries,
    "plan": _plans,
    "checkpoint": _checkpoints,
    "problem": _problems,
    "operation": _operations,
    "sample": _samples,
    "alert": _alerts,
    "rule": _rules,
    "silence": _silences,
}
