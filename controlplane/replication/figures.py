"""The fidelity of every topology that runs, now and without its worst rack, noted for alerts and metrics."""

from __future__ import annotations

from collections.abc import Mapping

import structlog
from django.utils import timezone

from controlplane.errors import Missing
from controlplane.events.services import writing
from controlplane.replication.models import FidelityFigure
from controlplane.replication.showing import losses_of_racks
from controlplane.topologies.choices import TopologyStatus
from controlplane.topologies.models import Topology

log = structlog.get_logger(__name__)

RUNS = (TopologyStatus.RUNNING, TopologyStatus.DEGRADED, TopologyStatus.RECOVERING)
MOST_PARTITIONS = 2_000
"""Of the largest topology that is computed again and again: as replication plans have it."""


def fidelities_note() -> None:
    """Compute them anew; of topologies that do not run, and of very large ones, there is none."""
    names = list(Topology.objects.filter(status__in=RUNS).values_list("name", flat=True))
    FidelityFigure.objects.exclude(topology__name__in=names).delete()
    for name in names:
        try:
            found = losses_of_racks(name, most_partitions=MOST_PARTITIONS)
        except Missing:  # deleted meanwhile
            continue
        if found is None:
            FidelityFigure.objects.filter(topology__name=name).delete()
            continue
        now, racks = found
        fidelity_store(name=name, now=now, racks=racks)


@writing
def fidelity_store(*, name: str, now: float, racks: Mapping[str, float]) -> None:
    """Keep the fidelity of a topology, unless it was deleted. racks: what the loss of each leaves."""
    topology = Topology.objects.filter(name=name).only("pk").first()
    if topology is None:
        return
    rack = min(racks, key=lambda one: racks[one], default="")
    FidelityFigure.objects.update_or_create(
        topology=topology,
        defaults={"at": timezone.now(), "now": now, "worst_rack": racks.get(rack), "rack": rack},
    )
