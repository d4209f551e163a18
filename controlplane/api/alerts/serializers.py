"""Alerts, rules and silences as REST shows and accepts them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone
from rest_framework import serializers

from controlplane.alerts.choices import (
    METRIC_CHOICES,
    AlertComparison,
    AlertSeverity,
    MissingPolicy,
)
from controlplane.alerts.models import RUNBOOK_LENGTH, Alert, AlertRule, Silence
from controlplane.alerts.representation import (
    ALERT_FIELDS,
    RULE_EDITABLE,
    RULE_FIELDS,
    SILENCE_FIELDS,
    alert_fields,
)
from controlplane.alerts.services import HIGHEST, LONGEST
from controlplane.alerts.silencing import LONGEST as LONGEST_SILENCE
from controlplane.api.fields import MomentField, TextField
from controlplane.api.requests import ReasonSerializer
from controlplane.topologies.models import PRIORITY_HIGH, PRIORITY_LOW
from domain.topology.spec import TOPOLOGY_NAME_PATTERN


class AlertSerializer(serializers.ModelSerializer):
    """One time that a rule applied to one topology or query. What the rule says is a copy: of one that has
    ended, what it said then."""

    silence = serializers.IntegerField(
        source="silence_id", allow_null=True, help_text="id of the silence that covers it; null: none"
    )
    subject = serializers.CharField(help_text="the topology, or `topology/query`")
    text = serializers.CharField(help_text="what it says, in a sentence")

    class Meta:
        model = Alert
        fields: tuple[str, ...] = ALERT_FIELDS

    def to_representation(self, instance: Any) -> dict[str, Any]:
        return alert_fields(instance)


class RuleSerializer(serializers.ModelSerializer):
    """A condition on a metric, and for how long it must hold before an alert fires."""

    class Meta:
        model = AlertRule
        fields: tuple[str, ...] = RULE_FIELDS
        read_only_fields: tuple[str, ...] = fields


class RuleUpdateSerializer(ReasonSerializer):
    """Fields that are left out keep their values."""

    comparison = serializers.ChoiceField(AlertComparison.choices, required=False)
    threshold = serializers.FloatField(
        min_value=0.0,
        max_value=HIGHEST,
        required=False,
        help_text="in the unit of the metric; of a share, 1 is all",
    )
    held = serializers.FloatField(
        min_value=0.0,
        max_value=LONGEST,
        required=False,
        help_text="seconds for which the condition must hold before an alert fires",
    )
    calm = serializers.FloatField(
        min_value=0.0,
        max_value=LONGEST,
        required=False,
        help_text="seconds for which the condition must not hold before the alert ends; at first 30",
    )
    missing = serializers.ChoiceField(
        MissingPolicy.choices,
        required=False,
        help_text="what happens where the value stays away for as long as the condition must hold",
    )
    severity = serializers.ChoiceField(AlertSeverity.choices, required=False)
    topology = TextField(
        max_length=64, allow_blank=True, required=False, help_text="the one that it judges; empty: all"
    )
    priority = serializers.IntegerField(
        min_value=PRIORITY_LOW,
        max_value=PRIORITY_HIGH,
        required=False,
        help_text="queries of a lower priority are left out",
    )
    enabled = serializers.BooleanField(required=False)
    runbook = TextField(
        max_length=RUNBOOK_LENGTH,
        allow_blank=True,
        required=False,
        help_text="what to do when it fires: a text, or an address that begins with https:// or http://",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        given = super().validate(attrs)
        if not given.keys() & set(RULE_EDITABLE):
            raise serializers.ValidationError(f"give at least one of {', '.join(RULE_EDITABLE)}")
        return given


class RuleCreateSerializer(RuleUpdateSerializer):
    """The rule is looked at from now on."""

    name = serializers.RegexField(
        TOPOLOGY_NAME_PATTERN, max_length=63, help_text="unique; small letters, digits and -"
    )
    metric = serializers.ChoiceField(METRIC_CHOICES)

    def get_fields(self) -> dict[str, serializers.Field]:
        fields = super().get_fields()
        for name in ("comparison", "threshold", "held"):
            fields[name].required = True
        return fields


class SilenceSerializer(serializers.ModelSerializer):
    """Nothing is told of alerts of this rule and this topology until then; an empty name stands for all."""

    class Meta:
        model = Silence
        fields: tuple[str, ...] = SILENCE_FIELDS
        read_only_fields: tuple[str, ...] = fields


class SilenceCreateSerializer(ReasonSerializer):
    """Name a rule, a topology, or both, and either its end or how long it lasts."""

    rule = TextField(max_length=64, allow_blank=True, default="", help_text="empty: all")
    topology = TextField(max_length=64, allow_blank=True, default="", help_text="empty: all")
    until = MomentField(required=False, help_text="at most 30 days away")
    seconds = serializers.IntegerField(
        min_value=1,
        max_value=int(LONGEST_SILENCE.total_seconds()),
        required=False,
        help_text="how long, instead of `until`: the same in each repetition of a request",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        given = super().validate(attrs)
        if ("until" in given) == ("seconds" in given):
            raise serializers.ValidationError({"until": "give either `until` or `seconds`"})
        if "seconds" in given:
            given["until"] = timezone.now() + timedelta(seconds=given.pop("seconds"))
        return given
