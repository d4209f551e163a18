"""Admin pages of events, operations and the audit trail: written once, never edited."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from controlplane.accounts.roles import ADMINISTRATOR, has_role
from controlplane.administration.pages import SystemOwnedAdmin
from controlplane.events.models import AuditEntry, Event, EventCounter, Operation
from controlplane.events.selectors import audit_shown


def entries_shown(user: Any) -> QuerySet[AuditEntry]:
    """The audit entries that this user may read, newest first."""
    return audit_shown(reader=user.get_username(), everything=has_role(user, ADMINISTRATOR))


@admin.register(Event)
class EventAdmin(SystemOwnedAdmin):
    list_display = ("sequence", "at", "kind", "topology", "node", "incident", "actor", "reason")
    list_filter = ("kind",)
    search_fields = ("=sequence", "topology", "node", "actor", "reason")
    date_hierarchy = "at"


@admin.register(EventCounter)
class EventCounterAdmin(SystemOwnedAdmin):
    list_display = ("value", "trimmed")


@admin.register(Operation)
class OperationAdmin(SystemOwnedAdmin):
    list_display = ("id", "kind", "target", "state", "requested_by", "created_at", "ended_at", "error")
    list_filter = ("state", "kind")
    search_fields = ("target", "requested_by", "reason", "error")
    date_hierarchy = "created_at"


@admin.register(AuditEntry)
class AuditEntryAdmin(SystemOwnedAdmin):
    list_display = ("at", "actor", "channel", "action", "target", "reason")
    list_filter = ("channel", "action")
    search_fields = ("actor", "target", "action", "reason")
    date_hierarchy = "at"

    def get_queryset(self, request: HttpRequest) -> QuerySet[AuditEntry]:
        return entries_shown(request.user)
