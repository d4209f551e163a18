"""Keeps figures of topologies, queries, operators and nodes over time, in longer buckets the older they are.

What is told every second is taken from the events that tell it; the rest is read as it is at the moment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

import msgspec
from django.db.models import Max, Min, Sum, TextField
from django.db.models.functions import Cast
from django.utils import timezone

from controlplane.events.choices import EventKind
from controlplane.events.models import Event
from controlplane.events.services import writing
from controlplane.measurements.buckets import FINEST, LEVELS, Figure, Level, begin_of
from controlplane.measurements.choices import UNITS, MeasuredKind
from controlplane.measurements.models import Measurement
from controlplane.nodes.models import NodeSample
from controlplane.topologies.choices import TopologyStatus
from controlplane.topologies.models import Partition, Topology

LATEST: Final = timedelta(seconds=120)
"""How far back a look goes. What a longer absence of the workers left out is a gap."""

SETTLED: Final = timedelta(seconds=1)
"""After which the events of a bucket are all there."""

MEASURED: Final = (TopologyStatus.RUNNING, TopologyStatus.DEGRADED, TopologyStatus.RECOVERING)

BATCH: Final = 500
"""Rows that one statement writes."""

Key = tuple[MeasuredKind, int, str, datetime]
"""Kind, primary key of the topology or node, part, when the bucket began."""


class _Fields(msgspec.Struct):
    """What events tell that is kept: of topologies, of queries and of samples of availability."""

    topology: str | None = None
    input_rate: float | None = None
    load: float | None = None
    lag: float | None = None
    available: float | bool | None = None
    total: float | None = None
    weighted: float | None = None
    latency: float | None = None
    relative_latency: float | None = None


class _Change(msgspec.Struct):
    entity: str
    key: str
    fields: _Fields | None = None


_decoder = msgspec.json.Decoder(list[_Change])


class Gathered:
    """The values of each bucket, before they are summed up."""

    def __init__(self) -> None:
        self._values: defaultdict[Key, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(self, key: Key, values: Mapping[str, float | None]) -> None:
        for figure, value in values.items():
            if value is not None:
                self._values[key][figure].append(float(value))

    def rows(self) -> Iterator[Measurement]:
        for key, figures in self._values.items():
            yield _row(key, FINEST, {name: Figure.of(values) for name, values in figures.items()})


def measurements_take(*, now: datetime | None = None) -> int:
    """Store the figures of the buckets that have ended, merge short buckets into longer ones, and delete
    short ones that are old. Returns how many rows were stored.

    Two at once, or one twice, store the same rows once.
    """
    now = now or timezone.now()
    until = begin_of(now - SETTLED, FINEST)
    newest = _newest(FINEST, until)
    since = begin_of(now - LATEST, FINEST)
    if newest is not None:
        since = max(since, newest + timedelta(seconds=FINEST))
    stored = 0
    if since < until:
        gathered = Gathered()
        ids: dict[str, int] = dict(Topology.objects.values_list("name", "pk"))
        _told(gathered, ids, since, until)
        _operators(gathered, until - timedelta(seconds=FINEST))
        _nodes(gathered, since, until)
        stored += _stored(list(gathered.rows()))
    for finer, coarser in pairwise(LEVELS):
        stored += _stored(list(_thinned(finer, coarser, until)))
    for level in LEVELS:
        if level.age is not None:
            aged = Measurement.objects.filter(
                seconds=level.seconds, at__lt=now - timedelta(seconds=level.age)
            )
            aged.delete()
    return stored


def _newest(seconds: int, until: datetime) -> datetime | None:
    """When the newest stored bucket before `until` began: later ones are of a clock that was put back."""
    rows = Measurement.objects.filter(seconds=seconds, at__lt=until)
    newest: datetime | None = rows.aggregate(at=Max("at"))["at"]
    return newest


def _told(gathered: Gathered, ids: Mapping[str, int], since: datetime, until: datetime) -> None:
    """What metrics events told of topologies, queries and availability."""
    events = Event.objects.filter(kind=EventKind.TOPOLOGY_METRICS, at__gte=since, at__lt=until)
    of_topology = tuple(UNITS[MeasuredKind.TOPOLOGY])
    of_query = tuple(UNITS[MeasuredKind.QUERY])
    for at, text in events.values_list("at", Cast("changes", TextField())).iterator():
        begin = begin_of(at, FINEST)
        for change in _decoder.decode(text):
            fields = change.fields
            if fields is None:
                continue
            if change.entity == "query":
                topology, _, part = change.key.partition("/")
                if topology in ids:
                    values = {name: getattr(fields, name) for name in of_query}
                    gathered.add((MeasuredKind.QUERY, ids[topology], part, begin), values)
            elif change.entity in ("topology", "sample"):
                name = (fields.topology or "") if change.entity == "sample" else change.key
                if name in ids:
                    values = {name: getattr(fields, name) for name in of_topology}
                    gathered.add((MeasuredKind.TOPOLOGY, ids[name], "", begin), values)


def _operators(gathered: Gathered, begin: datetime) -> None:
    """Sums over the partitions of each operator, as they are now: events tell only those that changed."""
    names = tuple(UNITS[MeasuredKind.OPERATOR])
    rows = (
        Partition.objects.filter(topology__status__in=MEASURED)
        .values_list("topology_id", "operator")
        .annotate(*(Sum(name) for name in names))
    )
    for topology, operator, *values in rows:
        gathered.add(
            (MeasuredKind.OPERATOR, topology, operator, begin), dict(zip(names, values, strict=True))
        )


def _nodes(gathered: Gathered, since: datetime, until: datetime) -> None:
    names = tuple(UNITS[MeasuredKind.NODE])
    samples = NodeSample.objects.filter(at__gte=since, at__lt=until).values_list("node_id", "at", *names)
    for node, at, *values in samples:
        gathered.add(
            (MeasuredKind.NODE, node, "", begin_of(at, FINEST)), dict(zip(names, values, strict=True))
        )


def _thinned(finer: Level, coarser: Level, until: datetime) -> Iterator[Measurement]:
    """Rows of the coarser level for the buckets that have ended since the newest one."""
    end = begin_of(until, coarser.seconds)
    newest = _newest(coarser.seconds, end)
    fine = Measurement.objects.filter(seconds=finer.seconds, at__lt=end)
    if newest is None:
        oldest = fine.aggregate(at=Min("at"))["at"]
        if oldest is None:
            return
        since = begin_of(oldest, coarser.seconds)
    else:
        since = newest + timedelta(seconds=coarser.seconds)
    merged: defaultdict[Key, defaultdict[str, list[Figure]]] = defaultdict(lambda: defaultdict(list))
    rows = fine.filter(at__gte=since).values_list("kind", "topology_id", "node_id", "part", "at", "figures")
    for kind, topology, node, part, at, figures in rows.iterator():
        key = MeasuredKind(kind), topology or node, part, begin_of(at, coarser.seconds)
        for name, stored in figures.items():
            merged[key][name].append(Figure.read(stored))
    for key, found in merged.items():
        yield _row(key, coarser.seconds, {name: Figure.merged(figures) for name, figures in found.items()})


def _row(key: Key, seconds: int, figures: Mapping[str, Figure]) -> Measurement:
    kind, of, part, at = key
    return Measurement(
        kind=kind,
        topology_id=None if kind == MeasuredKind.NODE else of,
        node_id=of if kind == MeasuredKind.NODE else None,
        part=part,
        seconds=seconds,
        at=at,
        figures={name: figure.stored() for name, figure in figures.items()},
    )


def _stored(rows: Sequence[Measurement]) -> int:
    if rows:
        measurements_store(rows)
    return len(rows)


@writing
def measurements_store(rows: Sequence[Measurement]) -> None:
    """Store rows that are not there yet. They lock their topologies and nodes, as other services do."""
    Measurement.objects.bulk_create(rows, batch_size=BATCH, ignore_conflicts=True)
