"""Admin pages of nodes and node requests."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from controlplane.administration.pages import ReasonedActionsMixin, SystemOwnedAdmin
from controlplane.events.choices import OperationKind
from controlplane.lifecycle.forgetting import node_forget
from controlplane.nodes.actions import node_action
from controlplane.nodes.models import Node, NodeRequest, NodeSample


@admin.register(Node)
class NodeAdmin(ReasonedActionsMixin, SystemOwnedAdmin):
    list_display = (
        "name",
        "state",
        "rack",
        "address",
        "slots",
        "capacity",
        "cpu_percent",
        "predicted_percent",
        "throttled",
        "last_heartbeat",
        "standby",
        "forgotten_at",
    )
    list_filter = ("state", "rack", "standby", "provider")
    search_fields = ("name", "address", "rack")
    actions = ("drain", "activate", "forget")
    audit_areas = ("node",)

    @admin.action(description="Drain", permissions=["act"])
    def drain(self, request: HttpRequest, rows: Any) -> None:
        self._ask(request, rows, OperationKind.NODE_DRAIN, "Draining")

    @admin.action(description="Activate", permissions=["act"])
    def activate(self, request: HttpRequest, rows: Any) -> None:
        self._ask(request, rows, OperationKind.NODE_ACTIVATE, "Activating")

    @admin.action(description="Forget", permissions=["act"])
    def forget(self, request: HttpRequest, rows: Any) -> None:
        self.run_service(request, rows, "Forgetting", lambda node, who: node_forget(name=node.name, **who))

    def _ask(self, request: HttpRequest, rows: Any, kind: OperationKind, verb: str) -> None:
        self.run_service(request, rows, verb, lambda node, who: node_action(kind=kind, name=node.name, **who))


@admin.register(NodeSample)
class NodeSampleAdmin(SystemOwnedAdmin):
    list_display = ("node", "at", "cpu_percent", "predicted_percent", "throttled")
    list_filter = ("node",)
    list_select_related = ("node",)
    search_fields = ("node__name",)
    date_hierarchy = "at"


@admin.register(NodeRequest)
class NodeRequestAdmin(SystemOwnedAdmin):
    list_display = ("node_name", "state", "rack", "incident", "requested_at", "due_at", "attempt", "error")
    list_filter = ("state", "rack")
    list_select_related = ("incident",)
    search_fields = ("node_name", "key", "error")
