"""What all reports of a driver have in common: the topology that they are of, and the states that follow."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

import structlog

from controlplane.topologies.choices import Desired, PartitionState
from controlplane.topologies.figures import figures_settle
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import Topology
from controlplane.topologies.rows import Rows
from controlplane.topologies.states import partition_states, query_health, topology_status
from domain.availability import QueryHealth
from domain.messages import DriverState

log = structlog.get_logger(__name__)


class UnknownPlanError(ValueError):
    """A report of a plan that was never made. Believed, it would make all later reports look old."""


def plan_known(topology: Topology, generation: int) -> None:
    """Raises `UnknownPlanError`."""
    if generation > topology.generation:
        raise UnknownPlanError(
            f"it is of plan {generation}, and {topology.generation} is the newest of {topology.name}"
        )


def topology_reported(name: str, generation: int) -> Topology | None:
    """The locked row, or None where the message is about nothing we know or about an earlier plan."""
    topology = Topology.objects.select_for_update().filter(name=name).first()
    if topology is None:
        log.warning("telemetry of an unknown topology", topology=name)
        return None
    if generation < topology.applied_generation:
        log.debug("telemetry of an earlier generation", topology=name, generation=generation)
        return None
    plan_known(topology, generation)
    if generation > topology.applied_generation:
        topology.acting = _still_acting(topology, generation)
    topology.applied_generation = generation
    return topology


def _still_acting(topology: Topology, generation: int) -> dict[str, str]:
    """What goes on to act when the driver goes over to this plan: the takeovers that it does not know of. The
    driver says so itself, but perhaps later than it reports its first epoch under the plan."""
    plan = topology.plans.filter(generation=generation).only("acting").first() if topology.acting else None
    known: dict[str, str] = plan.acting if plan is not None else {}
    return {p: node for p, node in topology.acting.items() if known.get(p) != node}


def states_apply(
    rows: Rows,
    state: DriverState,
    *,
    absent: Collection[str] = (),
    health: Mapping[str, QueryHealth] = MappingProxyType({}),
    behind: Collection[str] | None = None,
) -> None:
    """Derive all states of a topology, its partitions and queries from that of its driver; the caller saves
    them.

    absent: partitions that the driver misses; health: verdicts on the queries that were measured; behind:
    partitions that have yet to catch up, None where the report does not say.
    """
    topology, graph = rows.topology, graph_of(rows.topology.spec)
    topology.status = topology_status(
        state,
        committed=topology.committed_epoch,
        wanted=topology.desired == Desired.RUNNING,
        current=topology.status,
    )
    # The driver may not have noticed yet what the heartbeats have shown.
    failed = {label for label, row in rows.partitions.items() if row.node_id in rows.nodes.gone}
    awaited = {label for label in absent if label in rows.partitions} - failed
    failed |= awaited
    # Nor has it applied the plan that leaves these out.
    failed.update(
        label
        for label, row in rows.partitions.items()
        if row.node_id is None and row.state == PartitionState.FAILED
    )
    states = partition_states(
        graph,
        state=state,
        failed=failed,
        previous={label: row.state for label, row in rows.partitions.items()},
        behind=behind,
        awaited=awaited,
    )
    for label, partition in rows.partitions.items():
        partition.state = states.get(label, partition.state)
    _queries_settle(rows, state, failed, health)
    figures_settle(topology, rows)


def _queries_settle(
    rows: Rows, state: DriverState, failed: Collection[str], health: Mapping[str, QueryHealth]
) -> None:
    """Derive the states of queries from those of their partitions. failed: partitions."""
    graph = graph_of(rows.topology.spec)
    catching_up = (PartitionState.RESTORING, PartitionState.REPLAYING)
    restored = {label for label, row in rows.partitions.items() if row.state in catching_up}
    for label, query in rows.queries.items():
        needed = graph.query_partitions.get(label, frozenset())
        verdict = health.get(label)
        if verdict is not None:
            query.latency = verdict.latency
            query.baseline_latency = verdict.baseline
            query.relative_latency = verdict.relative
        query.status, query.available = query_health(
            failed=not needed.isdisjoint(failed),
            restored=not needed.isdisjoint(restored),
            healthy=verdict.available if verdict is not None else query.available,
            state=state,
            previous=query.status,
            was_available=query.available,
            parked=query.parked,
        )
