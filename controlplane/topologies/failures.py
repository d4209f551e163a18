"""What detection and recovery change on topologies' rows.

This runs inside the caller's transaction, and gives the changes for the caller's event, so that an incident
and its effect on the topologies are one event.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from operator import attrgetter

from django.utils import timezone

from controlplane.events.representation import Change
from controlplane.topologies.bulk import rows_update
from controlplane.topologies.choices import PartitionState, QueryStatus, TopologyStatus
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import AvailabilitySample, Partition, Query, Topology
from controlplane.topologies.representation import sample_change, topology_change
from controlplane.topologies.rows import NodeIndex, Rows
from controlplane.topologies.samples import sample_of

OF_TOPOLOGY = ("status", "error", "generation", "updated_at")
OF_PARTITION = ("node_id", "state")
OF_QUERY = ("status", "available", "parked")


class Affected:
    """The topologies that one step changes. They are read together and written together: one statement after
    the other for hundreds of topologies would keep other writers waiting for seconds.

    The rows of the topologies are locked; their partitions and queries are changed by nothing else meanwhile
    (`controlplane.events.services.writing`). Nothing is written before `write`.
    """

    def __init__(self) -> None:
        self._topologies: dict[str, Topology] = {}
        self._rows: dict[str, Rows] = {}
        self._nodes: NodeIndex | None = None
        self._standing: dict[int, Topology] = {}
        self._partitions: dict[int, Partition] = {}
        self._queries: dict[int, Query] = {}
        self._samples: list[AvailabilitySample] = []

    def read(self, names: Iterable[str], *, rows: bool) -> None:
        """Have these topologies, and their `rows`, read at once."""
        wanted = [*dict.fromkeys(names)]
        missing = [name for name in wanted if name not in self._topologies]
        if missing:
            found = Topology.objects.select_for_update().filter(name__in=missing).order_by("pk")
            self._topologies |= {topology.name: topology for topology in found}
        if rows and (missing := [name for name in wanted if name not in self._rows]):
            self._nodes = self._nodes or NodeIndex.load()
            self._rows |= Rows.load_many([self._topologies[name] for name in missing], self._nodes)

    def topology(self, name: str) -> Topology:
        self.read([name], rows=False)
        return self._topologies[name]

    def rows(self, name: str) -> Rows:
        self.read([name], rows=True)
        return self._rows[name]

    def write(self) -> None:
        """Store what has changed since the last time."""
        now = timezone.now()
        for topology in self._standing.values():
            topology.updated_at = now
        of_topologies = map(attrgetter("pk", *OF_TOPOLOGY), self._standing.values())
        rows_update(Topology, OF_TOPOLOGY, of_topologies)
        rows_update(Partition, OF_PARTITION, map(attrgetter("pk", *OF_PARTITION), self._partitions.values()))
        rows_update(Query, OF_QUERY, map(attrgetter("pk", *OF_QUERY), self._queries.values()))
        AvailabilitySample.objects.bulk_create(self._samples)
        for written in (self._standing, self._partitions, self._queries, self._samples):
            written.clear()

    # ---- changes -----------------------------------------------------------------------------------

    def generation_begin(self, name: str, generation: int) -> None:
        topology = self.topology(name)
        topology.generation = generation
        self._standing[topology.pk] = topology

    def status_set(self, name: str, status: TopologyStatus) -> Change:
        topology = self.topology(name)
        topology.status, topology.error = status, ""
        self._standing[topology.pk] = topology
        return topology_change(topology)

    def fail(self, name: str, partitions: Collection[str]) -> list[Change]:
        """Mark `partitions` failed and every query that needs one of them unavailable.

        The topology becomes degraded unless it is already recovering or at its end.
        """
        topology, rows = self.topology(name), self.rows(name)
        failed = [label for label in partitions if label in rows.partitions]
        for label in failed:
            partition = rows.partitions[label]
            partition.state = PartitionState.FAILED
            self._partitions[partition.pk] = partition
        down = [label for label in graph_of(topology.spec).failed_queries(failed) if label in rows.queries]
        for label in down:
            query = rows.queries[label]
            query.status = QueryStatus.PARKED if query.parked else QueryStatus.FAILED
            query.available = False
            self._queries[query.pk] = query
        changes = [*rows.partition_changes(failed), *rows.query_changes(down)]
        if down:
            # The curve falls when the failure is known, not when the driver reports again.
            sample = sample_of(rows, at=timezone.now())
            self._samples.append(sample)
            changes.append(sample_change(sample, topology=name))
        if topology.status in (TopologyStatus.RUNNING, TopologyStatus.DEPLOYING):
            changes.insert(0, self.status_set(name, TopologyStatus.DEGRADED))
        return changes

    def park(self, name: str, queries: Collection[str]) -> list[Change]:
        """These queries are parked from now on, and no others; each shows it once it has stopped."""
        rows = self.rows(name)
        changed = [label for label, row in rows.queries.items() if row.parked != (label in queries)]
        for label in changed:
            row = rows.queries[label]
            row.parked = label in queries
            if not row.parked and row.status == QueryStatus.PARKED:
                row.status = QueryStatus.FAILED
            self._queries[row.pk] = row
        return rows.query_changes(changed)

    def assign(
        self,
        name: str,
        assignment: Mapping[str, str],
        states: Mapping[str, PartitionState],
        *,
        whole: bool = False,
    ) -> list[Change]:
        """Put partitions on the nodes (names) a plan gives them, with new `states` where given.

        whole: the assignment is that of a plan, so that what it leaves out is to run nowhere and has failed.
        """
        rows = self.rows(name)
        touched: list[str] = []
        for label, partition in rows.partitions.items():
            node = rows.nodes.ids.get(assignment.get(label, ""), partition.node_id)
            state = states.get(label, partition.state)
            if whole and label not in assignment:
                node, state = None, PartitionState.FAILED
            if (node, state) != (partition.node_id, partition.state):
                partition.node_id, partition.state = node, state
                self._partitions[partition.pk] = partition
                touched.append(label)
        return rows.partition_changes(touched)
