"""Nodes and node requests as REST shows them."""

from __future__ import annotations

from rest_framework import serializers

from controlplane.api.fields import RefusalsField
from controlplane.api.health import HealthSerializer
from controlplane.api.topologies.part_serializers import PartitionSerializer
from controlplane.nodes.models import Node, NodeRequest, NodeSample
from controlplane.nodes.permitted import node_refusals
from controlplane.nodes.representation import NODE_FIELDS, NODE_SAMPLE_FIELDS


class NodeSerializer(serializers.ModelSerializer):
    """Percents count one core as 100. `planned_percent` is what its partitions need, as measured
    or as requested, if that is more; `predicted_percent` is what they were measured to need and what every
    node takes anyway."""

    partitions_total = serializers.IntegerField(read_only=True)
    planned_percent = serializers.FloatField(read_only=True)
    health = HealthSerializer("node")

    class Meta:
        model = Node
        fields: tuple[str, ...] = (
            *NODE_FIELDS,
            "partitions_total",
            "planned_percent",
            "health",
        )
        read_only_fields: tuple[str, ...] = fields


class NodeDetailSerializer(NodeSerializer):
    partitions = PartitionSerializer(many=True, read_only=True)
    refusals = RefusalsField(lambda node: node_refusals(name=node.name, state=node.state))

    class Meta(NodeSerializer.Meta):
        fields = (*NodeSerializer.Meta.fields, "partitions", "refusals")
        read_only_fields = fields


class NodeSampleSerializer(serializers.ModelSerializer):
    class Meta:
        model = NodeSample
        fields: tuple[str, ...] = NODE_SAMPLE_FIELDS


class NodeRequestSerializer(serializers.ModelSerializer):
    incident = serializers.IntegerField(
        source="incident.number", read_only=True, allow_null=True, default=None
    )

    class Meta:
        model = NodeRequest
        fields = (
            "key",
            "incident",
            "node_name",
            "rack",
            "slots",
            "capacity",
            "standby",
            "requested_at",
            "due_at",
            "started_at",
            "joined_at",
            "attempt",
            "state",
            "error",
        )
