"""Answers to creations, kept under the idempotency key of the request."""

from __future__ import annotations

from django.db import models


class KeptAnswer(models.Model):
    """What a request was answered, for when the same comes again. Actions have their operation instead."""

    actor = models.CharField(max_length=150)
    key = models.CharField(max_length=128)
    request = models.CharField(max_length=64, help_text="digest of method, address and body")
    status = models.PositiveSmallIntegerField(default=0)
    headers = models.JSONField(default=dict)
    body = models.JSONField(null=True)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["actor", "key"], name="kept_answer_key_unique"),)

    def __str__(self) -> str:
        return f"{self.actor} {self.key}"
