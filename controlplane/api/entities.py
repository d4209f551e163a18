"""What the snapshot and the events tell, with its types: the fields that the modules `representation` name.

The type and the description of a column are those of the model; those of other fields stand in a serializer.
`typescript` writes the page's types from these classes; no request is answered with them.
"""

from __future__ import annotations

from typing import get_args

from rest_framework import serializers

from controlplane.api.alerts.serializers import AlertSerializer, RuleSerializer, SilenceSerializer
from controlplane.api.checkpoints.serializers import CheckpointDetailSerializer
from controlplane.api.events.serializers import ChangeSerializer, EventSerializer, OperationSerializer
from controlplane.api.incidents.serializers import (
    IncidentDetailSerializer,
    IncidentEntrySerializer,
    RecoveryPlanSerializer,
)
from controlplane.api.nodes.serializers import NodeDetailSerializer
from controlplane.api.topologies.part_serializers import (
    AvailabilitySampleSerializer,
    PartitionSerializer,
    ProblemSerializer,
    QuerySerializer,
)
from controlplane.api.topologies.serializers import TopologySerializer
from controlplane.checkpoints.representation import CHECKPOINT_FIELDS
from controlplane.events.representation import OPERATION_FIELDS, EntityKind
from controlplane.incidents.choices import PredictionKind, PredictionStage
from controlplane.incidents.representation import ENTRY_FIELDS, INCIDENT_FIELDS
from controlplane.nodes.representation import NODE_FIELDS
from controlplane.topologies.representation import (
    PROBLEM_FIELDS,
    QUERY_FIELDS,
    SAMPLE_FIELDS,
    TOPOLOGY_FIELDS,
)
from domain.topology.spec import Partitioning


class StreamInputSerializer(serializers.Serializer):
    """A stream that an operator receives."""

    source = serializers.CharField(help_text="the operator that sends")
    partitioning = serializers.ChoiceField(get_args(Partitioning))
    feedback = serializers.BooleanField(help_text="whether it closes a cycle")

    def get_fields(self) -> dict[str, serializers.Field]:
        # `from` is a keyword of Python.
        declared = super().get_fields()
        return {"from": declared.pop("source"), **declared}


class OperatorNodeSerializer(serializers.Serializer):
    """An operator as the page draws it."""

    name = serializers.CharField()
    kind = serializers.CharField()
    description = serializers.CharField()
    parallelism = serializers.IntegerField(help_text="partitions")
    priority = serializers.IntegerField(help_text="of the queries that an output operator defines")
    output = serializers.BooleanField(help_text="whether its results leave the topology")
    correlated = serializers.BooleanField(
        help_text="whether it joins its inputs: losing one loses everything"
    )
    deterministic = serializers.BooleanField()
    determinism = serializers.CharField(help_text="what is known of that, in a sentence")
    every = serializers.CharField(
        help_text="how often the state of a key is stored, if it has any; empty where the guarantee is exact"
    )
    level = serializers.IntegerField(help_text="longest way from a source, which is on level 0")
    inputs = StreamInputSerializer(many=True)


class GraphSerializer(serializers.Serializer):
    """The operators of a topology, by level."""

    operators = OperatorNodeSerializer(many=True)


class TopologyEntity(TopologySerializer):
    """A topology, how it is to be recovered, and where its run stands."""

    graph = GraphSerializer()
    description = serializers.CharField()
    checkpoint_interval = serializers.FloatField(
        allow_null=True, help_text="seconds between checkpoints; null: as the installation says"
    )

    class Meta(TopologySerializer.Meta):
        fields = (*TOPOLOGY_FIELDS, "graph", "description", "checkpoint_interval", "health", "refusals")
        read_only_fields = fields


class PartitionEntity(PartitionSerializer):
    """One partition of an operator: where it runs and how it does."""


class QueryEntity(QuerySerializer):
    """An output partition with everything upstream of it."""

    class Meta(QuerySerializer.Meta):
        fields = (*QUERY_FIELDS, "health")


class NodeEntity(NodeDetailSerializer):
    """A host that can run partitions."""

    class Meta(NodeDetailSerializer.Meta):
        fields = (*NODE_FIELDS, "health", "refusals")
        read_only_fields = fields


class SummarySerializer(serializers.Serializer):
    """Which queries a failure took down."""

    failed_queries = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()),
        required=False,
        help_text="topology name to ids of queries",
    )
    returned = serializers.DictField(
        child=serializers.CharField(),
        required=False,
        help_text="`topology/query` to when it was available again",
    )


