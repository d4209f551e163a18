"""States of global checkpoints, and of savepoints."""

from __future__ import annotations

from controlplane.choices import Choices


class CheckpointState(Choices):
    STARTED = "started", "Started"
    COMPLETED = "completed", "Completed"
    FAILED = "failed", "Failed"
    UNDONE = "undone", "Undone"


class SavepointState(Choices):
    MAKING = "making", "Being made"
    COMPLETE = "complete", "Complete"
    FAILED = "failed", "Failed"
    DELETED = "deleted", "Deleted"
