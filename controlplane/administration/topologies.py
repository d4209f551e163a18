"""Admin pages of topologies and their parts."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from controlplane.administration.pages import ReasonedActionsMixin, ServiceAdmin, SystemOwnedAdmin
from controlplane.administration.topology_forms import QueryForm, TopologyAddForm, TopologyForm
from controlplane.events.audit import By
from controlplane.events.choices import OperationKind
from controlplane.events.models import AuditEntry
from controlplane.events.selectors import audit_of
from controlplane.lifecycle.topologies import topology_action, topology_deploy, topology_undeploy
from controlplane.replication.models import FidelityFigure, ReplicaPlacement
from controlplane.topologies.choices import Guarantee
from controlplane.topologies.models import (
    AvailabilitySample,
    FlowRates,
    FormerTopology,
    Installation,
    Partition,
    Problem,
    Query,
    TentativePeriod,
    Topology,
    TopologyVersion,
)
from controlplane.topologies.permitted import NO_CHECKPOINT
from controlplane.topologies.services import topology_delete, topology_update


@admin.register(Topology)
class TopologyAdmin(ReasonedActionsMixin, ServiceAdmin):
    """What it is and how it is recovered are operators' to choose; the rest follows from its runs."""

    add_form = TopologyAddForm
    change_form = TopologyForm
    audit_areas = ("topology", "query")
    shown_fields = (
        "name", "guarantee", "checkpoints_every", "version", "status", "desired", "error", "generation",
        "applied_generation", "head_epoch", "committed_epoch", "checkpoint_epoch", "input_rate",
        "load", "usual_load", "load_falls", "lag", "overloaded_since",
        "deployed_at", "created_at", "updated_at",
    )  # fmt: skip
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
    actions = ("deploy", "undeploy", "checkpoint", "recover", "pause", "resume")

    @admin.display(description="checkpoints")
    def checkpoints_every(self, topology: Topology) -> str:
        if topology.guarantee == Guarantee.BOUNDED:
            return f"none: {NO_CHECKPOINT}"
        own = topology.spec.get("checkpoint_interval")
        if own is not None:
            return f"every {own:g} s (`checkpoint_interval` of the specification)"
        every = settings.RESURGE.checkpoint_interval
        return f"every {every:g} s (the installation's RESURGE_CHECKPOINT_INTERVAL)"

    delete_note = "Outputs are kept under another name; the topology's own page can also remove them."

    def delete_with(self, obj: Topology, who: By) -> None:
        topology_delete(name=obj.name, **who)

    @admin.action(description="Deploy the newest version", permissions=["act"])
    def deploy(self, request: HttpRequest, rows: Any) -> None:
        self.run_service(request, rows, "Deploying", lambda row, who: topology_deploy(name=row.name, **who))

    @admin.action(description="Undeploy", permissions=["act"])
    def undeploy(self, request: HttpRequest, rows: Any) -> None:
        self.run_service(request, rows, "Stopping", lambda row, who: topology_undeploy(name=row.name, **who))

    @admin.action(description="Take a checkpoint", permissions=["act"])
    def checkpoint(self, request: HttpRequest, rows: Any) -> None:
        self._ask(request, rows, OperationKind.TOPOLOGY_CHECKPOINT, "Checkpoint asked for")

    @admin.action(description="Recover now", permissions=["act"])
    def recover(self, request: HttpRequest, rows: Any) -> None:
        self._ask(request, rows, OperationKind.TOPOLOGY_RECOVER, "Recovery asked for")

    @admin.action(description="Pause", permissions=["act"])
    def pause(self, request: HttpRequest, rows: Any) -> None:
        self._ask(request, rows, OperationKind.TOPOLOGY_PAUSE, "Pausing")

    @admin.action(description="Resume", permissions=["act"])
    def resume(self, request: HttpRequest, rows: Any) -> None:
        self._ask(request, rows, OperationKind.TOPOLOGY_RESUME, "Resuming")

    def _ask(self, request: HttpRequest, rows: Any, kind: OperationKind, verb: str) -> None:
        self.run_service(
            request, rows, verb, lambda row, who: topology_action(kind=kind, name=row.name, **who)
        )


