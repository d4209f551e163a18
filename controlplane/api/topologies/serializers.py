"""Topologies, and what is done to them, as REST shows and accepts them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from controlplane.api.fields import RefusalsField, StrictSerializer, TextField
from controlplane.api.health import HealthSerializer
from controlplane.api.requests import ErrorItemSerializer, ReasonSerializer
from controlplane.api.topologies.part_serializers import PolicySerializer
from controlplane.checkpoints.models import SAVEPOINT_NAME
from controlplane.topologies.choices import Outputs, Start
from controlplane.topologies.drawing import specification_drawn
from controlplane.topologies.models import (
    Topology,
)
from controlplane.topologies.permitted import topology_refusals
from controlplane.topologies.representation import (
    TOPOLOGY_FIELDS,
)
from controlplane.tuple_rows import RAW
from domain.topology import Topology as Graph


class RackLossSerializer(serializers.Serializer):
    """What the loss of one rack would take down. A node of which no rack is known is a rack of its own."""

    rack = serializers.CharField(help_text="empty where the node is named instead")
    node = serializers.CharField(help_text="empty where the rack is named")
    queries = serializers.IntegerField(help_text="how many have a partition there")
    share = serializers.FloatField(help_text="of the priority of all queries, 0 to 1")
    common = serializers.BooleanField(help_text="whether a partition that every query needs is there")


class RackExposureSerializer(serializers.Serializer):
    """What the loss of a single rack would take down, while the topology runs."""

    racks = serializers.IntegerField(help_text="how many there are; 0 while no rack is known")
    fatal = serializers.IntegerField(help_text="racks whose loss would take down every query")
    losses = RackLossSerializer(many=True, help_text="the worst eight")


class ShadowSerializer(serializers.Serializer):
    """An active replica that runs."""

    node = serializers.CharField()
    caught_up = serializers.BooleanField(help_text="it could take over")


class NodeKeysSerializer(serializers.Serializer):
    """What became of the states of keys on one node, of a topology whose guarantee is bounded. What is
    stored is counted since it was deployed there, what partitions fetched since its driver began."""

    stored = serializers.IntegerField(help_text="states, each as often as it was stored")
    stored_bytes = serializers.IntegerField(help_text="of these")
    segments = serializers.IntegerField(help_text="objects of the storage in which they are")
    waiting = serializers.IntegerField(help_text="requests that are still to be stored")
    storing_failures = serializers.IntegerField(help_text="in a row")
    storing_bypassed_until = serializers.FloatField(
        help_text="Unix seconds until which nothing is stored, because storing has failed so often; then it "
        "is tried again; 0: it is not bypassed"
    )
    fetching_failures = serializers.IntegerField(help_text="in a row")
    fetching_bypassed_until = serializers.FloatField(
        help_text="Unix seconds until which no state is fetched, likewise"
    )
    error = serializers.CharField(allow_blank=True, help_text="why the last request failed, if it did")
    fetched = serializers.IntegerField(
        help_text="keys that partitions which had lost their state asked for, and whose state was stored"
    )
    unknown = serializers.IntegerField(help_text="keys of these of which no state was stored")
    unanswered = serializers.IntegerField(
        help_text="keys of these that had no answer in time, and began without state"
    )
    bypassed = serializers.IntegerField(
        help_text="keys of these for which the storage was not asked, because it was bypassed"
    )
    refused = serializers.IntegerField(
        help_text="keys that found no place to wait in, because too much waited; they are tried again"
    )
    lost_rows = serializers.IntegerField(help_text="rows for partitions that did not run")
    changed = serializers.IntegerField(help_text="keys that have changed and are not stored yet")
    oldest = serializers.FloatField(
        help_text="seconds of input since the first of these has changed; 0 without any"
    )


class TopologySerializer(serializers.ModelSerializer):
    """One row of the fleet. Latencies are relative to before the failure."""

    policy = PolicySerializer(source="*", read_only=True)
    queries_total = serializers.IntegerField(read_only=True)
    queries_available = serializers.IntegerField(read_only=True)
    worst_relative_latency = serializers.FloatField(read_only=True, allow_null=True)
    slow_since = serializers.DictField(child=serializers.DateTimeField(), read_only=True)
    rack_exposure = RackExposureSerializer(read_only=True)
    shadows = serializers.DictField(
        child=ShadowSerializer(), read_only=True, help_text="partition to its active replica"
    )
    acting = serializers.DictField(
        child=serializers.CharField(),
        read_only=True,
        help_text="partition to the node on which a replica has taken over, until a plan knows of it",
    )
    keys = serializers.DictField(
        child=NodeKeysSerializer(),
        read_only=True,
        help_text="by node, what became of the states of keys; empty where the guarantee is exact",
    )
    health = HealthSerializer("topology")
    refusals = RefusalsField(topology_refusals)

    class Meta:
        model = Topology
        fields: tuple[str, ...] = (
            *TOPOLOGY_FIELDS,
            "queries_total",
            "queries_available",
            "worst_relative_latency",
            "updated_at",
            "health",
            "refusals",
        )
        read_only_fields: tuple[str, ...] = fields


class TopologyDetailSerializer(TopologySerializer):
    """With the specification and the graph for drawing."""

    # Of rows of `topology_written`: both are JSON text that the server passes on unparsed.
    spec = serializers.SerializerMethodField()
    graph = serializers.SerializerMethodField()

    class Meta(TopologySerializer.Meta):
        fields = (*TopologySerializer.Meta.fields, "spec", "graph")
        read_only_fields = fields

    @extend_schema_field(serializers.DictField())
    def get_spec(self, topology: Any) -> Any:
        return RAW(topology.spec_text)

    @extend_schema_field(serializers.DictField())
    def get_graph(self, topology: Any) -> Any:
        return specification_drawn(topology.spec_text)["graph"]


class DeploySerializer(ReasonSerializer):
    """Where it starts; `continuation/` says whether it can go on from a checkpoint, and with what."""

    start = serializers.ChoiceField(
        Start.choices,
        default=Start.BEGINNING,
        help_text="with its first tuple and without state, from its newest checkpoint, or from a savepoint",
    )
    savepoint = serializers.RegexField(
        SAVEPOINT_NAME, required=False, max_length=63, help_text="its name, with `start: savepoint`"
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["start"] == Start.SAVEPOINT and "savepoint" not in attrs:
            raise serializers.ValidationError({"savepoint": "name the savepoint that it begins with"})
        if attrs["start"] != Start.SAVEPOINT and "savepoint" in attrs:
            raise serializers.ValidationError({"savepoint": "goes with start: savepoint"})
        return attrs


class ContinuationSerializer(serializers.Serializer):
    """What the newest version goes on with if it is deployed from the newest checkpoint, or begins with if it
    is deployed from a savepoint."""

    possible = serializers.BooleanField()
    refusal = serializers.CharField(allow_blank=True, help_text="why it is not possible; empty where it is")
    problems = ErrorItemSerializer(
        many=True, help_text="what in the specification does not fit the checkpoint"
    )
    checkpoint = serializers.IntegerField(allow_null=True, help_text="its epoch; null where there is none")
    completed_at = serializers.DateTimeField(allow_null=True)
    size_bytes = serializers.IntegerField(allow_null=True)
    committed_epoch = serializers.IntegerField(help_text="up to which outputs are final")
    added = serializers.ListField(
        child=serializers.CharField(), help_text="partitions that begin without state"
    )
    removed = serializers.ListField(
        child=serializers.CharField(), help_text="partitions that are gone, with their state"
    )
    divided = serializers.ListField(
        child=serializers.CharField(),
        help_text="operators whose state is divided anew among their partitions",
    )
    changed = serializers.ListField(
        child=serializers.CharField(),
        help_text="operators that give other rows than they did, from the epoch after the checkpoint on",
    )


class RestoreSerializer(ReasonSerializer):
    """Which checkpoint to go back to; `checkpoints/` lists those that are `stored`."""

    checkpoint = serializers.IntegerField(min_value=1, max_value=2**63 - 1, help_text="its epoch")


class ParkSerializer(ReasonSerializer):
    """Which queries stop."""

    queries = serializers.ListField(
        child=TextField(), min_length=1, max_length=10_000, help_text="their ids, such as O3[0]"
    )


class UnparkSerializer(ReasonSerializer):
    """Which queries return."""

    queries = serializers.ListField(
        child=TextField(),
        required=False,
        default=list,
        max_length=10_000,
        help_text="their ids; all that are parked if none is named",
    )


class TopologySourceSerializer(StrictSerializer):
    """Either `spec` (an object, or YAML text) or the name of a ready-made `pipeline`."""

    spec = serializers.JSONField(required=False, help_text="a specification, or YAML text")
    pipeline = TextField(required=False, help_text="name of a ready-made pipeline")
    name = TextField(required=False, help_text="instead of the specification's name")
    input = TextField(required=False, help_text="file that the sources read")
    rate = serializers.IntegerField(required=False, min_value=1, help_text="tuples per second")
    limit = serializers.IntegerField(required=False, min_value=1, help_text="tuples, then complete")
    arrivals = TextField(required=False, help_text="file of rates at which tuples arrive, instead of `rate`")
    speedup = serializers.FloatField(required=False, help_text="how many times as fast its times pass")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("spec" in attrs) == ("pipeline" in attrs):
            raise serializers.ValidationError("give either `spec` or `pipeline`")
        return super().validate(attrs)


class TopologyCreateSerializer(ReasonSerializer, TopologySourceSerializer):
    """A new topology: either `spec` (an object, or YAML text) or a ready-made `pipeline`, and why."""


class TopologyOutlineSerializer(serializers.Serializer):
    name = serializers.CharField()
    operators = serializers.SerializerMethodField()
    partitions = serializers.SerializerMethodField()
    queries = serializers.ListField(child=serializers.CharField())

    def get_operators(self, graph: Graph) -> int:
        return len(graph.operators)

    def get_partitions(self, graph: Graph) -> int:
        return len(graph.partitions)


class VerdictSerializer(serializers.Serializer):
    """What is wrong with a specification; and what it would be, where it is valid apart from its inputs."""

    valid = serializers.BooleanField()
    problems = ErrorItemSerializer(many=True)
    notes = ErrorItemSerializer(many=True, help_text="no faults: what cannot be known of its operators")
    topology = TopologyOutlineSerializer(allow_null=True)


class TopologyUpdateSerializer(ReasonSerializer):
    spec = serializers.JSONField(help_text="the whole new specification, or YAML text")


class TopologyDeleteSerializer(ReasonSerializer):
    outputs = serializers.ChoiceField(
        Outputs.choices, default=Outputs.KEEP, help_text="keep them under another name, or remove them"
    )


class PipelineSerializer(serializers.Serializer):
    """A ready-made topology."""

    name = serializers.CharField()
    description = serializers.CharField()
    spec = serializers.DictField()
    text = serializers.CharField(help_text="the same as YAML, with its comments")
