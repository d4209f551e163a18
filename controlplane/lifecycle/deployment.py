"""The first plan of a deployment: which node runs which partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from controlplane.errors import Conflict
from controlplane.events.representation import Change
from controlplane.events.services import writing
from controlplane.incidents.choices import PLAN_CURRENT, PlanKind, PlanState
from controlplane.incidents.models import RecoveryPlan
from controlplane.incidents.plan_states import plan_move
from controlplane.incidents.representation import plan_change
from controlplane.nodes.choices import NODE_USABLE
from controlplane.nodes.models import Node
from controlplane.nodes.selectors import node_racks
from controlplane.topologies.capacity import PERCENT, cpu_model_read
from controlplane.topologies.choices import TOPOLOGY_LIVE
from controlplane.topologies.graphs import graph_of
from controlplane.topologies.models import PLANNED_CPU, Partition, Topology
from controlplane.topologies.rows import Rows, rows_reset
from controlplane.topologies.selectors import query_priorities
from controlplane.topologies.tentative import tentative_end
from controlplane.wording import some_of
from domain.health.shape import counted
from domain.planning import natural_key
from domain.planning.balance import placed_by_racks
from domain.planning.deployment import initial_placement
from domain.planning.placement import NodeSpace
from domain.planning.racks import RackTerms


@writing
def deploy_plan_create(*, topology: Topology, reason: str) -> tuple[RecoveryPlan | None, list[Change]]:
    """Place the partitions of a topology that is to start, as the next generation: from nothing, or from the
    checkpoint or savepoint that it `continues` from.

    Returns the plan and the changes for the caller's event; no plan while no node
    is alive (the sweep calls again). Raises `Conflict` when the partitions do not fit.
    """
    nodes = node_spaces(excluding=topology)
    if not nodes:
        _generation_begin(topology)
        rows = Rows.load(topology)
        rows_reset(rows, {})
        return None, rows.changes()
    graph = graph_of(topology.spec)
    measured = {
        row.label: row.planned_cpu * PERCENT
        for row in Partition.objects.filter(topology=topology)
        if row.planned_cpu
    }
    bound = settings.RESURGE.max_utilisation
    placement = initial_placement(graph, nodes, costs=measured, max_utilisation=bound)
    if placement.unplaced:
        raise Conflict(
            f"topology {topology.name!r} does not fit on {counted(len(nodes), 'node')}: no room for "
            f"{some_of(placement.unplaced)}; add nodes or raise RESURGE_MAX_UTILISATION (now {bound:g})"
        )
    racks = RackTerms(
        of=node_racks(), priorities=query_priorities(topology.name), price=settings.RESURGE.rack_price
    )
    placement = placed_by_racks(graph, placement, nodes, measured, racks, max_utilisation=bound)
    _generation_begin(topology)
    now = timezone.now()
    current = RecoveryPlan.objects.filter(topology=topology, state__in=PLAN_CURRENT)
    superseded = [
        earlier
        for earlier in current.select_related("incident")
        if plan_move(earlier, PlanState.SUPERSEDED, at=now)
    ]
    plan = RecoveryPlan.objects.create(
        topology=topology,
        generation=topology.generation,
        **_beginning(topology, placement.assignment),
        assignment=placement.assignment,
        reason=reason,
        explanation={"load": placement.load},
    )
    rows = Rows.load(topology)
    tentative_end(topology, rows, at=now)
    rows_reset(rows, placement.assignment)
    changes = rows.changes()
    changes += [
        plan_change(earlier, topology=topology.name, incident=earlier.incident and earlier.incident.number)
        for earlier in superseded
    ]
    changes.append(plan_change(plan, topology=topology.name, incident=None))
    return plan, changes


def _generation_begin(topology: Topology) -> None:
    """Go over to the next generation, also where there is no plan of it yet: telemetry of earlier runs is
    void."""
    topology.generation += 1
    topology.applied_generation = topology.generation
    topology.acting, topology.shadows, topology.keys = {}, {}, {}
    told = ("acting", "shadows", "keys")
    topology.save(update_fields=["generation", "applied_generation", *told, "updated_at"])


def _beginning(topology: Topology, assignment: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a plan that say where the topology begins."""
    if topology.continues is None:
        return {"kind": PlanKind.DEPLOY}
    return {
        "kind": PlanKind.RESTORE,
        "from_savepoint": bool(topology.continues.get("savepoint")),
        "rollback": True,
        "checkpoint": topology.continues["checkpoint"],
        "stateless": topology.continues["stateless"],
        "divided": topology.continues.get("divided", []),
        "restore": sorted(assignment, key=natural_key),
    }


def node_spaces(*, excluding: Topology | None = None) -> list[NodeSpace]:
    """Alive nodes with the load other topologies were measured to put on them (three queries)."""
    load: defaultdict[int, float] = defaultdict(float)
    others = Partition.objects.filter(topology__status__in=TOPOLOGY_LIVE, node__isnull=False)
    if excluding is not None:
        others = others.exclude(topology=excluding)
    for node, cpu in others.values_list("node_id", PLANNED_CPU):
        load[node] += cpu * PERCENT
    # What this topology took on every node before is what it will take again.
    live = Topology.objects.filter(Q(status__in=TOPOLOGY_LIVE) | Q(pk=excluding.pk if excluding else None))
    models = [cpu_model_read(name, stored) for name, stored in live.values_list("name", "cpu_model")]
    everywhere = sum(model.node for model in models) * PERCENT
    return [
        NodeSpace(
            name=node.name,
            capacity=node.capacity,
            load=node.agent_percent + everywhere + load[node.pk],
            standby=node.standby,
        )
        for node in Node.objects.filter(state__in=NODE_USABLE, standby=False)
    ]
