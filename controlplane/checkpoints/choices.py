"""States of global checkpoints."""

from __future__ import annotations

from controlplane.choices import Choices


class CheckpointState(Choices):
    STARTED = "started", "Started"
    COMPLETED = "completed", "Completed"
    FAILED = "failed", "Failed"
    UNDONE = "undone", "Undone"
