"""Figures over time for seeded installations: the last two hours, the last day, and the week before."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from django.db import connection

from controlplane.measurements.buckets import LEVELS, Figure, begin_of
from controlplane.measurements.choices import UNITS, MeasuredKind
from controlplane.measurements.models import Measurement
from controlplane.nodes.models import Node
from controlplane.topologies.models import Partition, Query, Topology

POINTS = {10: 180, 60: 360, 600: 300}
"""Of each level; fewer than there may be, which is enough to be looked at."""

USUAL = {
    "input_rate": 1_000.0, "load": 0.4, "lag": 0.3, "available": 15.0, "total": 15.0, "weighted": 1.0,
    "latency": 1.2, "relative_latency": 1.0, "rows_in_rate": 800.0, "rows_out_rate": 200.0, "cpu": 0.05,
    "state_bytes": 4e6, "cpu_percent": 35.0, "predicted_percent": 32.0, "throttled": 0.02,
}  # fmt: skip
_Row = tuple[MeasuredKind, int | None, int | None, str, int, datetime]
STEADY = frozenset({"available", "total", "weighted"})


def figures_write(topology: Topology, now: datetime) -> None:
    operators = Partition.objects.filter(topology=topology).values_list("operator", flat=True)
    queries = [
        row.partition.label for row in Query.objects.filter(topology=topology).select_related("partition")
    ]
    parts = [
        (MeasuredKind.TOPOLOGY, ""),
        *((MeasuredKind.OPERATOR, name) for name in sorted(set(operators))),
        *((MeasuredKind.QUERY, name) for name in queries),
    ]
    _insert(
        (kind, topology.pk, None, part, seconds, at) for seconds, at in _times(now) for kind, part in parts
    )


def node_figures_write(now: datetime) -> None:
    _insert(
        (MeasuredKind.NODE, None, node.pk, "", seconds, at)
        for node in Node.objects.all()
        for seconds, at in _times(now)
    )


def _insert(rows: Iterable[_Row]) -> None:
    """Tens of thousands of rows: as models they took half of the time of a seeding."""
    texts: dict[tuple[MeasuredKind, datetime], str] = {}
    stored = []
    for kind, topology, node, part, seconds, at in rows:
        text = texts.get((kind, at)) or texts.setdefault((kind, at), json.dumps(_figures(kind, at)))
        moment = connection.ops.adapt_datetimefield_value(at)
        stored.append((kind, topology, node, part, seconds, moment, text))
    columns = "kind, topology_id, node_id, part, seconds, at, figures"
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {Measurement._meta.db_table} ({columns}) VALUES (%s, %s, %s, %s, %s, %s, %s)",  # noqa: S608 - a table of ours
            stored,
        )


def _times(now: datetime) -> Iterator[tuple[int, datetime]]:
    """A gap of a tenth in the middle: the workers were away."""
    for level in LEVELS:
        points = POINTS[level.seconds]
        end = begin_of(now, level.seconds)
        for k in range(points, 0, -1):
            if not 0.45 < k / points < 0.55:
                yield level.seconds, end - timedelta(seconds=k * level.seconds)


def _figures(kind: MeasuredKind, at: datetime) -> dict[str, list[float]]:
    wave = 1 + 0.2 * math.sin(at.timestamp() / 400) + 0.05 * math.sin(at.timestamp() / 31)
    found = {}
    for name in UNITS[kind]:
        value = USUAL[name] * (1 if name in STEADY else wave)
        found[name] = Figure(10, value, value * 0.9, value * (1 if name in STEADY else 1.3)).stored()
    return found
