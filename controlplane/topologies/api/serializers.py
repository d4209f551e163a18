"""Topologies and what they consist of, as REST shows and accepts them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from controlplane.api.requests import ReasonSerializer
from controlplane.events.drawing import topology_graph
from controlplane.topologies.models import (
    PRIORITY_HIGH,
    PRIORITY_LOW,
    AvailabilitySample,
    Partition,
    Problem,
    Query,
    Topology,
    TopologyVersion,
)


class TopologySerializer(serializers.ModelSerializer):
    """One row of the fleet. Latencies are relative to before the failure."""

    queries_total = serializers.IntegerField(read_only=True)
    queries_available = serializers.IntegerField(read_only=True)
    worst_relative_latency = serializers.FloatField(read_only=True, allow_null=True)

    class Meta:
        model = Topology
        fields: tuple[str, ...] = (
            "name",
            "version",
            "status",
            "desired",
            "error",
            "method",
            "generation",
            "applied_generation",
            "head_epoch",
            "committed_epoch",
            "checkpoint_epoch",
            "input_rate",
            "queries_total",
            "queries_available",
            "worst_relative_latency",
            "deployed_at",
            "created_at",
            "updated_at",
        )
        read_only_fields: tuple[str, ...] = fields


class TopologyDetailSerializer(TopologySerializer):
    """With the specification and the graph for drawing."""

    spec = serializers.DictField(read_only=True)
    graph = serializers.SerializerMethodField()

    class Meta(TopologySerializer.Meta):
        fields = (*TopologySerializer.Meta.fields, "spec", "graph")
        read_only_fields = fields

    def get_graph(self, topology: Topology) -> dict[str, Any]:
        return topology_graph(topology.spec)


class TopologyCreateSerializer(ReasonSerializer):
    """Either `spec` (an object, or YAML text) or the name of a ready-made `pipeline`."""

    spec = serializers.JSONField(required=False, help_text="a specification, or YAML text")
    pipeline = serializers.CharField(required=False, help_text="name of a ready-made pipeline")
    name = serializers.CharField(required=False, help_text="instead of the specification's name")
    input = serializers.CharField(required=False, help_text="file that the sources read")
    rate = serializers.IntegerField(required=False, min_value=1, help_text="tuples per second")
    limit = serializers.IntegerField(required=False, min_value=1, help_text="tuples, then complete")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("spec" in attrs) == ("pipeline" in attrs):
            raise serializers.ValidationError("give either `spec` or `pipeline`")
        return attrs


class TopologyUpdateSerializer(ReasonSerializer):
    spec = serializers.JSONField(help_text="the whole new specification, or YAML text")


class TopologyVersionSerializer(serializers.ModelSerializer):
    spec = serializers.DictField(read_only=True)

    class Meta:
        model = TopologyVersion
        fields = ("number", "spec", "created_at", "created_by", "reason")


class PartitionSerializer(serializers.ModelSerializer):
    partition = serializers.CharField(source="label", read_only=True)
    topology = serializers.CharField(source="topology.name", read_only=True)
    node = serializers.CharField(source="node.name", read_only=True, allow_null=True, default=None)

    class Meta:
        model = Partition
        fields = (
            "partition",
            "topology",
            "operator",
            "index",
            "node",
            "state",
            "epoch",
            "cpu",
            "rows_in_rate",
            "rows_out_rate",
            "state_bytes",
        )


class QuerySerializer(serializers.ModelSerializer):
    partition = serializers.CharField(source="partition.label", read_only=True)
    topology = serializers.CharField(source="topology.name", read_only=True)
    node = serializers.CharField(source="partition.node.name", read_only=True, allow_null=True, default=None)

    class Meta:
        model = Query
        fields = (
            "partition",
            "topology",
            "node",
            "priority",
            "status",
            "available",
            "latency",
            "baseline_latency",
            "relative_latency",
            "epoch",
        )


class QueryUpdateSerializer(ReasonSerializer):
    priority = serializers.IntegerField(min_value=PRIORITY_LOW, max_value=PRIORITY_HIGH)


class QueryPrioritiesSerializer(ReasonSerializer):
    """Several queries at once: query id to priority."""

    priorities = serializers.DictField(
        child=serializers.IntegerField(min_value=PRIORITY_LOW, max_value=PRIORITY_HIGH),
        allow_empty=False,
    )


class AvailabilitySampleSerializer(serializers.ModelSerializer):
    class Meta:
        model = AvailabilitySample
        fields = ("at", "available", "total", "weighted")


class ProblemSerializer(serializers.ModelSerializer):
    topology = serializers.CharField(source="topology.name", read_only=True, allow_null=True, default=None)

    class Meta:
        model = Problem
        fields = ("id", "topology", "at", "first_at", "severity", "where", "what", "hint", "count")


class PipelineSerializer(serializers.Serializer):
    """A ready-made topology."""

    name = serializers.CharField()
    description = serializers.CharField()
    spec = serializers.DictField()
