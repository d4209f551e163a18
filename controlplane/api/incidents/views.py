"""Incidents over REST: their story, their plans, and what an operator may do about them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.actions import ActionsMixin, action_schema
from controlplane.api.incidents.export import IncidentExportSerializer, incident_document
from controlplane.api.incidents.filtersets import IncidentFilters, PlanFilters
from controlplane.api.incidents.renderers import HtmlReportRenderer, MarkdownReportRenderer
from controlplane.api.incidents.serializers import (
    ApproveSerializer,
    IncidentDetailSerializer,
    IncidentEntrySerializer,
    IncidentSerializer,
    RecoveryPlanSerializer,
    incidents_shown,
)
from controlplane.api.listing import Rows, TupleListMixin, rows_shown
from controlplane.api.renderers import FastJSONRenderer
from controlplane.api.requests import body_of
from controlplane.api.topologies.parts import OfTopology
from controlplane.api.views import RestViewSet
from controlplane.events.choices import OperationKind
from controlplane.incidents.actions import incident_action
from controlplane.incidents.models import Incident, RecoveryPlan
from controlplane.incidents.permitted import incident_refusals
from controlplane.incidents.record import incident_record
from controlplane.incidents.report.html import POLICY
from controlplane.incidents.selectors import entry_list, incident_get, incident_list, plan_list

ACTION = action_schema()
FORMAT = OpenApiParameter(
    "format", OpenApiTypes.STR, enum=("json", "html", "md"), description="instead of an Accept header"
)


@extend_schema_view(
    list=extend_schema(responses=IncidentSerializer(many=True)),
    retrieve=extend_schema(responses=IncidentDetailSerializer),
)
class IncidentViewSet(ActionsMixin, TupleListMixin, mixins.RetrieveModelMixin, RestViewSet):
    """Incidents by number, newest first."""

    queryset = Incident.objects.none()
    lookup_field = "number"
    lookup_value_regex = r"\d+"
    filterset_class = IncidentFilters
    ordering_fields = ("number", "opened_at", "closed_at", "state")

    def get_queryset(self) -> Any:
        return incident_list()

    def get_serializer_class(self) -> Any:
        return RecoveryPlanSerializer if self.action == "plans" else IncidentSerializer

    def tuple_rows(self, rows: Any) -> Rows:
        return super().tuple_rows(rows) if self.action == "plans" else incidents_shown(rows)

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        incident = self.get_object()
        story = rows_shown(entry_list(incident.number), IncidentEntrySerializer)
        shown = IncidentSerializer(incident).data
        return Response({**shown, "entries": story, "refusals": incident_refusals(incident)})

    @extend_schema(responses=RecoveryPlanSerializer(many=True), filters=False)
    @action(detail=True, methods=["get"], filterset_class=None, ordering_fields=())
    def plans(self, request: Request, number: str) -> Response:
        """The recovery plans of the incident, in order."""
        incident = incident_get(int(number))
        rows = plan_list(incident=incident.number).order_by("topology__name", "generation")
        return self.tuple_page(rows)

    @extend_schema(
        operation_id="incidents_export",
        parameters=[FORMAT],
        responses={
            (200, "application/json"): IncidentExportSerializer,
            (200, "text/html"): OpenApiTypes.STR,
            (200, "text/markdown"): OpenApiTypes.STR,
        },
        filters=False,
    )
    @action(
        detail=True,
        methods=["get"],
        renderer_classes=[FastJSONRenderer, HtmlReportRenderer, MarkdownReportRenderer],
        pagination_class=None,
    )
    def export(self, request: Request, number: str) -> Response:
        """Everything about the incident as one document, or as a report to read (HTML, Markdown)."""
        document = incident_document(incident_record(int(number)), exported_by=request.user.get_username())
        kind = request.accepted_renderer.format
        response = Response(document)
        shown = "inline" if kind == "html" else "attachment"
        response.headers["Content-Disposition"] = f'{shown}; filename="incident-{number}.{kind}"'
        if kind == "html":
            response.headers["Content-Security-Policy"] = POLICY
        return response

    def handle_exception(self, exc: Exception) -> Response:
        # Only an export is a report; what goes wrong has the form it has everywhere.
        self.request.accepted_renderer = FastJSONRenderer()
        self.request.accepted_media_type = FastJSONRenderer.media_type
        response: Response = super().handle_exception(exc)
        return response

    @action_schema(ApproveSerializer)
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, number: str) -> Response:
        """Have a proposed plan carried out: the one given, or all that are proposed now."""
        given = body_of(request, ApproveSerializer)
        kind = OperationKind.INCIDENT_APPROVE
        return self.act(request, incident_action, kind=kind, number=int(number), **given)

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
        """Stop recovering; what is down stays down until a user asks for a recovery."""
        return self.act(request, incident_action, kind=OperationKind.INCIDENT_ABORT, number=int(number))

    @ACTION
    @action(detail=True, methods=["post"])
    def accept(self, request: Request, number: str) -> Response:
        """Accept that queries are not available as before: the incident closes, and what gives results has
        its present latency as its usual one from now on. Only while it is `catching_up`."""
        return self.act(request, incident_action, kind=OperationKind.INCIDENT_ACCEPT, number=int(number))

    @ACTION
    @action(detail=True, methods=["post"])
    def replan(self, request: Request, number: str) -> Response:
        """Throw away what is not applied yet and plan anew, with the nodes there are now."""
        return self.act(request, incident_action, kind=OperationKind.INCIDENT_REPLAN, number=int(number))


class TopologyPlanViewSet(OfTopology, TupleListMixin):
    """All plans of a topology, newest generation first."""

    queryset = RecoveryPlan.objects.none()
    serializer_class = RecoveryPlanSerializer
    filterset_class = PlanFilters
    ordering_fields = ("generation", "created_at")

    def get_queryset(self) -> Any:
        return plan_list(topology=self.topology).order_by("-generation")
