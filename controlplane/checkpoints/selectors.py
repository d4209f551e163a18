"""Reading checkpoints and savepoints."""

from __future__ import annotations

from django.db.models import QuerySet

from controlplane.checkpoints.choices import CheckpointState, SavepointState
from controlplane.checkpoints.models import Checkpoint, Savepoint
from controlplane.errors import Missing
from controlplane.topologies.models import Partition
from controlplane.topologies.selectors import SPEC_OF_TOPOLOGY

HIGHEST_EPOCH = 2**63 - 1


def checkpoint_list(topology: str | None = None) -> QuerySet[Checkpoint]:
    """Without the acknowledgements, which are large."""
    rows = Checkpoint.objects.select_related("topology").defer("acknowledgements", SPEC_OF_TOPOLOGY)
    rows = rows.order_by("-epoch", "topology__name")
    return rows if topology is None else rows.filter(topology__name=topology)


def checkpoint_get(topology: str, epoch: int) -> Checkpoint:
    """One checkpoint with its acknowledgements. Raises `Missing`."""
    checkpoint = None
    if epoch <= HIGHEST_EPOCH:
        rows = Checkpoint.objects.select_related("topology").defer(SPEC_OF_TOPOLOGY)
        checkpoint = rows.filter(topology__name=topology, epoch=epoch).first()
    if checkpoint is None:
        raise Missing(f"topology {topology!r} has no checkpoint {epoch}")
    return checkpoint


def checkpoint_missing(checkpoint: Checkpoint) -> list[str]:
    """Partitions that did not acknowledge a failed checkpoint; empty if no acknowledgements are kept."""
    if checkpoint.state != CheckpointState.FAILED or not checkpoint.acknowledgements:
        return []
    heard = {ack["partition"] for ack in checkpoint.acknowledgements}
    partitions = Partition.objects.filter(topology=checkpoint.topology).order_by("operator", "index")
    return [row.label for row in partitions if row.label not in heard]


def savepoint_list() -> QuerySet[Savepoint]:
    """Without the specifications, which are large, newest first."""
    rows = Savepoint.objects.exclude(state=SavepointState.DELETED).defer("spec")
    return rows.order_by("-created_at", "name")


def savepoint_get(name: str, *, lock: bool = False) -> Savepoint:
    """The savepoint called `name`; with `lock` its row stays locked until the transaction ends. Raises
    `Missing`."""
    rows = Savepoint.objects.select_for_update() if lock else Savepoint.objects.all()
    savepoint = rows.exclude(state=SavepointState.DELETED).filter(name=name).first()
    if savepoint is None:
        raise Missing(f"there is no savepoint {name!r}")
    return savepoint
