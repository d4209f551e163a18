"""Admin pages of nodes and node requests."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from controlplane.errors import Conflict
from controlplane.events.choices import Door, OperationKind
from controlplane.events.operations import operation_request
from controlplane.nodes.choices import NodeState
from controlplane.nodes.models import Node, NodeRequest
from controlplane.system_admin import OperatorActionsMixin, SystemOwnedAdmin


@admin.register(Node)
class NodeAdmin(OperatorActionsMixin, SystemOwnedAdmin):
    list_display = (
        "name",
        "state",
        "rack",
        "address",
        "slots",
        "capacity",
        "cpu_percent",
        "last_heartbeat",
        "standby",
    )
    list_filter = ("state", "rack", "standby", "provider")
    search_fields = ("name", "address", "rack")
    actions = ("drain", "activate")

    @admin.action(description="Drain")
    def drain(self, request: HttpRequest, rows: Any) -> None:
        ask = partial(self._ask, request, OperationKind.NODE_DRAIN, NodeState.ALIVE)
        self.run_service(request, rows, "Draining", ask)

    @admin.action(description="Activate")
    def activate(self, request: HttpRequest, rows: Any) -> None:
        ask = partial(self._ask, request, OperationKind.NODE_ACTIVATE, NodeState.DRAINING)
        self.run_service(request, rows, "Activating", ask)

    @staticmethod
    def _ask(request: HttpRequest, kind: OperationKind, needed: NodeState, node: Node) -> None:
        if node.state != needed:
            raise Conflict(f"node {node.name!r} is {node.state}, not {needed}")
        operation_request(
            kind=kind,
            target=node.name,
            actor=request.user.get_username(),
            reason="from the admin site",
            door=Door.ADMIN,
        )


@admin.register(NodeRequest)
class NodeRequestAdmin(SystemOwnedAdmin):
    list_display = ("node_name", "state", "rack", "incident", "requested_at", "due_at", "attempt", "error")
    list_filter = ("state", "rack")
    list_select_related = ("incident",)
    search_fields = ("node_name", "key", "error")
