"""Incidents, their story and their plans as REST shows them."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from rest_framework import serializers

from controlplane.api.fields import RefusalsField, TextField
from controlplane.api.health import HealthSerializer, health_added
from controlplane.api.listing import Rows, rows_shown
from controlplane.api.requests import ReasonSerializer
from controlplane.incidents.models import Incident, IncidentEntry, RecoveryPlan
from controlplane.incidents.permitted import incident_refusals
from controlplane.incidents.representation import (
    ENTRY_STORED,
    INCIDENT_FIELDS,
    INCIDENT_RELATED,
    PLAN_FIELDS,
)
from controlplane.incidents.selectors import incident_names


class NamesField(serializers.ListField):
    """Names of related rows (prefetched by the view), sorted."""

    child = serializers.CharField()

    def to_representation(self, data: Any) -> list[str]:
        return sorted(row.name for row in data.all())


class ProposalSerializer(serializers.Serializer):
    """A plan that waits for a confirmation; see `approve`."""

    proposal = serializers.CharField(help_text="id, for `approve`")
    generation = serializers.IntegerField(help_text="of the topology when it was proposed")
    wave = serializers.IntegerField()
    method = serializers.CharField()
    rollback = serializers.BooleanField()
    restore = serializers.ListField(child=serializers.CharField())
    queries = serializers.ListField(child=serializers.CharField())
    reason = serializers.CharField()


class ApproveSerializer(ReasonSerializer):
    proposal = TextField(
        required=False,
        max_length=200,
        help_text="id of the proposal; without it all that are proposed now. One that is not proposed any "
        "more is refused (409)",
    )


class IncidentSerializer(serializers.ModelSerializer):
    failed_nodes = NamesField(read_only=True)
    topologies = NamesField(read_only=True)
    checkpoints = serializers.DictField(child=serializers.IntegerField(), read_only=True)
    summary = serializers.DictField(read_only=True)
    forecast = serializers.DictField(
        read_only=True, help_text="when it will be over, with a range of 80 %, and what was predicted before"
    )
    proposals = serializers.DictField(
        child=ProposalSerializer(), read_only=True, help_text="topology name to the plan that waits"
    )

    health = HealthSerializer("incident")

    class Meta:
        model = Incident
        fields: tuple[str, ...] = (*INCIDENT_FIELDS, "health")
        read_only_fields: tuple[str, ...] = fields


def incidents_shown(rows: QuerySet[Incident]) -> Rows:
    """Incidents as `IncidentSerializer` shows them."""
    found = rows_shown(rows.prefetch_related(None), IncidentSerializer, without=(*INCIDENT_RELATED, "health"))
    names = incident_names([incident["number"] for incident in found])
    for incident in found:
        for field, of in zip(INCIDENT_RELATED, names, strict=True):
            incident[field] = sorted(of[incident["number"]])
    health_added("incident", found, lambda row: str(row["number"]))
    return [{field: incident[field] for field in IncidentSerializer.Meta.fields} for incident in found]


class IncidentEntrySerializer(serializers.ModelSerializer):
    data = serializers.DictField(read_only=True)

    class Meta:
        model = IncidentEntry
        fields: tuple[str, ...] = ("id", *ENTRY_STORED)


class IncidentDetailSerializer(IncidentSerializer):
    """With its story."""

    entries = IncidentEntrySerializer(many=True, read_only=True)
    refusals = RefusalsField(incident_refusals)

    class Meta(IncidentSerializer.Meta):
        fields = (*IncidentSerializer.Meta.fields, "entries", "refusals")
        read_only_fields = fields


class RecoveryPlanSerializer(serializers.ModelSerializer):
    topology = serializers.CharField(source="topology.name", read_only=True)
    incident = serializers.IntegerField(
        source="incident.number", read_only=True, allow_null=True, default=None
    )
    assignment = serializers.DictField(child=serializers.CharField(), read_only=True)
    restore = serializers.ListField(child=serializers.CharField(), read_only=True)
    explanation = serializers.DictField(read_only=True)

    class Meta:
        model = RecoveryPlan
        fields = PLAN_FIELDS
