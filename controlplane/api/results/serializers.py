"""Results of a query over REST."""

from __future__ import annotations

from rest_framework import serializers

from controlplane.results.asking import MOST_ROWS, MOST_WINDOWS


class ResultsParameters(serializers.Serializer):
    limit = serializers.IntegerField(
        min_value=1, max_value=MOST_ROWS, default=100, help_text="rows of a page"
    )
    before = serializers.CharField(
        max_length=80, default="", allow_blank=True, help_text="`next` of the page before: the rows after it"
    )
    windows = serializers.IntegerField(
        min_value=0, max_value=MOST_WINDOWS, default=0, help_text="so many windows are summed up as well"
    )


class ResultColumnSerializer(serializers.Serializer):
    name = serializers.CharField()
    type = serializers.ChoiceField(
        ["text", "number", "boolean", "time"], help_text="what is none of these is shown as text"
    )
    masked = serializers.BooleanField(help_text="its values are not shown (RESURGE_MASK_COLUMNS)")


class ResultWindowSerializer(serializers.Serializer):
    start = serializers.DateTimeField(allow_null=True)
    end = serializers.DateTimeField()
    rows = serializers.IntegerField()
    total = serializers.FloatField(allow_null=True, help_text="sum of `count`; null without such a column")
    key = serializers.CharField(allow_null=True, help_text="that with the largest count")
    count = serializers.FloatField(allow_null=True, help_text="the largest count")


class ResultsSerializer(serializers.Serializer):
    """Committed rows of a query, newest first."""

    deployed = serializers.IntegerField(help_text="generation of the plan that deployed the topology")
    epoch = serializers.IntegerField(help_text="the newest that counts")
    removed = serializers.IntegerField(help_text="epochs up to this one were removed for age or size")
    columns = ResultColumnSerializer(many=True)
    rows = serializers.ListField(
        child=serializers.DictField(),
        help_text="by window, the newest first, and in it by count; without windows in the order of writing",
    )
    next = serializers.CharField(
        allow_blank=True, help_text="`before` of the next page; empty after the last"
    )
    windows = ResultWindowSerializer(many=True)
