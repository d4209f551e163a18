"""The export of an incident: one document that explains itself."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from rest_framework import serializers

from controlplane.api.accounts.views import SettingsSerializer
from controlplane.api.checkpoints.serializers import CheckpointSerializer
from controlplane.api.events.serializers import AuditEntrySerializer, OperationSerializer
from controlplane.api.incidents.serializers import (
    IncidentEntrySerializer,
    IncidentSerializer,
    RecoveryPlanSerializer,
)
from controlplane.api.listing import rows_shown
from controlplane.api.nodes.serializers import NodeRequestSerializer
from controlplane.api.topologies.part_serializers import AvailabilitySampleSerializer, PolicySerializer
from controlplane.events.models import Event
from controlplane.incidents.record import IncidentRecord
from controlplane.nodes.models import Node
from controlplane.topologies.representation import POLICY_FIELDS

FORMAT = "resurge.incident"
VERSION = 1
ABOUT = {
    "reading": "The fields of each part are those of the same resource in the OpenAPI document of this "
    "server (/api/v1/schema/), which describes every one of them. Later versions only add fields; a change "
    "of meaning is another version.",
    "times": "ISO 8601 in UTC",
    "partitions": "operator[index]; a query has the id of its output partition",
    "installation": "thresholds that held for every topology whose policy names no other; seconds and shares",
    "incident": "the incident itself: state, times, what was lost, how available its queries were",
    "story": "in order, what happened (stimulus), what was known (evidence), what was decided and why "
    "(decision), what was done (step), what came of it (outcome); `data` holds the facts behind a sentence",
    "plans": "the waves: what each restores and where, the planner's scores and reasons, and when it was "
    "planned, published, applied, caught up and verified",
    "topologies": "specification, policy and priorities as they are now",
    "nodes": "nodes that were lost, asked for, or part of a plan, as they are now",
    "node_requests": "replacements that were asked for",
    "checkpoints": "the one rolled back to, and those of the time of the incident",
    "availability": "for each topology, queries available over time; `weighted` by priority, 0 to 1; from a "
    "minute before to a minute after. Samples are kept for a day",
    "decisions": "changes that bear on the incident: who, through which channel, before and after, and why",
    "operations": "the asynchronous actions that were asked for, and how they ended",
    "events": "the numbered events that were published about the incident, without their changes",
}


class ExportedTopologySerializer(serializers.Serializer):
    name = serializers.CharField()
    version = serializers.IntegerField()
    status = serializers.CharField()
    policy = PolicySerializer(source="*")
    spec = serializers.DictField()
    priorities = serializers.DictField(child=serializers.IntegerField(), read_only=True)


class ExportedNodeSerializer(serializers.ModelSerializer):
    class Meta:
        model = Node
        fields = (
            "name", "address", "rack", "slots", "capacity", "standby", "state", "registered_at",
            "last_heartbeat", "provider",
        )  # fmt: skip


class ExportedEventSerializer(serializers.ModelSerializer):
    class Meta:
        model = Event
        fields = ("sequence", "at", "kind", "topology", "node", "actor", "reason")


class IncidentExportSerializer(serializers.Serializer):
    """An incident with all that belongs to it; `about` says how to read it."""

    format = serializers.ChoiceField([FORMAT])
    version = serializers.IntegerField(help_text="of the format")
    about = serializers.DictField(child=serializers.CharField())
    exported_at = serializers.DateTimeField()
    exported_by = serializers.CharField()
    installation = SettingsSerializer()
    incident = IncidentSerializer()
    story = IncidentEntrySerializer(many=True)
    plans = RecoveryPlanSerializer(many=True)
    topologies = ExportedTopologySerializer(many=True)
    nodes = ExportedNodeSerializer(many=True)
    node_requests = NodeRequestSerializer(many=True)
    checkpoints = CheckpointSerializer(many=True)
    availability = serializers.DictField(child=AvailabilitySampleSerializer(many=True))
    decisions = AuditEntrySerializer(many=True)
    operations = OperationSerializer(many=True)
    events = ExportedEventSerializer(many=True)


def incident_document(record: IncidentRecord, *, exported_by: str) -> dict[str, Any]:
    """The export as plain data, ready to be rendered; what is JSON in the database stays text."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "about": ABOUT,
        "exported_at": record.exported_at,
        "exported_by": exported_by,
        "installation": SettingsSerializer(settings.RESURGE).data,
        "incident": IncidentSerializer(record.incident).data,
        "story": rows_shown(record.story, IncidentEntrySerializer),
        "plans": rows_shown(record.plans, RecoveryPlanSerializer),
        "topologies": [_topology(row, record.priorities[row.name]) for row in record.topologies],
        "nodes": rows_shown(record.nodes, ExportedNodeSerializer),
        "node_requests": rows_shown(record.requests, NodeRequestSerializer),
        "checkpoints": rows_shown(record.checkpoints, CheckpointSerializer),
        "availability": record.samples,
        "decisions": rows_shown(record.decisions, AuditEntrySerializer),
        "operations": rows_shown(record.operations, OperationSerializer),
        "events": rows_shown(record.events, ExportedEventSerializer),
    }


def _topology(row: Any, priorities: dict[str, int]) -> dict[str, Any]:
    shown = {name: getattr(row, name) for name in ("name", "version", "status")}
    policy = {name: getattr(row, name) for name in POLICY_FIELDS}
    return {**shown, "policy": policy, "spec": row.spec, "priorities": priorities}
