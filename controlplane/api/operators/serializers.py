"""One operator over REST: what is shown of it."""

from __future__ import annotations

from rest_framework import serializers

TYPES = ["text", "number", "boolean", "time", ""]


class OperatorParameterSerializer(serializers.Serializer):
    name = serializers.CharField()
    value = serializers.JSONField(help_text="as the specification has it")


class OperatorColumnSerializer(serializers.Serializer):
    name = serializers.CharField()
    type = serializers.ChoiceField(TYPES, allow_blank=True, help_text="empty where it is not known")
    masked = serializers.BooleanField(help_text="its values are not shown (RESURGE_MASK_COLUMNS)")


class OperatorColumnsSerializer(serializers.Serializer):
    columns = OperatorColumnSerializer(many=True)
    origin = serializers.ChoiceField(
        ["kind", "inputs", "unknown"],
        help_text="the kind of the operator has them; they follow from its inputs; only its rows show them",
    )
    note = serializers.CharField(help_text="the same in a sentence")


class OperatorInputSerializer(serializers.Serializer):
    partitioning = serializers.CharField()
    key = serializers.CharField(allow_blank=True, help_text="the column that chooses the partition")
    feedback = serializers.BooleanField()
    gives = OperatorColumnsSerializer(help_text="the columns of its rows")

    def get_fields(self) -> dict[str, serializers.Field]:
        """`from` cannot be the name of a class's attribute."""
        return {"from": serializers.CharField(help_text="an operator"), **super().get_fields()}


class OperatorSerializer(serializers.Serializer):
    """How an operator is configured."""

    topology = serializers.CharField()
    version = serializers.IntegerField(help_text="of the specification")
    name = serializers.CharField()
    kind = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    parallelism = serializers.IntegerField()
    output = serializers.BooleanField()
    params = OperatorParameterSerializer(many=True)
    sql = serializers.CharField(allow_blank=True, help_text="its query; empty where its kind has none")
    gives = OperatorColumnsSerializer(help_text="the columns of its rows")
    inputs = OperatorInputSerializer(many=True)
