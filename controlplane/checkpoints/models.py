"""Metadata of global checkpoints; the state itself is in the checkpoint storage."""

from __future__ import annotations

from django.db import models

from controlplane.checkpoints.choices import CheckpointState


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