@admin.register(ReplicaPlacement)
class ReplicaPlacementAdmin(SystemOwnedAdmin):
    """Which replicas there are follows from the topology's policy."""

    list_display = ("topology", "replicas", "revision", "note", "changed_at")
    list_select_related = ("topology",)
    search_fields = ("topology__name", "note")

    @admin.display(description="replicas")
    def replicas(self, row: ReplicaPlacement) -> int:
        return len(row.assignment)


@admin.register(FidelityFigure)
class FidelityFigureAdmin(SystemOwnedAdmin):
    """What alert rules judge, computed every fifteen seconds."""

    list_display = ("topology", "now", "worst_rack", "rack", "at")
    list_select_related = ("topology",)
    search_fields = ("topology__name",)


@admin.register(TopologyVersion)
class TopologyVersionAdmin(ReasonedActionsMixin, SystemOwnedAdmin):
    """Versions are never changed; an earlier one can be made the newest again, as a new version."""

    list_display = ("topology", "number", "created_at", "created_by", "reason")
    list_filter = ("topology",)
    list_select_related = ("topology",)
    search_fields = ("topology__name", "created_by", "reason")
    actions = ("put_back",)
    audit_areas = ("topology",)

    def audit_of(self, obj: TopologyVersion) -> QuerySet[AuditEntry]:
        return audit_of(areas=self.audit_areas, target=obj.topology.name).filter(
            action__in=("topology.create", "topology.update")
        )

    @admin.action(description="Make it the newest version again", permissions=["act"])
    def put_back(self, request: HttpRequest, rows: Any) -> None:
        if len({version.topology_id for version in rows}) != len(rows):
            self.message_user(request, "Choose one version of a topology.", messages.ERROR)
            return
        self.run_service(
            request,
            rows,
            "Put back",
            lambda version, who: topology_update(name=version.topology.name, spec=version.spec, **who),
        )


@admin.register(Partition)
class PartitionAdmin(SystemOwnedAdmin):
    list_display = ("label", "topology", "node", "state", "epoch", "cpu", "rows_in_rate", "state_bytes")
    list_filter = ("topology", "state", "node")
    list_select_related = ("topology", "node")
    search_fields = ("operator", "topology__name", "node__name")


@admin.register(Query)
class QueryAdmin(ServiceAdmin):
    """The priority is an operator's to choose; the rest is measured."""

    change_form = QueryForm
    audit_areas = ("query",)
    list_display = ("label", "topology", "priority", "status", "available", "latency", "relative_latency")
    list_filter = ("topology", "status", "available", "priority")
    list_select_related = ("topology", "partition")
    search_fields = ("partition__operator", "topology__name")
    shown_fields = (
        "label", "topology", "status", "available", "latency", "baseline_latency", "relative_latency",
        "epoch",
    )  # fmt: skip

    @admin.display(description="query", ordering="partition__operator")
    def label(self, query: Query) -> str:
        return query.partition.label

    def audit_of(self, obj: Query) -> QuerySet[AuditEntry]:
        """One entry is about several queries of a topology at once."""
        entries = audit_of(areas=self.audit_areas, target=obj.topology.name)
        return entries.filter(after__has_key=obj.partition.label)


@admin.register(FlowRates)
class FlowRatesAdmin(SystemOwnedAdmin):
    list_display = ("topology", "at", "partitions")
    list_select_related = ("topology",)
    search_fields = ("topology__name",)

    @admin.display(description="partitions that divide their output")
    def partitions(self, row: FlowRates) -> int:
        return len(row.pairs)


@admin.register(TentativePeriod)
class TentativePeriodAdmin(SystemOwnedAdmin):
    list_display = (
        "topology",
        "query",
        "began_at",
        "ended_at",
        "fidelity",
        "changed",
        "appeared",
        "vanished",
    )
    list_filter = ("topology",)
    list_select_related = ("topology",)
    search_fields = ("topology__name", "query")
    date_hierarchy = "began_at"


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
    # Data, which viewers are not shown; the panel of its operator has it.
    exclude = ("row",)


@admin.register(Installation)
class InstallationIdAdmin(SystemOwnedAdmin):
    """Which database this is; every plan in ZooKeeper names it."""

    list_display = ("identity",)


@admin.register(FormerTopology)
class FormerTopologyAdmin(SystemOwnedAdmin):
    """Names of deleted topologies: until one is cleared, nothing of a new topology of that name begins."""

    list_display = ("name", "generation", "outputs", "cleared_at", "foreign")
    search_fields = ("name",)
