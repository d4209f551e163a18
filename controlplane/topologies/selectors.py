"""Reading topologies (read side)."""

from __future__ import annotations

from typing import Any

from django.db.models import CharField, Count, Max, Q, QuerySet, TextField, Value
from django.db.models.functions import Cast, Concat

from controlplane.errors import Missing
from controlplane.topologies.choices import QUERY_MEASURED
from controlplane.topologies.models import (
    AvailabilitySample,
    Partition,
    Problem,
    Query,
    TentativePeriod,
    Topology,
    TopologyVersion,
)
from domain.topology import partition_id

SPEC_OF_TOPOLOGY = "topology__spec"
"""To be deferred wherever rows come with their topology: parsing it takes milliseconds, for every row."""


def topology_get(name: str, *, lock: bool = False, spec: bool = True) -> Topology:
    """The topology called `name`; with `lock` its row stays locked until the transaction ends, without `spec`
    its specification is not read.

    Raises `Missing`.
    """
    rows = Topology.objects.select_for_update() if lock else Topology.objects.all()
    rows = rows if spec else rows.defer("spec")
    topology = rows.filter(name=name).first()
    if topology is None:
        raise Missing(f"there is no topology {name!r}")
    return topology


def topology_require(name: str) -> None:
    """Raise `Missing` unless there is a topology called `name`."""
    if not Topology.objects.filter(name=name).exists():
        raise Missing(f"there is no topology {name!r}")


def topology_list() -> QuerySet[Topology]:
    """All topologies with what a fleet page shows of their queries and partitions."""
    return Topology.objects.annotate(
        queries_total=Count("queries", distinct=True),
        queries_available=Count("queries", filter=Q(queries__available=True), distinct=True),
        # Of those that give results: what a failed one had before it failed is no latency of now.
        worst_relative_latency=Max("queries__relative_latency", filter=Q(queries__status__in=QUERY_MEASURED)),
    ).order_by("name")


def topology_written(name: str) -> Any:
    """One row of `topology_list` with its specification as text (`spec_text`). Raises `Missing`."""
    rows = topology_list().defer("spec").annotate(spec_text=Cast("spec", TextField()))
    topology = rows.filter(name=name).first()
    if topology is None:
        raise Missing(f"there is no topology {name!r}")
    return topology


def topology_worded(name: str) -> Any:
    """The topology called `name` with its specification as text (`spec_text`) only. Raises `Missing`."""
    rows = Topology.objects.defer("spec").annotate(spec_text=Cast("spec", TextField()))
    topology = rows.filter(name=name).first()
    if topology is None:
        raise Missing(f"there is no topology {name!r}")
    return topology


def label_column(partition: str = "") -> Concat:
    """`Partition.label` as a column; `partition` is the way to it, with its underscores."""
    return Concat(
        f"{partition}operator",
        Value("["),
        Cast(f"{partition}index", CharField()),
        Value("]"),
        output_field=CharField(),
    )


def partition_list(topology: str) -> QuerySet[Partition]:
    return (
        Partition.objects.filter(topology__name=topology)
        .select_related("topology", "node")
        .defer(SPEC_OF_TOPOLOGY)
        .order_by("operator", "index")
    )


def query_list(topology: str) -> QuerySet[Query]:
    return (
        Query.objects.filter(topology__name=topology)
        .select_related("topology", "partition", "partition__node")
        .defer(SPEC_OF_TOPOLOGY)
        .order_by("partition__operator", "partition__index")
    )


def query_priorities(topology: str) -> dict[str, int]:
    """Query id to priority."""
    rows = Query.objects.filter(topology__name=topology)
    columns = rows.values_list("partition__operator", "partition__index", "priority")
    return {partition_id(operator, index): priority for operator, index, priority in columns}


def version_list(topology: str) -> QuerySet[TopologyVersion]:
    return TopologyVersion.objects.filter(topology__name=topology).order_by("-number")


def availability_series(topology: str) -> QuerySet[AvailabilitySample]:
    return AvailabilitySample.objects.filter(topology__name=topology).order_by("at")


def tentative_list(topology: str) -> QuerySet[TentativePeriod]:
    return TentativePeriod.objects.filter(topology__name=topology).order_by("-began_at", "query")


def problem_list() -> QuerySet[Problem]:
    return Problem.objects.select_related("topology").defer(SPEC_OF_TOPOLOGY).order_by("-at", "-id")
