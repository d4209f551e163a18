"""Nodes over REST: what they are doing, and drain, activate and (as an experiment) fail."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db.models import Count, FloatField, Prefetch, Sum, Value
from django.db.models.functions import Coalesce, Greatest
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.actions import ActionsMixin, action_schema
from controlplane.api.health import health_added
from controlplane.api.listing import Rows, TupleListMixin, rows_shown
from controlplane.api.nodes.filtersets import NodeFilters, NodeRequestFilters, NodeSampleFilters
from controlplane.api.nodes.serializers import (
    NodeDetailSerializer,
    NodeRequestSerializer,
    NodeSampleSerializer,
    NodeSerializer,
)
from controlplane.api.views import RestViewSet
from controlplane.events.choices import OperationKind
from controlplane.incidents.selectors import INCIDENT_AT_LENGTH
from controlplane.lifecycle.forgetting import node_forget
from controlplane.nodes.actions import node_action
from controlplane.nodes.models import Node, NodeRequest, NodeSample
from controlplane.nodes.permitted import NO_FAULTS
from controlplane.nodes.selectors import node_get, nodes_known
from controlplane.topologies.models import Partition
from controlplane.topologies.selectors import SPEC_OF_TOPOLOGY

ACTION = action_schema()


class NodeViewSet(ActionsMixin, TupleListMixin, mixins.RetrieveModelMixin, RestViewSet):
    """Nodes by name."""

    queryset = Node.objects.none()
    lookup_field = "name"
    lookup_value_regex = r"[^/]+"
    filterset_class = NodeFilters
    search_fields = ("name", "address", "rack")
    ordering_fields = ("name", "state", "rack", "cpu_percent", "last_heartbeat", "capacity")

    def get_queryset(self) -> Any:
        rows = (
            nodes_known()
            .annotate(
                partitions_total=Count("partitions"),
                planned_percent=Coalesce(
                    Sum(Greatest("partitions__cpu", "partitions__cpu_request")) * 100.0,
                    Value(0.0),
                    output_field=FloatField(),
                ),
            )
            .order_by("name")
        )
        if self.action == "retrieve":
            hosted = Partition.objects.select_related("topology", "node").defer(SPEC_OF_TOPOLOGY)
            hosted = hosted.order_by("topology__name", "operator", "index")
            rows = rows.prefetch_related(Prefetch("partitions", hosted))
        return rows

    def get_serializer_class(self) -> Any:
        return NodeDetailSerializer if self.action == "retrieve" else NodeSerializer

    def tuple_rows(self, rows: Any) -> Rows:
        found = rows_shown(rows, NodeSerializer, without=("health",))
        health_added("node", found, lambda row: str(row["name"]))
        return found

    @ACTION
    @action(detail=True, methods=["post"])
    def drain(self, request: Request, name: str) -> Response:
        """Plan nothing new on it and let its partitions move away."""
        return self.act(request, node_action, kind=OperationKind.NODE_DRAIN, name=name)

    @ACTION
    @action(detail=True, methods=["post"])
    def activate(self, request: Request, name: str) -> Response:
        """Let it host partitions again."""
        return self.act(request, node_action, kind=OperationKind.NODE_ACTIVATE, name=name)

    @ACTION
    @action(detail=True, methods=["post"])
    def forget(self, request: Request, name: str) -> Response:
        """Take a node that is lost or has left off every list. It comes back if it registers again."""
        return self.act(request, node_forget, name=name)

    @ACTION
    @action(detail=True, methods=["post"])
    def fail(self, request: Request, name: str) -> Response:
        """Kill it without warning: an experiment, only where fault injection is enabled."""
        if not settings.RESURGE.fault_injection:
            raise PermissionDenied(NO_FAULTS)
        return self.act(request, node_action, kind=OperationKind.NODE_FAIL, name=name)


class NodeSampleViewSet(TupleListMixin, RestViewSet):
    """The CPU of a node over time: what was measured beside what the planner expects; kept for a day."""

    queryset = NodeSample.objects.none()
    serializer_class = NodeSampleSerializer
    filterset_class = NodeSampleFilters
    ordering_fields = ("at",)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        node_get(kwargs["name"])

    def get_queryset(self) -> Any:
        return NodeSample.objects.filter(node__name=self.kwargs.get("name", "")).order_by("at")


class NodeRequestViewSet(TupleListMixin, RestViewSet):
    """Nodes asked of the provider."""

    queryset = NodeRequest.objects.none()
    serializer_class = NodeRequestSerializer
    filterset_class = NodeRequestFilters
    ordering_fields = ("due_at", "requested_at")

    def get_queryset(self) -> Any:
        rows = NodeRequest.objects.select_related("incident").defer(*INCIDENT_AT_LENGTH)
        return rows.order_by("-requested_at", "-id")
