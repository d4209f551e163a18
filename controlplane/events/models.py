"""Numbered events, operations and the audit trail."""

from __future__ import annotations

import uuid

from django.db import models

from controlplane.events.choices import Channel, EventKind, OperationKind, OperationState


class EventCounter(models.Model):
    """The single row (id 1) that numbers events.

    It is locked until the publishing transaction ends, so commit order is
    sequence order and a rolled-back publication leaves no gap. `trimmed` is the
    highest sequence that retention has removed: a client that has seen less
    must load a snapshot.
    """

    value = models.PositiveBigIntegerField(default=0)
    trimmed = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return str(self.value)


class Event(models.Model):
    """One committed change, as upserts and removals of the snapshot's entities."""

    sequence = models.PositiveBigIntegerField(primary_key=True)
    at = models.DateTimeField(db_index=True)
    kind = models.CharField(max_length=32, choices=EventKind.choices)
    topology = models.CharField(max_length=64, blank=True, default="")
    node = models.CharField(max_length=64, blank=True, default="")
    incident = models.PositiveIntegerField(null=True, blank=True)
    actor = models.CharField(max_length=150, default="system")
    reason = models.TextField(blank=True, default="")
    changes = models.JSONField(default=list)

    class Meta:
        ordering = ("sequence",)
        # Each with the order they are asked for in: sorting would read all events of a kind, which are long.
        indexes = (
            models.Index(fields=["kind", "sequence"], name="event_of_kind"),
            models.Index(fields=["topology", "sequence"], name="event_of_topology"),
            models.Index(fields=["node", "sequence"], name="event_of_node"),
            models.Index(fields=["incident", "sequence"], name="event_of_incident"),
        )

    def __str__(self) -> str:
        return f"{self.sequence} {self.kind}"


class Operation(models.Model):
    """An asynchronous action that a user asked for."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=32, choices=OperationKind.choices)
    target = models.CharField(max_length=128)
    state = models.CharField(max_length=16, choices=OperationState.choices, default=OperationState.PENDING)
    requested_by = models.CharField(max_length=150)
    reason = models.TextField(blank=True, default="")
    parameters = models.JSONField(default=dict, blank=True)
    result = models.JSONField(default=dict, blank=True)
    error = models.TextField(blank=True, default="")
    idempotency_key = models.CharField(max_length=128, blank=True, default="")
    request = models.CharField(
        max_length=64, blank=True, default="", help_text="digest of what was asked for under the key"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at",)
        indexes = (
            models.Index(fields=["state", "created_at"], name="operation_open"),
            models.Index(fields=["-created_at"], name="operation_created_at"),
        )
        constraints = (
            models.UniqueConstraint(
                fields=["requested_by", "idempotency_key"],
                condition=~models.Q(idempotency_key=""),
                name="operation_idempotency_unique",
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.target} ({self.state})"


class AuditEntry(models.Model):
    """Who changed what, when, through which channel and why."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.CharField(max_length=150, db_index=True)
    channel = models.CharField(max_length=8, choices=Channel.choices, default=Channel.SYSTEM)
    action = models.CharField(max_length=64, db_index=True)
    target = models.CharField(max_length=128, db_index=True)
    before = models.JSONField(null=True, blank=True)
    after = models.JSONField(null=True, blank=True)
    reason = models.TextField(blank=True, default="")

    class Meta:
        ordering = ("-at", "-id")
        verbose_name_plural = "audit entries"

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.target}"
