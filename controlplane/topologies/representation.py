"""How topologies and their parts look to clients, in the snapshot and in events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from controlplane.events.representation import Change, change, iso, rounded, shown
from controlplane.topologies.drawing import specification_fields
from controlplane.topologies.permitted import topology_refusals
from domain.topology import partition_id

if TYPE_CHECKING:
    from controlplane.topologies.models import AvailabilitySample, Partition, Problem, Query, Topology


POLICY_FIELDS = (
    "method",
    "planner",
    "rollback",
    "approval",
    "rebalancing",
    "overload",
    "slow_nodes",
    "correlation_threshold",
    "correlation_window",
    "replication_mode",
    "replication_planner",
    "replication_budget",
    "tentative_output",
    "tentative_fidelity",
    "tentative_worth",
    "tentative_except",
)
"""How a topology is to be recovered, whether replicas run, what a replication plan is asked for, and which
queries go on without lost inputs.
Numbers may be None: those of the installation, and of the budget a quarter of the partitions."""

TOPOLOGY_METRICS = (
    "status",
    "error",
    "generation",
    "applied_generation",
    "head_epoch",
    "committed_epoch",
    "checkpoint_epoch",
    *("input_rate", "load", "lag", "catch_up", "overloaded_since"),
)


TOPOLOGY_FIELDS = (
    *("name", "version", "guarantee", "status", "desired", "error", "method", "policy", "generation"),
    *("applied_generation", "head_epoch", "committed_epoch", "checkpoint_epoch", "input_rate"),
    *("load", "lag", "catch_up", "overloaded_since", "slow_since", "rack_exposure"),
    *("shadows", "acting", "keys"),
    *("deployed_at", "created_at"),
)
"""What is shown of a topology, apart from what it permits: by the snapshot, by events and by REST. What is
in its specification (`specification_fields`) costs a parse and changes only with the version."""


def topology_change(topology: Topology, *, only: Iterable[str] | None = None, graph: bool = False) -> Change:
    fields = shown(
        topology,
        TOPOLOGY_FIELDS,
        policy={field: getattr(topology, field) for field in POLICY_FIELDS},
        input_rate=rounded(topology.input_rate, 1),
        load=rounded(topology.load),
        lag=rounded(topology.lag, 1),
        refusals=topology_refusals(topology),
    )
    if graph:
        fields |= specification_fields(topology.spec)
    return change("topology", topology.name, fields, only)


PARTITION_METRICS = ("epoch", "cpu", "rows_in_rate", "rows_out_rate", "state_bytes")
PARTITION_STORED = ("operator", "index", "node", "state", "cpu_request", *PARTITION_METRICS)
PARTITION_FIELDS = ("partition", "topology", *PARTITION_STORED)
"""What is shown of a partition: by the snapshot, by events and by REST. `partition` is its id, `O3[0]`."""

QUERY_METRICS = ("latency", "baseline_latency", "relative_latency", "epoch")
QUERY_STORED = ("priority", "status", "available", "parked", "fidelity", *QUERY_METRICS)
QUERY_FIELDS = ("partition", "topology", *QUERY_STORED)
"""Likewise of a query."""

PROBLEM_STORED = ("at", "first_at", "severity", "where", "what", "hint", "count")
PROBLEM_FIELDS = ("topology", *PROBLEM_STORED)
"""Likewise of a problem."""

TENTATIVE_STORED = (
    *("query", "began_at", "ended_at", "first_epoch", "last_epoch", "fidelity", "corrected_at"),
    *("stayed", "changed", "appeared", "vanished", "problem"),
)
"""Of a time in which a query went on without a part of its input, over REST."""

SAMPLE_STORED = ("at", "available", "total", "weighted", "tentative")
SAMPLE_FIELDS = ("topology", *SAMPLE_STORED)
"""Likewise of how many queries were available at an instant."""


def partition_change(
    partition: Partition, *, topology: str, node: str | None, only: Iterable[str] | None = None
) -> Change:
    """`node` is the node's name; the caller has it without a query per row. Measures were rounded when they
    were stored: there are too many partitions to do it here."""
    label = partition_id(partition.operator, partition.index)
    fields = shown(partition, PARTITION_FIELDS, partition=label, topology=topology, node=node)
    return change("partition", f"{topology}/{label}", fields, only)


def query_change(query: Query, *, topology: str, partition: str, only: Iterable[str] | None = None) -> Change:
    fields = shown(
        query,
        QUERY_FIELDS,
        partition=partition,
        topology=topology,
        latency=rounded(query.latency),
        baseline_latency=rounded(query.baseline_latency),
        relative_latency=rounded(query.relative_latency),
    )
    return change("query", f"{topology}/{partition}", fields, only)


def problem_change(problem: Problem, *, topology: str | None) -> Change:
    return change("problem", problem.pk, shown(problem, PROBLEM_FIELDS, topology=topology))


def sample_change(sample: AvailabilitySample, *, topology: str) -> Change:
    at = iso(sample.at)
    fields = shown(sample, SAMPLE_FIELDS, topology=topology, at=at, weighted=rounded(sample.weighted))
    return change("sample", f"{topology}/{at}", fields)
