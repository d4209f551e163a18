"""Figures over time, as pages and REST show them (read side)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby

from django.db.models import QuerySet
from django.utils import timezone

from controlplane.errors import Missing
from controlplane.measurements.buckets import Figure, begin_of, level_for, together
from controlplane.measurements.choices import UNITS, MeasuredKind
from controlplane.measurements.models import Measurement
from controlplane.nodes.selectors import node_get
from controlplane.topologies.models import Partition, Query
from controlplane.topologies.selectors import label_column, topology_get


@dataclass(slots=True)
class Line:
    """One figure over time; None where it was not measured."""

    unit: str
    mean: list[float | None] = field(default_factory=list)
    low: list[float | None] = field(default_factory=list)
    high: list[float | None] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Course:
    """seconds: length of the buckets. at: when each began, the oldest first."""

    seconds: int
    since: datetime
    until: datetime
    at: list[datetime]
    figures: dict[str, Line]


def topology_course(topology: str, *, since: datetime, until: datetime) -> Course:
    """Raises `Missing`."""
    row = topology_get(topology, spec=False)
    return _course(MeasuredKind.TOPOLOGY, Measurement.objects.filter(topology=row, part=""), since, until)


def query_course(topology: str, query: str, *, since: datetime, until: datetime) -> Course:
    """Raises `Missing`."""
    row = topology_get(topology, spec=False)
    known = Query.objects.filter(topology=row).alias(label=label_column("partition__"))
    if not known.filter(label=query).exists():
        raise Missing(f"topology {topology!r} has no query {query!r}")
    rows = Measurement.objects.filter(topology=row, part=query)
    return _course(MeasuredKind.QUERY, rows, since, until)


def operator_course(topology: str, operator: str, *, since: datetime, until: datetime) -> Course:
    """Raises `Missing`."""
    row = topology_get(topology, spec=False)
    if not Partition.objects.filter(topology=row, operator=operator).exists():
        raise Missing(f"topology {topology!r} has no operator {operator!r}")
    rows = Measurement.objects.filter(topology=row, part=operator)
    return _course(MeasuredKind.OPERATOR, rows, since, until)


def node_course(name: str, *, since: datetime, until: datetime) -> Course:
    """Raises `Missing`."""
    rows = Measurement.objects.filter(node=node_get(name))
    return _course(MeasuredKind.NODE, rows, since, until)


def _course(kind: MeasuredKind, rows: QuerySet[Measurement], since: datetime, until: datetime) -> Course:
    level = level_for(since, until, now=timezone.now())
    length = together(level, since, until)
    course = Course(length, since, until, [], {name: Line(unit) for name, unit in UNITS[kind].items()})
    found = rows.filter(kind=kind, seconds=level.seconds, at__gte=since, at__lt=until).order_by("at")
    rows_of = groupby(found.values_list("at", "figures"), key=lambda row: begin_of(row[0], length))
    for at, buckets in rows_of:
        course.at.append(at)
        told = [figures for _, figures in buckets]
        for name, line in course.figures.items():
            parts = [Figure.read(figures[name]) for figures in told if name in figures]
            figure = Figure.merged(parts) if parts else None
            line.mean.append(None if figure is None else figure.mean)
            line.low.append(None if figure is None else figure.low)
            line.high.append(None if figure is None else figure.high)
    return course
