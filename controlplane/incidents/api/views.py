"""Incidents over REST: their story, their plans, and what an operator may do about them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import mixins, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.actions import ActionsMixin, action_schema
from controlplane.events.choices import OperationKind
from controlplane.incidents.actions import incident_action
from controlplane.incidents.api.serializers import (
    ApproveSerializer,
    IncidentDetailSerializer,
    IncidentSerializer,
    RecoveryPlanSerializer,
)
from controlplane.incidents.filtersets import IncidentFilters, PlanFilters
from controlplane.incidents.models import Incident, RecoveryPlan
from controlplane.incidents.selectors import incident_get, incident_list, plan_list
from controlplane.topologies.api.parts import OfTopology

ACTION = action_schema()


@extend_schema_view(
    list=extend_schema(responses=IncidentSerializer(many=True)),
    retrieve=extend_schema(responses=IncidentDetailSerializer),
)
class IncidentViewSet(
    ActionsMixin, mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet
):
    """Incidents by number, newest first."""

    queryset = Incident.objects.none()
    lookup_field = "number"
    lookup_value_regex = r"\d+"
    filterset_class = IncidentFilters
    ordering_fields = ("number", "opened_at", "closed_at", "state")

    def get_queryset(self) -> Any:
        rows = incident_list()
        return rows.prefetch_related("entries") if self.action == "retrieve" else rows

    def get_serializer_class(self) -> Any:
        return IncidentDetailSerializer if self.action == "retrieve" else IncidentSerializer

    @extend_schema(responses=RecoveryPlanSerializer(many=True), filters=False)
    @action(detail=True, methods=["get"])
    def plans(self, request: Request, number: str) -> Response:
        """The recovery plans of the incident, in order."""
        incident = incident_get(int(number))
        rows = plan_list(incident=incident.number).order_by("topology__name", "generation")
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(RecoveryPlanSerializer(page, many=True).data)

    @action_schema(ApproveSerializer)
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, number: str) -> Response:
        """Have a proposed plan carried out: the one given, or all that are proposed now."""
        serializer = ApproveSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        given = serializer.validated_data.get("proposal", "")
        return self.act(
            request,
            incident_action,
            kind=OperationKind.INCIDENT_APPROVE,
            number=int(number),
            proposal=given,
        )

    @ACTION
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, number: str) -> Response:
        """Plan nothing further and ask for no nodes until resumed; what is under way goes on."""
        return self.act(request, incident_action, kind=OperationKind.INCIDENT_PAUSE, number=int(number))

    @ACTION
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, number: str) -> Response:
        """Go on with a paused recovery."""
        return self.act(request, incident_action, kind=OperationKind.INCIDENT_RESUME, number=int(number))

    @ACTION
    @action(detail=True, methods=["post"])
    def abort(self, request: Request, number: str) -> Response:
        """Stop recovering; what is down stays down until somebody asks for a recovery."""
        return self.act(request, incident_action, kind=OperationKind.INCIDENT_ABORT, number=int(number))

    @ACTION
    @action(detail=True, methods=["post"])
    def replan(self, request: Request, number: str) -> Response:
        """Throw away what is not applied yet and plan anew, with the nodes there are now."""
        return self.act(request, incident_action, kind=OperationKind.INCIDENT_REPLAN, number=int(number))


class TopologyPlanViewSet(OfTopology, mixins.ListModelMixin):
    """All plans of a topology, newest generation first."""

    queryset = RecoveryPlan.objects.none()
    serializer_class = RecoveryPlanSerializer
    filterset_class = PlanFilters
    ordering_fields = ("generation", "created_at")

    def get_queryset(self) -> Any:
        return plan_list(topology=self.topology).order_by("-generation")
