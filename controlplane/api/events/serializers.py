"""Events, operations and audit entries as REST shows them."""

from __future__ import annotations

from rest_framework import serializers

from controlplane.events.models import AuditEntry, Event, Operation
from controlplane.events.representation import EVENT_FIELDS, OPERATION_FIELDS


class ChangeSerializer(serializers.Serializer):
    """An upsert of an entity's fields, or its removal where `fields` is null."""

    entity = serializers.CharField()
    key = serializers.CharField()
    fields_ = serializers.DictField(allow_null=True)

    def get_fields(self) -> dict[str, serializers.Field]:
        # `fields` is taken by the serializer class itself.
        declared = super().get_fields()
        declared["fields"] = declared.pop("fields_")
        return declared


class EventSerializer(serializers.ModelSerializer):
    changes = ChangeSerializer(many=True)

    class Meta:
        model = Event
        fields = EVENT_FIELDS


class EventPageSerializer(serializers.Serializer):
    """One page of events. `complete` is false when retention has removed events after `after`."""

    results = EventSerializer(many=True)
    next = serializers.CharField(allow_null=True)
    last_sequence = serializers.IntegerField()
    trimmed_through = serializers.IntegerField()
    complete = serializers.BooleanField()


class OperationSerializer(serializers.ModelSerializer):
    result = serializers.DictField(read_only=True)
    parameters = serializers.DictField(read_only=True)

    class Meta:
        model = Operation
        fields: tuple[str, ...] = (*OPERATION_FIELDS, "parameters")
        read_only_fields: tuple[str, ...] = fields


class AuditEntrySerializer(serializers.ModelSerializer):
    before = serializers.DictField(allow_null=True, read_only=True)
    after = serializers.DictField(allow_null=True, read_only=True)

    class Meta:
        model = AuditEntry
        fields = ("id", "at", "actor", "channel", "action", "target", "before", "after", "reason")


class AuditChoicesSerializer(serializers.Serializer):
    """Who and what occurs in the audit trail."""

    actors = serializers.ListField(child=serializers.CharField())
    actions = serializers.ListField(child=serializers.CharField())
    channels = serializers.ListField(child=serializers.CharField())


class SnapshotSerializer(serializers.Serializer):
    """Everything at one sequence number: entity kind, then key, then fields."""

    sequence = serializers.IntegerField()
    server_time = serializers.DateTimeField()
    entities = serializers.DictField(child=serializers.DictField())


class RecentSerializer(serializers.Serializer):
    """Short series, the newest value last, and the event up to which they go."""

    sequence = serializers.IntegerField()
    latencies = serializers.DictField(
        child=serializers.ListField(child=serializers.FloatField()), help_text="`topology/query`: seconds"
    )
    rates = serializers.DictField(
        child=serializers.ListField(child=serializers.FloatField()), help_text="topology: input, tuples/s"
    )
