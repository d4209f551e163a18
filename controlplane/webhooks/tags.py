"""The entity tag of a webhook's editable fields; its deliveries do not change it."""

from __future__ import annotations

from controlplane.preconditions import entity_tag
from controlplane.webhooks.models import Webhook

WEBHOOK_FIELDS = ("url", "kinds", "topologies", "enabled")
"""Fields that may be changed."""


def webhook_tag(webhook: Webhook) -> str:
    """The tag also changes when the system disables the webhook, so that an editor learns of it first."""
    return entity_tag("webhook", webhook.pk, {field: getattr(webhook, field) for field in WEBHOOK_FIELDS})
