"""The entity tag of what can be edited of a webhook; how its deliveries go does not count."""

from __future__ import annotations

from controlplane.preconditions import entity_tag
from controlplane.webhooks.models import Webhook

WEBHOOK_FIELDS = ("url", "kinds", "topologies", "enabled")
"""What may be changed."""


def webhook_tag(webhook: Webhook) -> str:
    """Also another one after the system has disabled it: whoever edits it must hear of that first."""
    return entity_tag("webhook", webhook.pk, {field: getattr(webhook, field) for field in WEBHOOK_FIELDS})
