"""Admin pages of topologies and their parts."""

from __future__ import annotations

from functools import partial
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest

from controlplane.accounts.roles import OPERATOR, has_role
from controlplane.errors import ServiceError
from controlplane.events.choices import Door, OperationKind
from controlplane.events.representation import POLICY_FIELDS
from controlplane.system_admin import OperatorActionsMixin, SystemOwnedAdmin
from controlplane.topologies.lifecycle import topology_action, topology_deploy, topology_undeploy
from controlplane.topologies.models import (
    AvailabilitySample,
    Partition,
    Problem,
    Query,
    Topology,
    TopologyVersion,
)
from controlplane.topologies.policies import topology_policy_set
from controlplane.topologies.services import query_priorities_set

REASON = "from the admin site"


class PolicyForm(forms.ModelForm):
    reason = forms.CharField(max_length=1000, help_text="Why; kept in the audit trail.")

    class Meta:
        model = Topology
        fields = POLICY_FIELDS


@admin.register(Topology)
class TopologyAdmin(OperatorActionsMixin, SystemOwnedAdmin):
    """How it is to be recovered is an operator's to choose; the rest follows from specifications and runs."""

    form = PolicyForm
    fields = (
        "name", *POLICY_FIELDS, "reason", "version", "status", "desired", "error", "generation",
        "applied_generation", "head_epoch", "committed_epoch", "checkpoint_epoch", "input_rate",
        "deployed_at", "created_at", "updated_at", "spec",
    )  # fmt: skip
    readonly_fields = tuple(name for name in fields if name not in (*POLICY_FIELDS, "reason"))
    list_display = (
        "name",
        "status",
        "desired",
        "version",
        "generation",
        "committed_epoch",
        "checkpoint_epoch",
        "input_rate",
        "deployed_at",
    )
    list_filter = ("status", "desired", "method")
    search_fields = ("name", "error")
    actions = ("deploy", "undeploy", "checkpoint", "recover")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return has_role(request.user, OPERATOR)

    def save_model(self, request: HttpRequest, obj: Topology, form: Any, change: bool) -> None:
        try:
            topology_policy_set(
                name=obj.name,
                changes={field: form.cleaned_data[field] for field in POLICY_FIELDS},
                actor=request.user.get_username(),
                reason=form.cleaned_data["reason"],
                door=Door.ADMIN,
            )
        except ServiceError as error:
            self.message_user(request, str(error), messages.ERROR)

    @admin.action(description="Deploy the newest version")
    def deploy(self, request: HttpRequest, rows: Any) -> None:
        self.run_service(request, rows, "Deploying", partial(self._deploy, request, topology_deploy))

    @admin.action(description="Undeploy")
    def undeploy(self, request: HttpRequest, rows: Any) -> None:
        self.run_service(request, rows, "Stopping", partial(self._deploy, request, topology_undeploy))

    @admin.action(description="Take a checkpoint")
    def checkpoint(self, request: HttpRequest, rows: Any) -> None:
        act = partial(self._act, request, OperationKind.TOPOLOGY_CHECKPOINT)
        self.run_service(request, rows, "Checkpoint asked for", act)

    @admin.action(description="Recover now")
    def recover(self, request: HttpRequest, rows: Any) -> None:
        act = partial(self._act, request, OperationKind.TOPOLOGY_RECOVER)
        self.run_service(request, rows, "Recovery asked for", act)

    @staticmethod
    def _deploy(request: HttpRequest, service: Any, row: Topology) -> None:
        service(name=row.name, actor=request.user.get_username(), reason=REASON, door=Door.ADMIN)

    @staticmethod
    def _act(request: HttpRequest, kind: OperationKind, row: Topology) -> None:
        topology_action(
            kind=kind,
            name=row.name,
            actor=request.user.get_username(),
            reason=REASON,
            door=Door.ADMIN,
        )


@admin.register(TopologyVersion)
class TopologyVersionAdmin(SystemOwnedAdmin):
    list_display = ("topology", "number", "created_at", "created_by", "reason")
    list_filter = ("topology",)
    list_select_related = ("topology",)
    search_fields = ("topology__name", "created_by", "reason")


@admin.register(Partition)
class PartitionAdmin(SystemOwnedAdmin):
    list_display = ("label", "topology", "node", "state", "epoch", "cpu", "rows_in_rate", "state_bytes")
    list_filter = ("topology", "state", "node")
    list_select_related = ("topology", "node")
    search_fields = ("operator", "topology__name", "node__name")


class QueryForm(forms.ModelForm):
    reason = forms.CharField(max_length=1000, help_text="Why; kept in the audit trail.")

    class Meta:
        model = Query
        fields = ("priority",)


@admin.register(Query)
class QueryAdmin(SystemOwnedAdmin):
    """The priority is an operator's to choose; the rest is measured."""

    form = QueryForm
    list_display = ("label", "topology", "priority", "status", "available", "latency", "relative_latency")
    list_filter = ("topology", "status", "available", "priority")
    list_select_related = ("topology", "partition")
    search_fields = ("partition__operator", "topology__name")
    fields = (
        "label", "topology", "priority", "reason", "status", "available", "latency", "baseline_latency",
        "relative_latency", "epoch",
    )  # fmt: skip
    readonly_fields = (
        "label", "topology", "status", "available", "latency", "baseline_latency", "relative_latency",
        "epoch",
    )  # fmt: skip

    @admin.display(description="query", ordering="partition__operator")
    def label(self, query: Query) -> str:
        return query.partition.label

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return has_role(request.user, OPERATOR)

    def save_model(self, request: HttpRequest, obj: Query, form: Any, change: bool) -> None:
        try:
            query_priorities_set(
                topology=obj.topology.name,
                priorities={obj.partition.label: form.cleaned_data["priority"]},
                actor=request.user.get_username(),
                reason=form.cleaned_data["reason"],
                door=Door.ADMIN,
            )
        except ServiceError as error:
            self.message_user(request, str(error), messages.ERROR)


@admin.register(AvailabilitySample)
class AvailabilitySampleAdmin(SystemOwnedAdmin):
    list_display = ("topology", "at", "available", "total", "weighted")
    list_filter = ("topology",)
    list_select_related = ("topology",)
    search_fields = ("topology__name",)
    date_hierarchy = "at"


@admin.register(Problem)
class ProblemAdmin(SystemOwnedAdmin):
    list_display = ("at", "topology", "severity", "where", "what", "count")
    list_filter = ("severity", "topology")
    list_select_related = ("topology",)
    search_fields = ("where", "what", "hint", "topology__name")
