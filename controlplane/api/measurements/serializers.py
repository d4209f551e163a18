"""Figures over time over REST."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from rest_framework import serializers

from controlplane.api.fields import MomentField

LAST = timedelta(minutes=15)
FIRST_YEAR = 1971
LONGEST = timedelta(days=400)


class CourseParameters(serializers.Serializer):
    since = MomentField(
        required=False, help_text="begin of the time that is shown; 15 minutes before its end without it"
    )
    until = MomentField(required=False, help_text="its end; now without it")

    def validate(self, given: dict[str, Any]) -> dict[str, Any]:
        until: datetime = given.get("until") or timezone.now()
        if until.year < FIRST_YEAR:
            raise serializers.ValidationError({"until": f"nothing was measured before {FIRST_YEAR}"})
        since: datetime = given.get("since") or until - LAST
        if since >= until:
            raise serializers.ValidationError({"since": "must be before the end of the time that is shown"})
        if until - since > LONGEST:
            raise serializers.ValidationError(
                {"since": f"no more than {LONGEST.days} days are shown at once"}
            )
        return {"since": since, "until": until}


class LineSerializer(serializers.Serializer):
    unit = serializers.CharField()
    mean = serializers.ListField(child=serializers.FloatField(allow_null=True))
    low = serializers.ListField(child=serializers.FloatField(allow_null=True))
    high = serializers.ListField(child=serializers.FloatField(allow_null=True))


class CourseSerializer(serializers.Serializer):
    """Figures by bucket of time; where nothing was measured, there is no bucket."""

    seconds = serializers.IntegerField(
        help_text="length of a bucket; it grows with the age of what is asked for"
    )
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    at = serializers.ListField(child=serializers.DateTimeField(), help_text="when each bucket began")
    figures = serializers.DictField(
        child=LineSerializer(), help_text="figure -> its mean, lowest and highest value in each bucket"
    )
