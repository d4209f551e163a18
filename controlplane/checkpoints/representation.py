"""How checkpoints look to clients, in the snapshot and in events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.checkpoints.permitted import checkpoint_refusals
from controlplane.events.representation import Change, change, iso

if TYPE_CHECKING:
    from controlplane.checkpoints.models import Checkpoint


def checkpoint_change(checkpoint: Checkpoint, *, topology: str) -> Change:
    return change(
        "checkpoint",
        f"{topology}/{checkpoint.epoch}",
        {
            "topology": topology,
            "epoch": checkpoint.epoch,
            "generation": checkpoint.generation,
            "state": checkpoint.state,
            "stored": checkpoint.stored,
            "acknowledged": checkpoint.acknowledged,
            "total": checkpoint.total,
            "size_bytes": checkpoint.size_bytes,
            "started_at": iso(checkpoint.started_at),
            "ended_at": iso(checkpoint.ended_at),
            "restored_at": iso(checkpoint.restored_at),
            "cause": checkpoint.cause,
            "requested_by": checkpoint.requested_by,
            "refusals": checkpoint_refusals(checkpoint),
        },
    )
