"""Admin pages of alerts, their rules and silences."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from controlplane.accounts.roles import ADMINISTRATOR
from controlplane.administration.alert_forms import RuleAddForm, RuleForm, SilenceForm
from controlplane.administration.pages import ReasonedActionsMixin, ServiceAdmin, SystemOwnedAdmin
from controlplane.alerts.models import Alert, AlertRule, Evaluation, Silence
from controlplane.alerts.services import rule_delete
from controlplane.alerts.silencing import silence_end
from controlplane.events.audit import By


@admin.register(AlertRule)
class AlertRuleAdmin(ServiceAdmin):
    write_role = ADMINISTRATOR
    add_form = RuleAddForm
    change_form = RuleForm
    audit_areas = ("rule",)
    shown_fields = ("name", "metric", "created_by", "created_at", "updated_at")
    list_display = ("name", "metric", "comparison", "threshold", "held", "severity", "topology", "enabled")
    list_filter = ("metric", "severity", "enabled")
    search_fields = ("name",)
    delete_note = "Its alerts end; those that have ended are kept."

    def delete_with(self, obj: AlertRule, who: By) -> None:
        rule_delete(name=obj.name, **who)


@admin.register(Silence)
class SilenceAdmin(ReasonedActionsMixin, ServiceAdmin):
    """They are made and ended, not changed. Their reason is that of the one who made them."""

    add_form = SilenceForm
    audit_areas = ("silence",)
    shown_fields = ("rule", "topology", "until", "author", "created_at", "ended_at", "ended_by")
    list_display = ("created_at", "rule", "topology", "until", "author", "reason", "ended_at", "ended_by")
    search_fields = ("rule", "topology", "author", "reason")
    date_hierarchy = "created_at"
    actions = ("end",)

    @admin.action(description="End", permissions=["act"])
    def end(self, request: HttpRequest, rows: Any) -> None:
        self.run_service(request, rows, "Ended", lambda row, who: silence_end(silence_id=row.pk, **who))


@admin.register(Alert)
class AlertAdmin(SystemOwnedAdmin):
    list_display = ("since", "rule", "topology", "query", "state", "severity", "value", "resolved_at")
    list_filter = ("state", "severity", "metric")
    search_fields = ("rule", "topology", "query")
    date_hierarchy = "since"


@admin.register(Evaluation)
class EvaluationAdmin(SystemOwnedAdmin):
    """When rules were looked at last."""

    list_display = ("at",)
