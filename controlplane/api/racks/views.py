"""Racks over REST: what draining one would do, and drain and activate all of its nodes together."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.actions import ActionsMixin, action_schema
from controlplane.api.racks.serializers import RackSerializer, rack_shown
from controlplane.api.requests import ErrorsSerializer
from controlplane.api.views import RestViewSet
from controlplane.events.choices import OperationKind
from controlplane.lifecycle.racks import rack_outlook
from controlplane.nodes.actions import rack_action

ACTION = action_schema()


class RackViewSet(ActionsMixin, RestViewSet):
    """Racks by name: the failure domains that nodes name when they register."""

    lookup_field = "rack"
    lookup_value_regex = r"[^/]+"
    serializer_class = RackSerializer

    @extend_schema(responses={200: RackSerializer, 404: ErrorsSerializer})
    def retrieve(self, request: Request, rack: str) -> Response:
        """The nodes of a rack, and what would move, and where room is missing, if it were drained now."""
        return Response(RackSerializer(rack_shown(rack_outlook(rack))).data)

    @ACTION
    @action(detail=True, methods=["post"])
    def drain(self, request: Request, rack: str) -> Response:
        """Drain all nodes of it that are alive together, so that nothing moves from one to another."""
        return self.act(request, rack_action, kind=OperationKind.RACK_DRAIN, rack=rack)

    @ACTION
    @action(detail=True, methods=["post"])
    def activate(self, request: Request, rack: str) -> Response:
        """Let all drained nodes of it host partitions again."""
        return self.act(request, rack_action, kind=OperationKind.RACK_ACTIVATE, rack=rack)
