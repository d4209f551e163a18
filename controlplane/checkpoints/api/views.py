"""Checkpoints over REST: of one topology, and of all."""

from __future__ import annotations

from typing import Any

from rest_framework import mixins, viewsets

from controlplane.checkpoints.api.serializers import CheckpointSerializer
from controlplane.checkpoints.filtersets import CheckpointFilters, TopologyCheckpointFilters
from controlplane.checkpoints.models import Checkpoint
from controlplane.checkpoints.selectors import checkpoint_list
from controlplane.topologies.api.parts import OfTopology


class TopologyCheckpointViewSet(OfTopology, mixins.ListModelMixin):
    """The checkpoints of a topology, newest first."""

    queryset = Checkpoint.objects.none()
    serializer_class = CheckpointSerializer
    filterset_class = TopologyCheckpointFilters
    ordering_fields = ("epoch", "started_at", "size_bytes")

    def get_queryset(self) -> Any:
        return checkpoint_list(self.topology)


class CheckpointViewSet(mixins.ListModelMixin, viewsets.GenericViewSet):
    """The checkpoints of all topologies, newest first."""

    queryset = Checkpoint.objects.none()
    serializer_class = CheckpointSerializer
    filterset_class = CheckpointFilters
    ordering_fields = ("epoch", "started_at", "size_bytes")

    def get_queryset(self) -> Any:
        return checkpoint_list()
