"""How checkpoints look to clients, in the snapshot and in events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.checkpoints.permitted import checkpoint_refusals
from controlplane.events.representation import Change, change, shown

if TYPE_CHECKING:
    from controlplane.checkpoints.models import Checkpoint

CHECKPOINT_STORED = (
    *("epoch", "generation", "state", "stored", "acknowledged", "total", "size_bytes", "started_at"),
    *("ended_at", "restored_at", "cause", "requested_by"),
)
CHECKPOINT_FIELDS = ("topology", *CHECKPOINT_STORED)
"""What is shown of a checkpoint, apart from what it permits: by the snapshot, by events and by REST."""


def checkpoint_change(checkpoint: Checkpoint, *, topology: str) -> Change:
    return change(
        "checkpoint",
        f"{topology}/{checkpoint.epoch}",
        shown(checkpoint, CHECKPOINT_FIELDS, topology=topology, refusals=checkpoint_refusals(checkpoint)),
    )
