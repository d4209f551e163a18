"""Checkpoints and savepoints as REST shows and accepts them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from controlplane.api.fields import RefusalsField
from controlplane.api.requests import ReasonSerializer
from controlplane.checkpoints.models import SAVEPOINT_NAME, Checkpoint, Savepoint
from controlplane.checkpoints.permitted import checkpoint_refusals
from controlplane.checkpoints.representation import CHECKPOINT_FIELDS
from controlplane.checkpoints.selectors import HIGHEST_EPOCH, checkpoint_missing


class CheckpointSerializer(serializers.ModelSerializer):
    """A global checkpoint; `cause` says why it failed."""

    topology = serializers.CharField(source="topology.name", read_only=True)

    class Meta:
        model = Checkpoint
        fields: tuple[str, ...] = CHECKPOINT_FIELDS


class AcknowledgementSerializer(serializers.Serializer):
    """One partition's part, stored by the agent of `node`; `error` says why it was not."""

    partition = serializers.CharField()
    node = serializers.CharField()
    size_bytes = serializers.IntegerField(help_text="of all state files that it names")
    uploaded_bytes = serializers.IntegerField(help_text="of those that the storage lacked")
    files = serializers.IntegerField()
    alignment = serializers.FloatField(
        default=None,
        allow_null=True,
        help_text="seconds from its start until the partition had applied the epoch, as far "
        "as the clocks of the hosts agree; null from versions that did not measure",
    )
    waited = serializers.FloatField(default=0.0, help_text="seconds from then until the upload began")
    duration = serializers.FloatField(help_text="seconds of the upload")
    cpu_seconds = serializers.FloatField(default=0.0, help_text="that storing it took of the node's CPU")
    error = serializers.CharField(allow_blank=True)


class CheckpointDetailSerializer(CheckpointSerializer):
    """With every partition's part, once the checkpoint has ended; older ones keep the totals only."""

    acknowledgements = AcknowledgementSerializer(many=True, read_only=True)
    refusals = RefusalsField(checkpoint_refusals)
    missing = serializers.SerializerMethodField(help_text="partitions that did not acknowledge a failed one")

    class Meta(CheckpointSerializer.Meta):
        fields = (*CheckpointSerializer.Meta.fields, "acknowledgements", "missing", "refusals")

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_missing(self, checkpoint: Checkpoint) -> Any:
        return checkpoint_missing(checkpoint)


class SavepointSerializer(serializers.ModelSerializer):
    """A named copy of a checkpoint. `topology` names the one that it is of, which may be gone."""

    class Meta:
        model = Savepoint
        fields: tuple[str, ...] = (
            *("name", "topology", "version", "epoch", "state", "size_bytes", "cause", "imported"),
            *("requested_by", "reason", "created_at", "ended_at"),
        )
        read_only_fields: tuple[str, ...] = fields


class SavepointCreateSerializer(ReasonSerializer):
    """What is copied, and under which name."""

    name = serializers.RegexField(SAVEPOINT_NAME, max_length=63)
    checkpoint = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=HIGHEST_EPOCH,
        help_text="the newest one in storage if left out",
    )
