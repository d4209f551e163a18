"""Rows to facts, facts to health: the one place where the health of topologies, queries, nodes and incidents
comes from. The snapshot, events, REST and metrics all read here (read side)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

from django.conf import settings
from django.db.models import Count, Q

from controlplane.events.representation import rounded
from controlplane.incidents.choices import PlanState
from controlplane.incidents.models import Incident, RecoveryPlan
from controlplane.incidents.selectors import incidents_open
from controlplane.nodes.choices import NODE_GONE, NodeRequestState
from controlplane.nodes.models import NodeRequest
from controlplane.nodes.selectors import nodes_known
from controlplane.topologies.choices import RecoveryMethod
from controlplane.topologies.models import Partition, Query, Topology
from domain.health import (
    Counts,
    Health,
    IncidentFacts,
    Limits,
    QueryFacts,
    catch_up_longest,
    incident_health,
    node_health,
    queries_count,
    query_health,
    topology_health,
)
from domain.topology import partition_id

Healths = dict[str, Health]
"""By the key of the entity, as the snapshot has it."""


class Reading:
    """The health of things at one moment; each kind is read when it is first asked for.

    topologies: names of those that matter; all if None.
    """

    def __init__(self, topologies: Collection[str] | None = None) -> None:
        self._names = topologies

    @cached_property
    def queries(self) -> Healths:
        return {key: health for rows in self._queries.values() for key, health in rows.items()}

    @cached_property
    def topologies(self) -> Healths:
        return {
            name: topology_health(
                status=status, queries=queries_count(self._queries[name].values()), catch_up=catch_up
            )
            for name, (status, catch_up) in self._statuses.items()
        }

    def counts(self, topology: str) -> Counts:
        return queries_count(self._queries[topology].values())

    def nodes(self, names: Collection[str] | None = None) -> Healths:
        """Of the nodes that lists name."""
        rows = nodes_known() if names is None else nodes_known().filter(name__in=names)
        return self._nodes(dict(rows.values_list("name", "state")))

    def nodes_gone(self) -> Healths:
        return self._nodes(dict(nodes_known().filter(state__in=NODE_GONE).values_list("name", "state")))

    def _nodes(self, states: Mapping[str, str]) -> Healths:
        gone = {name for name, state in states.items() if state in NODE_GONE}
        awaited = self._awaited(gone) if gone else set()
        return {name: node_health(state=state, awaited=name in awaited) for name, state in states.items()}

    def incidents(self, numbers: Collection[int] | None = None) -> Healths:
        """By number; those that are open if `numbers` is None."""
        wanted_numbers = {number for number, _, _ in self._open} if numbers is None else numbers
        if not wanted_numbers:
            return {}
        rows = Incident.objects.filter(number__in=wanted_numbers)
        columns = rows.values_list("pk", "number", "state", "method", "paused", "proposals", "summary")
        found = [*columns]
        pks = [row[0] for row in found]
        wanted, here = self._requested(pks)
        unapplied = self._unapplied(pks)
        return {
            str(number): incident_health(
                IncidentFacts(
                    state=state,
                    moves=method == RecoveryMethod.MOVE,
                    paused=paused,
                    proposed=len(proposals),
                    wanted=wanted[pk],
                    here=here[pk],
                    unapplied=unapplied[pk],
                    catch_up=catch_up_longest(self._catch_ups.get(number, ())),
                    **queries_of(summary),
                )
            )
            for pk, number, state, method, paused, proposals, summary in found
        }

    # ---- rows ----------------------------------------------------------------------------------------

    @cached_property
    def _statuses(self) -> dict[str, tuple[str, float | None]]:
        rows = (
            Topology.objects.all() if self._names is None else Topology.objects.filter(name__in=self._names)
        )
        return {
            name: (status, catch_up)
            for name, status, catch_up in rows.values_list("name", "status", "catch_up")
        }

    @cached_property
    def _queries(self) -> defaultdict[str, Healths]:
        rows = (
            Query.objects.all()
            if self._names is None
            else Query.objects.filter(topology__name__in=self._names)
        )
        limits = Limits.of(settings.RESURGE.theta)
        found: defaultdict[str, Healths] = defaultdict(dict)
        columns = (
            "topology__name",
            "partition__operator",
            "partition__index",
            "status",
            "available",
            "relative_latency",
            "fidelity",
        )
        for name, operator, index, status, available, relative, fidelity in rows.values_list(
            *columns
        ).order_by("pk"):
            if name not in self._statuses:
                continue
            facts = QueryFacts(
                topology=self._statuses[name][0],
                status=status,
                available=available,
                relative=rounded(relative),
                incident=name in self._concerned,
                fidelity=fidelity,
            )
            found[name][f"{name}/{partition_id(operator, index)}"] = query_health(facts, limits)
        return found

    @cached_property
    def _open(self) -> list[tuple[int, str | None, float | None]]:
        """(number, topology, its estimate) of the open incidents; None for one that concerns no topology."""
        columns = ("number", "topologies__name", "topologies__catch_up")
        return [*incidents_open().values_list(*columns)]

    @cached_property
    def _concerned(self) -> set[str]:
        """Topologies with an open incident."""
        return {topology for _, topology, _ in self._open if topology is not None}

    @cached_property
    def _catch_ups(self) -> Mapping[int, list[float | None]]:
        found: defaultdict[int, list[float | None]] = defaultdict(list)
        for number, _, catch_up in self._open:
            found[number].append(catch_up)
        return found

    def _awaited(self, gone: Collection[str]) -> set[str]:
        # Without an order: that of partitions would make each of them a row.
        placed = Partition.objects.filter(node__name__in=gone).order_by().values_list("node__name", flat=True)
        recovered = incidents_open().filter(failed_nodes__name__in=gone)
        return {*placed.distinct(), *recovered.values_list("failed_nodes__name", flat=True)}

    def _requested(self, incidents: Collection[int]) -> tuple[defaultdict[int, int], defaultdict[int, int]]:
        """Of incidents by id: nodes that were asked for and not given up, and those that have joined."""
        joined = Count("pk", filter=Q(state=NodeRequestState.JOINED))
        rows = NodeRequest.objects.filter(incident__in=incidents).exclude(state=NodeRequestState.FAILED)
        wanted: defaultdict[int, int] = defaultdict(int)
        here: defaultdict[int, int] = defaultdict(int)
        for pk, asked, came in (
            rows.order_by().values_list("incident").annotate(asked=Count("pk"), came=joined)
        ):
            wanted[pk], here[pk] = asked, came
        return wanted, here

    def _unapplied(self, incidents: Collection[int]) -> defaultdict[int, list[tuple[str, int]]]:
        found: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
        rows = RecoveryPlan.objects.filter(incident__in=incidents, state=PlanState.PUBLISHED)
        for pk, topology, generation in rows.order_by("topology__name").values_list(
            "incident", "topology__name", "generation"
        ):
            found[pk].append((topology, generation))
        return found


def queries_of(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What an incident's summary says of the queries that it took down."""
    failed = {
        f"{name}/{label}" for name, labels in summary.get("failed_queries", {}).items() for label in labels
    }
    return {
        "failed": len(failed),
        "returned": len(failed & summary.get("returned", {}).keys()),
        "accepted": bool(summary.get("accepted")),
    }
