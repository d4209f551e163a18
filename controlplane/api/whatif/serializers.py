"""The question and the answer of a what-if over REST."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from controlplane.api.fields import StrictSerializer
from controlplane.whatif.request import (
    AS_PROVIDER,
    DEFAULT_ALGORITHMS,
    LONGEST_WAIT,
    MOST_POINTS,
    NONE,
    RUNNING,
    WhatIf,
)
from domain.simulation.comparison import ALGORITHMS

TOO_LATE = 2 * LONGEST_WAIT


@extend_schema_field(
    {
        "oneOf": [
            {"type": "string", "example": "uniform:120:360"},
            {"type": "array", "items": {"type": "number", "minimum": 0}},
        ],
        "default": AS_PROVIDER,
    }
)
class ArrivalsField(serializers.Field):
    """A list of seconds, or a text that names a distribution."""

    def to_internal_value(self, data: Any) -> str | tuple[float, ...]:
        if isinstance(data, str):
            return data
        if isinstance(data, list) and all(
            isinstance(one, int | float) and not isinstance(one, bool) for one in data
        ):
            # An integer too large for a float is out of bounds anyway.
            return tuple(float(min(one, TOO_LATE)) for one in data)
        raise serializers.ValidationError(
            f"write seconds as a list of numbers, `uniform:<seconds>:<seconds>`, or `{AS_PROVIDER}`"
        )

    def to_representation(self, value: Any) -> Any:
        return value


@extend_schema_field(
    {
        "oneOf": [{"type": "string", "enum": [RUNNING, NONE]}, {"type": "integer", "minimum": 0}],
        "default": RUNNING,
    }
)
class ReplicasField(serializers.Field):
    """A budget, or which replicas there are."""

    def to_internal_value(self, data: Any) -> str | int:
        if isinstance(data, str) or (isinstance(data, int) and not isinstance(data, bool)):
            return data
        raise serializers.ValidationError(f"write `{RUNNING}`, `{NONE}` or a whole number, the budget")

    def to_representation(self, value: Any) -> Any:
        return value


class WhatIfSerializer(StrictSerializer):
    """What fails, when nodes come, and which algorithms to compare."""

    nodes = serializers.ListField(
        child=serializers.CharField(max_length=200), required=False, max_length=10_000
    )
    racks = serializers.ListField(
        child=serializers.CharField(max_length=200), required=False, max_length=10_000
    )
    arrivals = ArrivalsField(
        required=False,
        help_text="seconds after the failure at which nodes come; `uniform:<low>:<high>`, drawn for each "
        f"request from `seed`; or `{AS_PROVIDER}`",
    )
    seed = serializers.IntegerField(required=False, min_value=0, max_value=2**31 - 1)
    algorithms = serializers.ListField(
        child=serializers.CharField(max_length=64),
        required=False,
        help_text=f"of {', '.join(ALGORITHMS)}; default {', '.join(DEFAULT_ALGORITHMS)}",
    )
    priorities = serializers.DictField(
        child=serializers.DictField(child=serializers.IntegerField(min_value=1, max_value=10)),
        required=False,
        help_text="overrides, by topology and query",
    )
    rollback = serializers.ChoiceField(
        choices=("ancestors", "global"), required=False, help_text="default: the policy of each topology"
    )
    replicas = ReplicasField(
        required=False,
        help_text=f"which replicas take over: `{RUNNING}`, those that have caught up; `{NONE}`; or a budget: "
        "those of a replication plan with it for each topology, as if they were in place",
    )
    replay_speed = serializers.FloatField(
        required=False, min_value=1.01, max_value=1_000, help_text="replay relative to real time"
    )
    points = serializers.IntegerField(
        required=False, min_value=2, max_value=MOST_POINTS, help_text="of each curve, at most"
    )

    def question(self) -> WhatIf:
        """The validated question; raises `Invalid`."""
        given: dict[str, Any] = dict(self.validated_data)
        for name in ("nodes", "racks", "algorithms"):
            if name in given:
                given[name] = tuple(given[name])
        return WhatIf(**given)


class CurvePointSerializer(serializers.Serializer):
    at = serializers.FloatField(help_text="seconds after the failure")
    available = serializers.IntegerField()
    total = serializers.IntegerField()
    weighted = serializers.FloatField(help_text="share of the summed priorities, 0 to 1")
    tentative = serializers.IntegerField(help_text="queries that are not available and give tentative output")
    weighted_tentative = serializers.FloatField(help_text="their share of the summed priorities, 0 to 1")


class PredictedWaveSerializer(serializers.Serializer):
    number = serializers.IntegerField()
    at = serializers.FloatField(help_text="seconds after the failure")
    restored_at = serializers.FloatField(allow_null=True)
    rollback = serializers.BooleanField()
    nodes = serializers.ListField(child=serializers.CharField())
    partitions = serializers.IntegerField()
    queries = serializers.ListField(child=serializers.CharField())
    cost = serializers.FloatField(help_text="CPU percent")
    capacity = serializers.FloatField(help_text="CPU percent that was free")


class PredictedCourseSerializer(serializers.Serializer):
    """Availability over time; `first`, `half` and `all` are of the failed queries, null if never."""

    curve = CurvePointSerializer(many=True)
    first = serializers.FloatField(allow_null=True)
    half = serializers.FloatField(allow_null=True)
    all = serializers.FloatField(allow_null=True)
    area = serializers.FloatField(help_text="mean weighted availability until the horizon")


class PredictionSerializer(PredictedCourseSerializer):
    algorithm = serializers.CharField()
    ended = serializers.BooleanField(help_text="whether everything could be recovered")
    waves = PredictedWaveSerializer(many=True)
    share_of_best = serializers.FloatField(allow_null=True)


class BestCourseSerializer(PredictedCourseSerializer):
    """The best schedule in hindsight."""

    placed = serializers.BooleanField(
        help_text="whether every partition has a node; else only the total capacity counts"
    )
    proven = serializers.BooleanField(help_text="whether no schedule is better")


class PredictedArrivalSerializer(serializers.Serializer):
    at = serializers.FloatField(help_text="seconds after the failure")
    capacity = serializers.FloatField()
    rack = serializers.CharField(allow_blank=True)


class TakenOverSerializer(serializers.Serializer):
    partition = serializers.CharField()
    node = serializers.CharField(help_text="where its replica is")


class QueryLeftSerializer(serializers.Serializer):
    query = serializers.CharField()
    outcome = serializers.ChoiceField(
        choices=("goes_on", "tentative", "lacks_input", "stops"),
        help_text="`tentative`: it goes on without a part of its input; `lacks_input`: it could, and waits",
    )
    fidelity = serializers.FloatField(help_text="estimated share of its output that is not lost, 0 to 1")


class FailureOutlookSerializer(serializers.Serializer):
    """What the failure leaves of a topology at once, before anything is restored."""

    topology = serializers.CharField()
    fidelity = serializers.FloatField(help_text="of all its queries, by rate and priority, 0 to 1")
    replicas = serializers.IntegerField(help_text="how many could take over before the failure")
    unplaced = serializers.ListField(
        child=serializers.CharField(), help_text="partitions of the plan for whose replica no node has room"
    )
    taken_over = TakenOverSerializer(many=True)
    queries = QueryLeftSerializer(many=True)


class WhatIfAnswerSerializer(serializers.Serializer):
    failed_nodes = serializers.ListField(child=serializers.CharField())
    topologies = serializers.ListField(child=serializers.CharField())
    queries = serializers.IntegerField()
    failed_queries = serializers.ListField(
        child=serializers.CharField(), help_text="those that lack something, all or a part of their input"
    )
    replicas = ReplicasField(help_text="as asked")
    outlooks = FailureOutlookSerializer(many=True)
    horizon = serializers.FloatField(help_text="seconds after the failure over which areas are taken")
    arrivals = PredictedArrivalSerializer(many=True)
    algorithms = PredictionSerializer(many=True)
    best = BestCourseSerializer(allow_null=True)