class OverSerializer(serializers.Serializer):
    """When something is expected to be over."""

    stage = serializers.ChoiceField(PredictionStage.choices, help_text="what it waits for")
    expected_at = serializers.DateTimeField()
    low_at = serializers.DateTimeField(help_text="with high_at: the range that holds in 80 of 100 cases")
    high_at = serializers.DateTimeField()


class OverOfQueriesSerializer(OverSerializer):
    queries = serializers.ListField(child=serializers.CharField(), help_text="as `topology/query`")


class OverOfWaveSerializer(OverSerializer):
    wave = serializers.CharField(help_text="as `topology/generation`")


class PredictedSerializer(OverSerializer):
    """One that was made when the incident or a wave began a stage."""

    kind = serializers.ChoiceField(PredictionKind.choices)
    subject = serializers.CharField(help_text="`topology/generation` of a wave, else empty")
    made_at = serializers.DateTimeField()
    over_at = serializers.DateTimeField(allow_null=True, help_text="when it really was")


class ForecastSerializer(serializers.Serializer):
    """When an incident will be over."""

    held = serializers.CharField(required=False, help_text="why nothing can be expected, or empty")
    over = OverSerializer(required=False, allow_null=True)
    waves = OverOfWaveSerializer(many=True, required=False)
    queries = OverOfQueriesSerializer(many=True, required=False)
    course = PredictedSerializer(many=True, required=False)


class IncidentEntity(IncidentDetailSerializer):
    """One failure of one or several nodes, from detection to verified recovery."""

    summary = SummarySerializer()
    forecast = ForecastSerializer()

    class Meta(IncidentDetailSerializer.Meta):
        fields = (*INCIDENT_FIELDS, "health", "refusals")
        read_only_fields = fields


class EntryEntity(IncidentEntrySerializer):
    """One line of an incident's story."""

    incident = serializers.IntegerField(source="incident.number", help_text="its number")

    class Meta(IncidentEntrySerializer.Meta):
        fields = ENTRY_FIELDS


class PlanEntity(RecoveryPlanSerializer):
    """What a topology's driver was told to run, and where; `generation` only grows."""


class CheckpointEntity(CheckpointDetailSerializer):
    """The state of every partition after epoch `epoch`."""

    class Meta(CheckpointDetailSerializer.Meta):
        fields = (*CHECKPOINT_FIELDS, "refusals")


class ProblemEntity(ProblemSerializer):
    """Something that went wrong, and what to do about it; repetitions are counted."""

    class Meta(ProblemSerializer.Meta):
        fields = PROBLEM_FIELDS


class OperationEntity(OperationSerializer):
    """An asynchronous action that a user asked for."""

    class Meta(OperationSerializer.Meta):
        fields = OPERATION_FIELDS
        read_only_fields = fields


class SampleEntity(AvailabilitySampleSerializer):
    """How many queries of a topology were available at an instant."""

    topology = serializers.CharField(source="topology.name")

    class Meta(AvailabilitySampleSerializer.Meta):
        fields = SAMPLE_FIELDS


class AlertEntity(AlertSerializer):
    """One time that a rule applies to one topology or query."""


class RuleEntity(RuleSerializer):
    """A condition on a metric, and for how long it must hold before an alert fires."""


class SilenceEntity(SilenceSerializer):
    """Alerts that nothing is told of for some time; an empty name stands for all."""


class ChangeEntity(ChangeSerializer):
    """The fields of an entity that changed, to be merged; or its removal where `fields` is null."""

    entity = serializers.ChoiceField(get_args(EntityKind))


class NumberedEventEntity(EventSerializer):
    """A numbered event. Over REST `topology` and `node` are "" where they are null here."""

    topology = serializers.CharField(allow_null=True)
    node = serializers.CharField(allow_null=True)
    changes = ChangeEntity(many=True)


ENTITIES: dict[EntityKind, type[serializers.Serializer]] = {
    "topology": TopologyEntity,
    "partition": PartitionEntity,
    "query": QueryEntity,
    "node": NodeEntity,
    "incident": IncidentEntity,
    "entry": EntryEntity,
    "plan": PlanEntity,
    "checkpoint": CheckpointEntity,
    "problem": ProblemEntity,
    "operation": OperationEntity,
    "sample": SampleEntity,
    "alert": AlertEntity,
    "rule": RuleEntity,
    "silence": SilenceEntity,
}
"""Each kind of entity, as a row of the snapshot has it."""
