"""Admin pages of incidents, their story and recovery plans: all owned by the system."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from controlplane.accounts.roles import VIEWER, has_role
from controlplane.administration.pages import SystemOwnedAdmin
from controlplane.events.selectors import audit_of
from controlplane.incidents.models import Incident, IncidentEntry, IncidentPrediction, RecoveryPlan


class EntryInline(admin.TabularInline):
    model = IncidentEntry
    fields = ("at", "kind", "text")
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return has_role(request.user, VIEWER)


@admin.register(Incident)
class IncidentAdmin(SystemOwnedAdmin):
    list_display = ("number", "state", "method", "trigger", "opened_at", "closed_at", "reason")
    list_filter = ("state", "method", "trigger")
    search_fields = ("=number", "reason", "topologies__name", "failed_nodes__name")
    date_hierarchy = "opened_at"
    inlines = (EntryInline,)
    audit_areas = ("incident",)

    def audit_of(self, obj: Incident) -> Any:
        return audit_of(areas=self.audit_areas, target=str(obj.number))


@admin.register(IncidentEntry)
class IncidentEntryAdmin(SystemOwnedAdmin):
    list_display = ("incident", "at", "kind", "text")
    list_filter = ("kind",)
    list_select_related = ("incident",)
    search_fields = ("text", "=incident__number")


@admin.register(IncidentPrediction)
class IncidentPredictionAdmin(SystemOwnedAdmin):
    list_display = (
        "incident",
        "kind",
        "subject",
        "stage",
        "made_at",
        "expected_at",
        "low_at",
        "high_at",
        "over_at",
    )
    list_filter = ("kind", "stage")
    list_select_related = ("incident",)
    search_fields = ("subject", "=incident__number")


@admin.register(RecoveryPlan)
class RecoveryPlanAdmin(SystemOwnedAdmin):
    list_display = (
        "topology",
        "generation",
        "kind",
        "wave",
        "state",
        "rollback",
        "checkpoint",
        "incident",
        "created_at",
    )
    list_filter = ("state", "kind", "method", "topology")
    list_select_related = ("topology", "incident")
    search_fields = ("topology__name", "reason")
