"""Reading events, operations and the audit trail."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Q, QuerySet

from controlplane.events.choices import Channel
from controlplane.events.models import AuditEntry, Event, EventCounter, Operation

MOST_CHOICES = 500
CONFIDENTIAL = ("account", "token", "webhook")
"""Areas of actions that only administrators read of, as they alone read accounts, tokens and webhooks."""


def event_list(*, after: int = 0) -> QuerySet[Event]:
    """Events after sequence `after`, in order."""
    return Event.objects.filter(sequence__gt=after).order_by("sequence")


def event_position() -> tuple[int, int]:
    """The last sequence and the highest one removed by retention (0 where none)."""
    counter = EventCounter.objects.filter(pk=1).first()
    return (counter.value, counter.trimmed) if counter else (0, 0)


def operation_list() -> QuerySet[Operation]:
    return Operation.objects.order_by("-created_at")


def audit_list() -> QuerySet[AuditEntry]:
    return AuditEntry.objects.order_by("-at", "-id")


def audit_shown(*, reader: str, everything: bool) -> QuerySet[AuditEntry]:
    """What a user may read of the trail: everything, or what is not confidential and their own tokens."""
    if everything:
        return audit_list()
    hidden = _in_areas(CONFIDENTIAL) & ~(_in_areas(("token",)) & Q(target=reader))
    return audit_list().exclude(hidden)


def audit_of(*, areas: Iterable[str], target: str) -> QuerySet[AuditEntry]:
    """What was done to `target`, newest first; an area is what comes before the dot of an action."""
    return audit_list().filter(_in_areas(areas), target=target)


def _in_areas(areas: Iterable[str]) -> Q:
    wanted = Q(pk__in=())
    for area in areas:
        wanted |= Q(action__startswith=f"{area}.")
    return wanted


def audit_choices(entries: QuerySet[AuditEntry]) -> dict[str, list[str]]:
    """Which actors, actions and channels occur in them: what a filter can offer."""

    def occurring(column: str) -> list[str]:
        return list(entries.order_by(column).values_list(column, flat=True).distinct()[:MOST_CHOICES])

    return {"actors": occurring("actor"), "actions": occurring("action"), "channels": list(Channel.values)}
