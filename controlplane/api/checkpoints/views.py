"""Checkpoints over REST: of one topology, and of all."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.checkpoints.filtersets import CheckpointFilters, TopologyCheckpointFilters
from controlplane.api.checkpoints.serializers import CheckpointDetailSerializer, CheckpointSerializer
from controlplane.api.listing import TupleListMixin
from controlplane.api.requests import ErrorsSerializer
from controlplane.api.topologies.parts import OfTopology
from controlplane.checkpoints.models import Checkpoint
from controlplane.checkpoints.selectors import checkpoint_get, checkpoint_list


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


class CheckpointViewSet(TupleListMixin, viewsets.GenericViewSet):
    """The checkpoints of all topologies, newest first."""

    queryset = Checkpoint.objects.none()
    serializer_class = CheckpointSerializer
    filterset_class = CheckpointFilters
    ordering_fields = ("epoch", "started_at", "size_bytes")

    def get_queryset(self) -> Any:
        return checkpoint_list()
