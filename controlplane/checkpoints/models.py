"""Metadata of global checkpoints and of savepoints; the state itself is in the checkpoint storage."""

from __future__ import annotations

from django.core.validators import RegexValidator
from django.db import models

from controlplane.checkpoints.choices import CheckpointState, SavepointState


class Checkpoint(models.Model):
    """cp(P_k): `epoch` is k. A replayed boundary reuses the row with its newer generation."""

    topology = models.ForeignKey("topologies.Topology", on_delete=models.CASCADE, related_name="checkpoints")
    epoch = models.PositiveBigIntegerField()
    generation = models.PositiveIntegerField(default=0)
    state = models.CharField(max_length=16, choices=CheckpointState.choices, default=CheckpointState.STARTED)
    acknowledged = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(default=0)
    stored = models.BooleanField(default=False, help_text="whether it is in storage and can be restored")
    size_bytes = models.PositiveBigIntegerField(default=0)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    restored_at = models.DateTimeField(null=True, blank=True)
    cause = models.TextField(blank=True, default="", help_text="why it failed")
    requested_by = models.CharField(max_length=150, blank=True, default="")
    acknowledgements = models.JSONField(
        default=list,
        blank=True,
        help_text="one for each partition, for the newest that have ended",
    )

    class Meta:
        ordering = ("topology", "-epoch")
        indexes = (
            models.Index(fields=["-epoch"], name="checkpoint_epoch"),
            models.Index(fields=["-started_at"], name="checkpoint_started_at"),
        )
        constraints = (models.UniqueConstraint(fields=["topology", "epoch"], name="checkpoint_epoch_unique"),)

    def __str__(self) -> str:
        return f"{self.topology} cp({self.epoch})"


SAVEPOINT_NAME = r"^[a-z0-9][a-z0-9._-]{0,62}$"


class Savepoint(models.Model):
    """A checkpoint that was copied, under a name, and stays until it is deleted: whatever becomes of its
    topology, a deployment can begin with it."""

    name = models.CharField(
        max_length=63,
        unique=True,
        validators=[RegexValidator(SAVEPOINT_NAME, "a small letter or digit, then also dots, - or _")],
    )
    key = models.CharField(max_length=32, help_text="of its archive in the checkpoint storage")
    topology = models.CharField(max_length=64, db_index=True, help_text="name of the topology that it is of")
    version = models.PositiveIntegerField(default=0, help_text="of the topology")
    epoch = models.PositiveBigIntegerField(default=0, help_text="the checkpoint that was copied")
    spec = models.JSONField(default=dict, help_text="the topology as it ran")
    renewed = models.JSONField(
        null=True,
        blank=True,
        help_text="operators of it whose rows could not be recomputed from the first tuple; empty: not known",
    )
    state = models.CharField(max_length=16, choices=SavepointState.choices, default=SavepointState.MAKING)
    size_bytes = models.PositiveBigIntegerField(default=0, help_text="of the archive")
    cause = models.TextField(blank=True, default="", help_text="why it failed")
    imported = models.BooleanField(default=False, help_text="whether it came as a file")
    requested_by = models.CharField(max_length=150)
    reason = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True, help_text="when it was complete, or failed")

    class Meta:
        ordering = ("-created_at", "name")

    def __str__(self) -> str:
        return self.name
