"""Webhooks, their secrets, and the log of what was sent to them."""

from __future__ import annotations

import uuid

from django.core.validators import RegexValidator
from django.db import models

from controlplane.webhooks.choices import DeliveryState
from domain.topology.spec import TOPOLOGY_NAME_PATTERN

URL_LENGTH = 500


class Webhook(models.Model):
    """An HTTP server outside the installation that receives events.

    `lease` is held by the only worker that sends to it at a time. Other workers may send from `free_at` on:
    the end of the lease (the worker may have died) or of the back-off after a failure.
    """

    name = models.CharField(
        max_length=64,
        unique=True,
        validators=[RegexValidator(TOPOLOGY_NAME_PATTERN, "a small letter, then small letters, digits or -")],
        help_text="its name in logs, problems and the audit trail; cannot be changed",
    )
    url = models.CharField(max_length=URL_LENGTH, help_text="http or https; redirects are not followed")
    kinds = models.JSONField(default=list, help_text="kinds of events")
    topologies = models.JSONField(
        default=list,
        blank=True,
        help_text="names of topologies; empty: all. Events of nodes are always sent.",
    )
    enabled = models.BooleanField(default=True)
    disabled_because = models.TextField(
        blank=True, default="", help_text="why the system disabled it; empty where a user did"
    )
    failing_since = models.DateTimeField(null=True, blank=True, help_text="first failure after a success")
    failures = models.PositiveIntegerField(default=0, help_text="failed attempts since the last success")
    succeeded_at = models.DateTimeField(null=True, blank=True, help_text="the last success")
    lease = models.UUIDField(null=True, blank=True, editable=False)
    free_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class WebhookSecret(models.Model):
    """What a signing secret is derived from, together with the installation's key (see `keys`).

    The newest has no `expires_at`; an earlier one also signs until it expires.
    """

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="secrets")
    salt = models.CharField(max_length=64)
    fingerprint = models.CharField(max_length=64, help_text="tells whether the secret can still be derived")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.webhook} {self.fingerprint[:8]}"


class Delivery(models.Model):
    """One event for one webhook. Its id goes with every attempt, so that receivers can drop duplicates."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # No constraint: a webhook is deleted at once, even while deliveries are written for it. They are trimmed
    # later.
    webhook = models.ForeignKey(
        Webhook, on_delete=models.DO_NOTHING, db_constraint=False, related_name="deliveries"
    )
    kind = models.CharField(max_length=32)
    sequence = models.PositiveBigIntegerField(null=True, blank=True, help_text="of the event; none: a test")
    topology = models.CharField(max_length=64, blank=True, default="")
    state = models.CharField(max_length=16, choices=DeliveryState.choices, default=DeliveryState.PENDING)
    due_at = models.DateTimeField(help_text="the next attempt, while pending")
    attempts = models.PositiveIntegerField(default=0, help_text="all attempts so far")
    tries = models.PositiveIntegerField(default=0, help_text="attempts since it was last asked for")
    status = models.PositiveSmallIntegerField(null=True, blank=True, help_text="last HTTP status")
    error = models.TextField(blank=True, default="", help_text="why the last attempt failed")
    requested_by = models.CharField(
        max_length=150, blank=True, default="", help_text="who asked for the test or the redelivery"
    )
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at", "-sequence")
        verbose_name_plural = "deliveries"
        indexes = (
            models.Index(fields=["state", "webhook", "due_at"], name="delivery_due"),
            models.Index(fields=["webhook", "-created_at"], name="delivery_webhook_created"),
            models.Index(fields=["ended_at"], name="delivery_ended"),
        )
        constraints = (models.UniqueConstraint(fields=["webhook", "sequence"], name="delivery_event_unique"),)

    def __str__(self) -> str:
        return (
            f"{self.kind} ({self.state})"
            if self.sequence is None
            else f"{self.sequence} {self.kind} ({self.state})"
        )


class DeliveryAttempt(models.Model):
    """One request that was sent, or was about to be sent when its worker died (`duration` is then null)."""

    delivery = models.ForeignKey(Delivery, on_delete=models.CASCADE, related_name="log")
    number = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    duration = models.FloatField(null=True, blank=True, help_text="seconds")
    status = models.PositiveSmallIntegerField(null=True, blank=True, help_text="HTTP status")
    error = models.TextField(blank=True, default="")
    excerpt = models.TextField(blank=True, default="", help_text="beginning of the answer's body")

    class Meta:
        ordering = ("delivery", "number")
        constraints = (models.UniqueConstraint(fields=["delivery", "number"], name="attempt_number_unique"),)

    def __str__(self) -> str:
        return f"attempt {self.number}"
