"""Webhooks and deliveries as REST shows and accepts them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from controlplane.api.requests import ReasonSerializer
from controlplane.webhooks.choices import KIND_CHOICES
from controlplane.webhooks.models import URL_LENGTH, Delivery, DeliveryAttempt, Webhook
from controlplane.webhooks.payload import EventGoneError, body_of
from controlplane.webhooks.services import LONGEST_OVERLAP, OVERLAP
from controlplane.webhooks.tags import WEBHOOK_FIELDS
from domain.topology.spec import TOPOLOGY_NAME_PATTERN

HOUR = 3600.0


class WebhookSerializer(serializers.ModelSerializer):
    """A webhook and its health. The secret is not included: it is shown once, when it is made."""

    kinds = serializers.ListField(child=serializers.ChoiceField(KIND_CHOICES), read_only=True)
    topologies = serializers.ListField(
        child=serializers.CharField(), read_only=True, help_text="names; empty: all topologies"
    )
    pending = serializers.IntegerField(read_only=True, help_text="deliveries waiting to be sent")

    class Meta:
        model = Webhook
        fields: tuple[str, ...] = (
            "id",
            "name",
            "url",
            "kinds",
            "topologies",
            "enabled",
            "disabled_because",
            "pending",
            "failing_since",
            "failures",
            "succeeded_at",
            "created_by",
            "created_at",
            "updated_at",
        )
        read_only_fields: tuple[str, ...] = fields


class WebhookSecretSerializer(WebhookSerializer):
    secret = serializers.CharField(help_text="signs the deliveries; shown this once")

    class Meta(WebhookSerializer.Meta):
        fields = (*WebhookSerializer.Meta.fields, "secret")
        read_only_fields = fields


class WebhookUpdateSerializer(ReasonSerializer):
    """Fields that are left out keep their values."""

    url = serializers.CharField(
        max_length=URL_LENGTH, required=False, help_text="http or https; redirects are not followed"
    )
    kinds = serializers.ListField(
        child=serializers.ChoiceField(KIND_CHOICES), allow_empty=False, required=False
    )
    topologies = serializers.ListField(
        child=serializers.CharField(max_length=64),
        required=False,
        help_text="names; empty: all. Events of nodes belong to no topology and are always sent.",
    )
    enabled = serializers.BooleanField(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        unknown = set(self.initial_data) - set(self.fields)
        if unknown:
            raise serializers.ValidationError(
                dict.fromkeys(unknown, f"no such field; the fields are {', '.join(WEBHOOK_FIELDS)}")
            )
        if not attrs.keys() & set(WEBHOOK_FIELDS):
            raise serializers.ValidationError(f"give at least one of {', '.join(WEBHOOK_FIELDS)}")
        return attrs


class WebhookCreateSerializer(WebhookUpdateSerializer):
    """Events of these kinds and topologies are sent to `url` from now on."""

    name = serializers.RegexField(
        TOPOLOGY_NAME_PATTERN, max_length=63, help_text="unique; small letters, digits and -"
    )

    def get_fields(self) -> dict[str, serializers.Field]:
        fields = super().get_fields()
        fields["url"].required = fields["kinds"].required = True
        return fields


class RotateSerializer(ReasonSerializer):
    overlap_hours = serializers.FloatField(
        default=OVERLAP.total_seconds() / HOUR,
        min_value=0.0,
        max_value=LONGEST_OVERLAP.total_seconds() / HOUR,
        help_text="hours for which the present secret also signs",
    )


class DeliverySerializer(serializers.ModelSerializer):
    """One event for one webhook; `sequence` is the event's, null for a test."""

    class Meta:
        model = Delivery
        fields: tuple[str, ...] = (
            "id",
            "webhook",
            "kind",
            "sequence",
            "topology",
            "state",
            "attempts",
            "due_at",
            "status",
            "error",
            "requested_by",
            "created_at",
            "ended_at",
        )
        read_only_fields: tuple[str, ...] = fields


class DeliveryAttemptSerializer(serializers.ModelSerializer):
    """One request; `duration` in seconds, null where its worker ended first."""

    class Meta:
        model = DeliveryAttempt
        fields = ("number", "started_at", "duration", "status", "error", "excerpt")


class DeliveryDetailSerializer(DeliverySerializer):
    """With every attempt and the body that is sent."""

    log = DeliveryAttemptSerializer(many=True, read_only=True)
    body = serializers.SerializerMethodField()

    class Meta(DeliverySerializer.Meta):
        fields = (*DeliverySerializer.Meta.fields, "log", "body")
        read_only_fields = fields

    def get_body(self, delivery: Delivery) -> str | None:
        try:
            return body_of(delivery).decode()
        except EventGoneError:
            return None
