"""Nodes over REST: what they are doing, and drain, activate and (as an experiment) fail."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db.models import Count, F, FloatField, Prefetch, Sum, Value
from django.db.models.functions import Coalesce
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.requests import (
    IDEMPOTENCY_KEY,
    ErrorsSerializer,
    ReasonSerializer,
    accepted,
    caller,
    idempotency_key,
    reason_of,
)
from controlplane.errors import Conflict, Missing
from controlplane.events.api.serializers import OperationSerializer
from controlplane.events.choices import OperationKind
from controlplane.events.operations import operation_find, operation_request
from controlplane.nodes.api.serializers import (
    NodeDetailSerializer,
    NodeRequestSerializer,
    NodeSerializer,
)
from controlplane.nodes.choices import NODE_PRESENT, NodeState
from controlplane.nodes.models import Node, NodeRequest
from controlplane.topologies.models import Partition

ACTION = extend_schema(
    request=ReasonSerializer,
    parameters=[IDEMPOTENCY_KEY],
    responses={
        202: OperationSerializer,
        400: ErrorsSerializer,
        403: ErrorsSerializer,
        404: ErrorsSerializer,
        409: ErrorsSerializer,
    },
)

_PERMITTED: dict[OperationKind, frozenset[str]] = {
    OperationKind.NODE_DRAIN: frozenset({NodeState.ALIVE, NodeState.SUSPECT}),
    OperationKind.NODE_ACTIVATE: frozenset({NodeState.DRAINING}),
    OperationKind.NODE_FAIL: frozenset({*NODE_PRESENT, NodeState.JOINING}),
}


class NodeViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet):
    """Nodes by name."""

    queryset = Node.objects.none()
    lookup_field = "name"
    lookup_value_regex = r"[^/]+"
    filterset_fields = ("state", "rack", "standby")
    search_fields = ("name", "address", "rack")
    ordering_fields = ("name", "state", "rack", "cpu_percent", "last_heartbeat", "capacity")

    def get_queryset(self) -> Any:
        rows = Node.objects.annotate(
            partitions_total=Count("partitions"),
            planned_percent=Coalesce(
                Sum(F("partitions__cpu")) * 100.0, Value(0.0), output_field=FloatField()
            ),
        ).order_by("name")
        if self.action == "retrieve":
            hosted = Partition.objects.select_related("topology", "node").order_by(
                "topology__name", "operator", "index"
            )
            rows = rows.prefetch_related(Prefetch("partitions", hosted))
        return rows

    def get_serializer_class(self) -> Any:
        return NodeDetailSerializer if self.action == "retrieve" else NodeSerializer

    @ACTION
    @action(detail=True, methods=["post"])
    def drain(self, request: Request, name: str) -> Response:
        """Plan nothing new on it and let its partitions move away."""
        return self._act(OperationKind.NODE_DRAIN, request, name)

    @ACTION
    @action(detail=True, methods=["post"])
    def activate(self, request: Request, name: str) -> Response:
        """Let it host partitions again."""
        return self._act(OperationKind.NODE_ACTIVATE, request, name)

    @ACTION
    @action(detail=True, methods=["post"])
    def fail(self, request: Request, name: str) -> Response:
        """Kill it without warning: an experiment, only where fault injection is enabled."""
        if not settings.RESURGE.fault_injection:
            raise PermissionDenied(
                "fault injection is off here; start Resurge with RESURGE_FAULT_INJECTION=1 to use it"
            )
        return self._act(OperationKind.NODE_FAIL, request, name)

    @staticmethod
    def _act(kind: OperationKind, request: Request, name: str) -> Response:
        reason, key, by = reason_of(request), idempotency_key(request), caller(request)
        earlier = operation_find(kind=kind, target=name, actor=by["actor"], idempotency_key=key)
        if earlier is not None:
            return accepted(earlier, request)
        node = Node.objects.filter(name=name).first()
        if node is None:
            raise Missing(f"there is no node {name!r}")
        if node.state not in _PERMITTED[kind]:
            wanted = ", ".join(sorted(_PERMITTED[kind]))
            raise Conflict(f"node {name!r} is {node.state}; {kind.label.lower()} needs it to be {wanted}")
        operation, _ = operation_request(kind=kind, target=name, reason=reason, idempotency_key=key, **by)
        return accepted(operation, request)


class NodeRequestViewSet(mixins.ListModelMixin, viewsets.GenericViewSet):
    """Nodes asked of the provider."""

    queryset = NodeRequest.objects.none()
    serializer_class = NodeRequestSerializer
    filterset_fields = ("state", "incident__number")
    ordering_fields = ("due_at", "requested_at")

    def get_queryset(self) -> Any:
        return NodeRequest.objects.select_related("incident").order_by("-requested_at", "-id")
