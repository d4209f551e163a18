"""What belongs to one topology, as REST shows and accepts it."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework import serializers

from controlplane.api.fields import TextField
from controlplane.api.health import HealthSerializer
from controlplane.api.requests import ReasonSerializer
from controlplane.topologies.models import (
    PRIORITY_HIGH,
    PRIORITY_LOW,
    AvailabilitySample,
    Partition,
    Problem,
    Query,
    TentativePeriod,
    Topology,
    TopologyVersion,
)
from controlplane.topologies.policies import HIGHEST_THRESHOLD
from controlplane.topologies.representation import (
    PARTITION_FIELDS,
    POLICY_FIELDS,
    PROBLEM_FIELDS,
    QUERY_STORED,
    SAMPLE_STORED,
    TENTATIVE_STORED,
)
from domain.topology.spec import MAX_PARTITIONS


class PolicySerializer(serializers.ModelSerializer):
    """How the topology is recovered, whether replicas run, and how many. Numbers that are null are
    those of the installation (`settings/`), a `replication_budget` a quarter of the partitions."""

    tentative_except = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = Topology
        fields: tuple[str, ...] = POLICY_FIELDS
        read_only_fields: tuple[str, ...] = fields


class PolicyUpdateSerializer(ReasonSerializer, serializers.ModelSerializer):
    """What is not given stays; null puts a number back to that of the installation."""

    tentative_except = serializers.ListField(
        child=TextField(),
        required=False,
        max_length=MAX_PARTITIONS,
        help_text="operators whose queries never give tentative output",
    )

    class Meta:
        model = Topology
        fields = ("reason", *POLICY_FIELDS)
        extra_kwargs: ClassVar[dict[str, dict[str, int]]] = {
            "correlation_threshold": {"max_value": HIGHEST_THRESHOLD},
            "replication_budget": {"max_value": MAX_PARTITIONS},
        }

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs = super().validate(attrs)
        if not attrs.keys() & set(POLICY_FIELDS):
            raise serializers.ValidationError(f"give at least one of {', '.join(POLICY_FIELDS)}")
        return attrs


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
        fields = PARTITION_FIELDS


class QuerySerializer(serializers.ModelSerializer):
    partition = serializers.CharField(source="partition.label", read_only=True)
    topology = serializers.CharField(source="topology.name", read_only=True)
    node = serializers.CharField(source="partition.node.name", read_only=True, allow_null=True, default=None)
    health = HealthSerializer("query")

    class Meta:
        model = Query
        fields: tuple[str, ...] = ("partition", "topology", "node", *QUERY_STORED, "health")


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
        fields: tuple[str, ...] = SAMPLE_STORED


class TentativePeriodSerializer(serializers.ModelSerializer):
    """A time in which a query went on without a part of its input. `corrected_at` is null until its rows
    were compared with the final ones."""

    class Meta:
        model = TentativePeriod
        fields: tuple[str, ...] = TENTATIVE_STORED


class ProblemSerializer(serializers.ModelSerializer):
    topology = serializers.CharField(source="topology.name", read_only=True, allow_null=True, default=None)

    class Meta:
        model = Problem
        fields: tuple[str, ...] = ("id", *PROBLEM_FIELDS)


class SpecificationParameters(serializers.Serializer):
    version = serializers.IntegerField(
        required=False, min_value=1, max_value=2**31 - 1, help_text="the newest without it"
    )


class SpecificationSerializer(serializers.Serializer):
    """A version of a specification as YAML, to be edited by a person. Comments are not kept."""

    name = serializers.CharField()
    version = serializers.IntegerField()
    text = serializers.CharField()
