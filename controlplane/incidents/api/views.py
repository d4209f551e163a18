"""Incidents over REST: their story, their plans, and what an operator may do about them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import mixins, viewsets
from rest_framework.decorators import action
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
from controlplane.incidents.api.serializers import (
    IncidentDetailSerializer,
    IncidentSerializer,
    RecoveryPlanSerializer,
)
from controlplane.incidents.choices import INCIDENT_ENDED
from controlplane.incidents.models import Incident, RecoveryPlan
from controlplane.topologies.api.parts import OfTopology

ACTION = extend_schema(
    request=ReasonSerializer,
    parameters=[IDEMPOTENCY_KEY],
    responses={202: OperationSerializer, 400: ErrorsSerializer, 404: ErrorsSerializer, 409: ErrorsSerializer},
)


@extend_schema_view(
    list=extend_schema(responses=IncidentSerializer(many=True)),
    retrieve=extend_schema(responses=IncidentDetailSerializer),
)
class IncidentViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet):
    """Incidents by number, newest first."""

    queryset = Incident.objects.none()
    lookup_field = "number"
    lookup_value_regex = r"\d+"
    filterset_fields = ("state", "method", "trigger", "topologies__name", "failed_nodes__name")
    ordering_fields = ("number", "opened_at", "closed_at", "state")

    def get_queryset(self) -> Any:
        rows = Incident.objects.prefetch_related("failed_nodes", "topologies").order_by("-number")
        return rows.prefetch_related("entries") if self.action == "retrieve" else rows

    def get_serializer_class(self) -> Any:
        return IncidentDetailSerializer if self.action == "retrieve" else IncidentSerializer

    @extend_schema(responses=RecoveryPlanSerializer(many=True), filters=False)
    @action(detail=True, methods=["get"])
    def plans(self, request: Request, number: str) -> Response:
        """The recovery plans of the incident, in order."""
        incident = self._incident(number)
        rows = RecoveryPlan.objects.filter(incident=incident).select_related("topology", "incident")
        page = self.paginate_queryset(rows.order_by("topology__name", "generation"))
        return self.get_paginated_response(RecoveryPlanSerializer(page, many=True).data)

    @ACTION
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, number: str) -> Response:
        """Let the prepared plan be published."""
        return self._act(OperationKind.INCIDENT_APPROVE, request, number)

    @ACTION
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, number: str) -> Response:
        """Publish no further plan until resumed."""
        return self._act(OperationKind.INCIDENT_PAUSE, request, number)

    @ACTION
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, number: str) -> Response:
        """Go on with a paused recovery."""
        return self._act(OperationKind.INCIDENT_RESUME, request, number)

    @ACTION
    @action(detail=True, methods=["post"])
    def abort(self, request: Request, number: str) -> Response:
        """Stop recovering; the topology stays as it is."""
        return self._act(OperationKind.INCIDENT_ABORT, request, number)

    @ACTION
    @action(detail=True, methods=["post"])
    def replan(self, request: Request, number: str) -> Response:
        """Make the next plan anew from what is known now."""
        return self._act(OperationKind.INCIDENT_REPLAN, request, number)

    @staticmethod
    def _incident(number: str) -> Incident:
        incident = Incident.objects.filter(number=int(number)).first()
        if incident is None:
            raise Missing(f"there is no incident {number}")
        return incident

    def _act(self, kind: OperationKind, request: Request, number: str) -> Response:
        reason, key, by = reason_of(request), idempotency_key(request), caller(request)
        earlier = operation_find(kind=kind, target=number, actor=by["actor"], idempotency_key=key)
        if earlier is not None:
            return accepted(earlier, request)
        incident = self._incident(number)
        if incident.state in INCIDENT_ENDED:
            raise Conflict(f"incident {number} is {incident.state}; nothing more can be done about it")
        operation, _ = operation_request(
            kind=kind, target=str(incident.number), reason=reason, idempotency_key=key, **by
        )
        return accepted(operation, request)


class TopologyPlanViewSet(OfTopology, mixins.ListModelMixin):
    """All plans of a topology, newest generation first."""

    queryset = RecoveryPlan.objects.none()
    serializer_class = RecoveryPlanSerializer
    filterset_fields = ("state", "kind", "generation")
    ordering_fields = ("generation", "created_at")

    def get_queryset(self) -> Any:
        rows = RecoveryPlan.objects.filter(topology__name=self.topology)
        return rows.select_related("topology", "incident").order_by("-generation")
