"""The audit trail: who changed what, through which channel, and why."""

from __future__ import annotations

from typing import Any, TypedDict

from controlplane.events.choices import Channel
from controlplane.events.models import AuditEntry


class By(TypedDict):
    """Keyword arguments of every service that changes something: who asks, why, and through which channel."""

    actor: str
    reason: str
    channel: Channel


def audit_record(
    *,
    actor: str,
    channel: Channel | str,
    action: str,
    target: str,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    reason: str = "",
) -> AuditEntry:
    """Write one audit entry, in the transaction of the change it describes."""
    return AuditEntry.objects.create(
        actor=actor,
        channel=str(channel),
        action=action,
        target=target,
        before=before,
        after=after,
        reason=reason,
    )
