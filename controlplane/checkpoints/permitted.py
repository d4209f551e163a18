"""What a checkpoint permits. Whether its topology permits to go back to one is the topology's to say."""

from __future__ import annotations

from controlplane.checkpoints.models import Checkpoint


def checkpoint_refusals(checkpoint: Checkpoint) -> dict[str, str]:
    """Action to why it is refused now; an action that is not named is permitted."""
    return {} if checkpoint.stored else {"restore": f"checkpoint {checkpoint.epoch} is not in storage"}
