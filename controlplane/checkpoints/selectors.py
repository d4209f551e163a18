"""Reading checkpoints."""

from __future__ import annotations

from django.db.models import QuerySet

from controlplane.checkpoints.models import Checkpoint
from controlplane.topologies.selectors import SPEC_OF_TOPOLOGY


def checkpoint_list(topology: str | None = None) -> QuerySet[Checkpoint]:
    rows = Checkpoint.objects.select_related("topology").defer(SPEC_OF_TOPOLOGY)
    rows = rows.order_by("-epoch", "topology__name")
    return rows if topology is None else rows.filter(topology__name=topology)
