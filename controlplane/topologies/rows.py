"""The partition and query rows of a topology: making them match a graph, and describing them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from controlplane.events.representation import Change, removal
from controlplane.nodes.choices import NODE_GONE
from controlplane.nodes.selectors import nodes_known
from controlplane.topologies.bulk import rows_update
from controlplane.topologies.choices import PartitionState, QueryStatus
from controlplane.topologies.models import Partition, Query, Topology
from controlplane.topologies.representation import (
    PARTITION_METRICS,
    QUERY_METRICS,
    partition_change,
    query_change,
)
from domain.topology import Topology as TopologyGraph
from domain.topology import split_partition


@dataclass(frozen=True, slots=True)
class NodeIndex:
    """Names and ids of nodes, read once per call of a service; not of those that were forgotten, on which
    nothing is placed and which become more and more."""

    ids: dict[str, int]
    names: dict[int, str]
    gone: frozenset[int]

    @classmethod
    def load(cls) -> NodeIndex:
        rows = list(nodes_known().order_by().values_list("pk", "name", "state"))
        return cls(
            ids={name: pk for pk, name, _ in rows},
            names={pk: name for pk, name, _ in rows},
            gone=frozenset(pk for pk, _, state in rows if state in NODE_GONE),
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """State and place of each partition; status, availability and fidelity of each query, by partition id."""

    partitions: dict[str, tuple[str, int | None]]
    queries: dict[str, tuple[str, bool, float | None]]


@dataclass(slots=True)
class Rows:
    """The partitions and queries of one topology by partition id."""

    topology: Topology
    partitions: dict[str, Partition]
    queries: dict[str, Query]
    nodes: NodeIndex

    @classmethod
    def load(cls, topology: Topology) -> Rows:
        return cls.load_many([topology])[topology.name]

    @classmethod
    def load_many(cls, topologies: Collection[Topology], nodes: NodeIndex | None = None) -> dict[str, Rows]:
        """By the name of the topology, with as many queries as for one. nodes: as they are known already."""
        nodes = nodes or NodeIndex.load()
        found = {topology.pk: cls(topology, {}, {}, nodes) for topology in topologies}
        labels: dict[int, str] = {}
        for partition in Partition.objects.filter(topology__in=found):
            labels[partition.pk] = partition.label
            found[partition.topology_id].partitions[partition.label] = partition
        for query in Query.objects.filter(topology__in=found).order_by("partition_id"):
            found[query.topology_id].queries[labels[query.partition_id]] = query
        return {rows.topology.name: rows for rows in found.values()}

    def changes(self) -> list[Change]:
        """Upserts of every row, as the snapshot has them."""
        return [*self.partition_changes(self.partitions), *self.query_changes(self.queries)]

    def partition_changes(self, labels: Iterable[str], *, only: Iterable[str] | None = None) -> list[Change]:
        return [
            partition_change(
                self.partitions[label],
                topology=self.topology.name,
                node=self.nodes.names.get(self.partitions[label].node_id or 0),
                only=only,
            )
            for label in labels
        ]

    def query_changes(self, labels: Iterable[str], *, only: Iterable[str] | None = None) -> list[Change]:
        return [
            query_change(self.queries[label], topology=self.topology.name, partition=label, only=only)
            for label in labels
        ]

    def standing(self) -> Standing:
        """What operators must know of at once when it changes."""
        return Standing(
            partitions={label: (row.state, row.node_id) for label, row in self.partitions.items()},
            queries={label: (row.status, row.available, row.fidelity) for label, row in self.queries.items()},
        )

    def metrics_changes(self, before: Standing, *, all_partitions: bool) -> list[Change]:
        """What moved since `before` as a whole, of the other queries and of `all_partitions` the metrics."""
        now = self.standing()
        moved = [label for label, place in now.partitions.items() if place != before.partitions[label]]
        turned = [label for label, status in now.queries.items() if status != before.queries[label]]
        changes = [*self.partition_changes(moved), *self.query_changes(turned)]
        if all_partitions:
            others = sorted(self.partitions.keys() - set(moved))
            changes += self.partition_changes(others, only=PARTITION_METRICS)
        others = sorted(self.queries.keys() - set(turned))
        return [*changes, *self.query_changes(others, only=QUERY_METRICS)]

    def available(self) -> int:
        """How many queries are available."""
        return sum(query.available for query in self.queries.values())

    def tentative(self) -> int:
        """How many queries are not available and give tentative output."""
        return sum(one.fidelity is not None and not one.available for one in self.queries.values())

    def save(self) -> None:
        """Write what telemetry and plans change, with two statements."""
        of_partitions = ("node_id", "state", *PARTITION_METRICS)
        of_queries = ("status", "available", "fidelity", *QUERY_METRICS)
        rows_update(Partition, of_partitions, map(attrgetter("pk", *of_partitions), self.partitions.values()))
        rows_update(Query, of_queries, map(attrgetter("pk", *of_queries), self.queries.values()))


def rows_create(topology: Topology, graph: TopologyGraph, previous: TopologyGraph | None = None) -> Rows:
    """Make the rows match `graph`: missing ones are created, superfluous ones deleted.

    A priority that a user edited stays, unless the specification itself gives
    the operator another one than `previous` did.
    """
    existing = {row.label: row for row in Partition.objects.filter(topology=topology)}
    wanted = dict.fromkeys(graph.partitions)
    Partition.objects.filter(
        pk__in=[row.pk for label, row in existing.items() if label not in wanted]
    ).delete()
    Partition.objects.bulk_create(
        Partition(topology=topology, operator=operator, index=index)
        for operator, index in (split_partition(label) for label in wanted if label not in existing)
    )
    partitions = {row.label: row for row in Partition.objects.filter(topology=topology)}
    requests = {label: graph.operator_of(label).cpu_request for label in partitions}
    changed = [row for label, row in partitions.items() if row.cpu_request != requests[label]]
    rows_update(Partition, ("cpu_request",), [(row.pk, requests[row.label]) for row in changed])
    queries = {row.partition_id: row for row in Query.objects.filter(topology=topology)}
    fresh: list[Query] = []
    reprioritised: list[tuple[int, int]] = []
    for label in graph.queries:
        row = queries.pop(partitions[label].pk, None)
        priority = graph.priority(label)
        if row is None:
            fresh.append(Query(topology=topology, partition=partitions[label], priority=priority))
        elif previous and label in previous.queries and previous.priority(label) != priority:
            reprioritised.append((row.pk, priority))
    Query.objects.bulk_create(fresh)
    rows_update(Query, ("priority",), reprioritised)
    Query.objects.filter(pk__in=[row.pk for row in queries.values()]).delete()
    return Rows.load(topology)


def rows_removed(before: Iterable[Change], after: Iterable[Change]) -> list[Change]:
    """Removals of the rows that are in `before` and not in `after`."""
    kept = {(row["entity"], row["key"]) for row in after}
    return [removal(row["entity"], row["key"]) for row in before if (row["entity"], row["key"]) not in kept]


def rows_reset(rows: Rows, assignment: Mapping[str, str]) -> None:
    """Put every row into its state before the first epoch and on its planned node."""
    for label, partition in rows.partitions.items():
        partition.node_id = rows.nodes.ids.get(assignment.get(label, ""))
        partition.state = PartitionState.STARTING
        partition.epoch = 0
        partition.rows_in_rate = partition.rows_out_rate = 0.0
        partition.state_bytes = 0
    for query in rows.queries.values():
        query.status = QueryStatus.STARTING
        query.available = False
        query.latency = query.baseline_latency = query.relative_latency = None
        query.fidelity = None
        query.epoch = 0
    rows.save()
