"""Checkpoints over REST, of one topology and of all, and savepoints."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import mixins, status
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.actions import ActionsMixin, action_schema
from controlplane.api.checkpoints.filtersets import (
    CheckpointFilters,
    SavepointFilters,
    TopologyCheckpointFilters,
)
from controlplane.api.checkpoints.serializers import (
    CheckpointDetailSerializer,
    CheckpointSerializer,
    SavepointCreateSerializer,
    SavepointSerializer,
)
from controlplane.api.listing import TupleListMixin
from controlplane.api.requests import REASON, ErrorsSerializer, body_of, caller, reason_of
from controlplane.api.topologies.parts import OfTopology
from controlplane.api.views import RestViewSet
from controlplane.checkpoints.models import Checkpoint, Savepoint
from controlplane.checkpoints.selectors import (
    checkpoint_get,
    checkpoint_list,
    savepoint_get,
    savepoint_list,
)
from controlplane.lifecycle.savepoints import savepoint_delete, savepoint_request


class TopologyCheckpointViewSet(OfTopology, TupleListMixin):
    """The checkpoints of a topology, newest first."""

    queryset = Checkpoint.objects.none()
    serializer_class = CheckpointSerializer
    filterset_class = TopologyCheckpointFilters
    ordering_fields = ("epoch", "started_at", "size_bytes")

    def get_queryset(self) -> Any:
        return checkpoint_list(self.topology)

    @extend_schema(responses={200: CheckpointDetailSerializer, 404: ErrorsSerializer})
    def retrieve(self, request: Request, topology: str, epoch: int) -> Response:
        """One checkpoint, partition by partition."""
        return Response(CheckpointDetailSerializer(checkpoint_get(topology, epoch)).data)


class CheckpointViewSet(TupleListMixin, RestViewSet):
    """The checkpoints of all topologies, newest first."""

    queryset = Checkpoint.objects.none()
    serializer_class = CheckpointSerializer
    filterset_class = CheckpointFilters
    ordering_fields = ("epoch", "started_at", "size_bytes")

    def get_queryset(self) -> Any:
        return checkpoint_list()


class TopologySavepointView(ActionsMixin, OfTopology):
    """Asking for a savepoint of a topology."""

    @action_schema(SavepointCreateSerializer)
    def create(self, request: Request, topology: str) -> Response:
        """Copy a checkpoint, under a name, for as long as it is not deleted. The topology goes on meanwhile.

        The operation succeeds once all of it is stored. Deploy with `start: savepoint` begins with one.
        """
        given = body_of(request, SavepointCreateSerializer)
        return self.act(request, savepoint_request, topology=topology, **given)


class SavepointViewSet(mixins.ListModelMixin, RestViewSet):
    """Savepoints, newest first."""

    queryset = Savepoint.objects.none()
    serializer_class = SavepointSerializer
    filterset_class = SavepointFilters
    search_fields = ("name", "topology")
    ordering_fields = ("name", "created_at", "size_bytes", "epoch")
    lookup_field = "name"
    lookup_value_regex = r"[a-z0-9][a-z0-9._-]*"

    def get_queryset(self) -> Any:
        return savepoint_list()

    @extend_schema(responses={200: SavepointSerializer, 404: ErrorsSerializer})
    def retrieve(self, request: Request, name: str) -> Response:
        return Response(SavepointSerializer(savepoint_get(name)).data)

    @extend_schema(
        parameters=[REASON], responses={204: None, **dict.fromkeys((400, 404, 409), ErrorsSerializer)}
    )
    def destroy(self, request: Request, name: str) -> Response:
        """Give it up. Its archive is deleted within a minute; exported copies stay usable."""
        savepoint_delete(name=name, reason=reason_of(request), **caller(request))
        return Response(status=status.HTTP_204_NO_CONTENT)
