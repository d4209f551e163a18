"""What the loss of a single rack would take down of each topology, as pages and clients show it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.db.models import Q, TextField
from django.db.models.functions import Cast

from controlplane.events.choices import EventKind
from controlplane.events.services import event_publish, writing
from controlplane.nodes.selectors import node_racks
from controlplane.topologies.choices import TOPOLOGY_LIVE
from controlplane.topologies.graphs import graph_of_text
from controlplane.topologies.models import Partition, Topology, rack_exposure_unknown
from controlplane.topologies.representation import topology_change
from controlplane.topologies.selectors import query_priorities
from domain.planning.racks import RackLoss, domain_of, rack_losses
from domain.topology import partition_id

SHOWN = 8
"""Racks that are named, the worst first."""


def rack_exposure_note() -> None:
    """Store it anew for every topology, and tell where it has changed."""
    racks = node_racks()
    known = Q(status__in=TOPOLOGY_LIVE)
    rows = Topology.objects.filter(known | ~Q(rack_exposure=rack_exposure_unknown())).defer("spec")
    for topology in rows.annotate(spec_text=Cast("spec", TextField())):
        exposure = rack_exposure_unknown()
        if topology.status in TOPOLOGY_LIVE and any(racks.values()):
            exposure = _exposure(topology, racks)
        if exposure != topology.rack_exposure:
            _store(topology, exposure)


@writing
def _store(topology: Topology, exposure: dict[str, Any]) -> None:
    topology.rack_exposure = exposure
    topology.save(update_fields=["rack_exposure", "updated_at"])
    event_publish(
        kind=EventKind.TOPOLOGY_UPDATED,
        topology=topology.name,
        changes=[topology_change(topology, only=("rack_exposure",))],
    )


def _exposure(topology: Any, racks: dict[str, str]) -> dict[str, Any]:
    rows = Partition.objects.filter(topology=topology, node__isnull=False)
    columns = rows.values_list("operator", "index", "node__name")
    assignment = {partition_id(operator, index): node for operator, index, node in columns}
    safe = _replicated_elsewhere(topology, assignment, racks)
    exposed = {partition: node for partition, node in assignment.items() if partition not in safe}
    losses = rack_losses(graph_of_text(topology.spec_text), exposed, racks, query_priorities(topology.name))
    return exposure_shown(losses)


def _replicated_elsewhere(
    topology: Topology, assignment: Mapping[str, str], racks: Mapping[str, str]
) -> frozenset[str]:
    """Partitions that go on whichever rack is lost: their replica has caught up, on a node of another one."""
    ready = {p: one["node"] for p, one in topology.shadows.items() if one["caught_up"] and p in assignment}
    return frozenset(
        partition
        for partition, node in ready.items()
        if node in racks
        and (home := assignment[partition]) in racks
        and domain_of(node, racks[node]) != domain_of(home, racks[home])
    )


def exposure_shown(losses: Collection[RackLoss]) -> dict[str, Any]:
    """losses: of every rack, the worst first."""
    shown = [
        {
            "rack": loss.domain.rack,
            "node": loss.domain.node,
            "queries": len(loss.queries),
            "share": round(loss.share, 4),
            "common": loss.common,
        }
        for loss in losses
    ]
    fatal = sum(loss.everything for loss in losses)
    return {"racks": len(shown), "fatal": fatal, "losses": shown[:SHOWN]}
