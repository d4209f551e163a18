"""What is known of the CPU that topologies take on nodes: stored with each topology, as drivers and agents go
on measuring it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import structlog
from django.db import transaction

from controlplane.topologies.models import Topology
from domain.capacity import CpuModel, Work

log = structlog.get_logger(__name__)

PERCENT = 100.0
"""Stored costs are CPU seconds per second; planning counts percent of one core."""


def cpu_model_read(name: str, stored: Mapping[str, Any]) -> CpuModel:
    """The stored model; one that cannot be read is as good as none, and the next windows replace it."""
    try:
        model = msgspec.convert(stored, CpuModel)
    except msgspec.ValidationError as error:
        log.warning("stored CPU model not readable: learning begins anew", topology=name, error=str(error))
        return CpuModel()
    return model if model.readable else CpuModel()


@transaction.atomic
def cpu_model_learn(*, topology: str, windows: Iterable[tuple[Work, float]], tasks: float, at: float) -> None:
    """Learn from windows that ended about `at` (Unix seconds): what the topology did on a node, per second,
    and the cores that it took there. tasks: Spark tasks per second on one node at the normal pace."""
    row = Topology.objects.select_for_update().only("name", "cpu_model").filter(name=topology).first()
    if row is None:
        return
    model = cpu_model_read(topology, row.cpu_model)
    model.learn(windows, at=at)
    model.tasks = tasks
    row.cpu_model = msgspec.to_builtins(model)
    row.save(update_fields=["cpu_model"])
