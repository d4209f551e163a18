"""States of global checkpoints."""

from __future__ import annotations

from controlplane.choices import ColouredChoices


class CheckpointState(ColouredChoices):
    STARTED = "started", "blue", "Started"
    COMPLETED = "completed", "green", "Completed"
    FAILED = "failed", "red", "Failed"
    UNDONE = "undone", "grey", "Undone"
