"""Parking queries: what only they need stops, and returns from the checkpoint when they are unparked.

The incident that parks them stays open as long as one is parked. No global checkpoint completes meanwhile,
since that needs every partition, so the epoch log and the nodes keep everything since the last one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from django.utils import timezone

from controlplane.errors import Conflict, Missing
from controlplane.events.services import writing
from controlplane.incidents.choices import IncidentTrigger
from controlplane.incidents.loading import machine_load
from controlplane.incidents.models import Incident
from controlplane.incidents.selectors import incidents_open
from controlplane.incidents.services import incident_open_or_grow
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import Query, Topology
from controlplane.topologies.permitted import permit
from controlplane.topologies.selectors import topology_get
from domain.planning import natural_key
from domain.recovery.events import ParkAsked


@writing
def queries_park(*, topology: str, queries: Iterable[str], actor: str, reason: str) -> Incident:
    """Park these queries besides those that are parked. Raises `Missing` for a query that does not exist and
    `Conflict` where that is not possible."""
    row, wanted = _known(topology, queries)
    parkable(row, wanted)
    return _park(row, _parked(row) | wanted, named=wanted, actor=actor, reason=reason)


@writing
def queries_unpark(*, topology: str, queries: Iterable[str], actor: str, reason: str) -> Incident:
    """Let these queries return, all that are parked if none is named, as soon as there is room. Raises as
    `queries_park`."""
    row, wanted = _known(topology, queries)
    unparkable(row, wanted)
    back = wanted or _parked(row)
    return _park(row, _parked(row) - back, named=frozenset(), actor=actor, reason=reason)


def parkable(topology: Topology, queries: Collection[str]) -> None:
    """Raise `Conflict` where these queries cannot be parked now."""
    permit(topology, "park")
    if not queries:
        raise Conflict(f"topology {topology.name!r}: name at least one query to park")
    parked = _parked(topology)
    if not set(queries) - parked:
        if _parked_by_policy(topology) & set(queries):
            return  # it would return by itself
        raise Conflict(f"topology {topology.name!r}: {_listed(queries)} parked already")
    graph = graph_of(topology.spec)
    if parked.union(queries) >= set(graph.queries):
        raise Conflict(
            f"topology {topology.name!r} would have no query left that runs: pause or undeploy it instead"
        )
    if graph.exclusive_partitions(parked.union(queries)) == graph.exclusive_partitions(parked):
        raise Conflict(f"topology {topology.name!r}: other queries need all that runs for {_listed(queries)}")


def unparkable(topology: Topology, queries: Collection[str]) -> None:
    """Raise `Conflict` where these queries, or any if none is named, are not parked."""
    permit(topology, "unpark")
    parked = _parked(topology)
    if running := set(queries) - parked:
        raise Conflict(f"topology {topology.name!r}: {_listed(running)} not parked")
    if not parked:
        raise Conflict(f"topology {topology.name!r} has no query that is parked")


def _known(topology: str, queries: Iterable[str]) -> tuple[Topology, frozenset[str]]:
    row = topology_get(topology)
    wanted = frozenset(queries)
    if unknown := wanted.difference(graph_of(row.spec).queries):
        raise Missing(f"topology {topology!r} has no query {', '.join(sorted(unknown, key=natural_key))}")
    return row, wanted


def _parked(topology: Topology) -> frozenset[str]:
    rows = Query.objects.filter(topology=topology, parked=True).select_related("partition")
    return frozenset(row.partition.label for row in rows)


def _parked_by_policy(topology: Topology) -> frozenset[str]:
    incident = incidents_open().filter(topologies=topology).first()
    if incident is None:
        return frozenset()
    memory = machine_load(incident, may_plan=False, damaged=True).memory
    return memory.parked_by_policy.get(topology.name, frozenset())


def _park(
    topology: Topology, queries: frozenset[str], *, named: frozenset[str], actor: str, reason: str
) -> Incident:
    now = timezone.now()
    event = ParkAsked(
        at=now.timestamp(),
        topology=topology.name,
        queries=queries,
        named=named,
        actor=actor,
        reason=reason,
    )
    return incident_open_or_grow(events=[event], at=now, trigger=IncidentTrigger.MANUAL)


def _listed(queries: Collection[str]) -> str:
    names = sorted(queries, key=natural_key)
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"
