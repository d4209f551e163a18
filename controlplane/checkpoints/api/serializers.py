from __future__ import annotations

from rest_framework import serializers

from controlplane.checkpoints.models import Checkpoint


class CheckpointSerializer(serializers.ModelSerializer):
    """A global checkpoint; `cause` says why it failed."""

    topology = serializers.CharField(source="topology.name", read_only=True)

    class Meta:
        model = Checkpoint
        fields = (
            "topology",
            "epoch",
            "generation",
            "state",
            "stored",
            "acknowledged",
            "total",
            "size_bytes",
            "started_at",
            "ended_at",
            "restored_at",
            "cause",
            "requested_by",
        )
