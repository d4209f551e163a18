"""The question and the answer of a replication plan over REST."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from controlplane.api.fields import StrictSerializer
from controlplane.api.requests import ReasonSerializer
from controlplane.checkpoints.models import Checkpoint
from controlplane.replication.selectors import EXPLAINED
from controlplane.topologies.choices import (
    REPLICATION_OBJECTIVE_CHOICES,
    REPLICATION_PLANNER_CHOICES,
    ReplicationMode,
)
from domain.topology.spec import MAX_PARTITIONS


class ReplicationQuestionSerializer(StrictSerializer):
    budget = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=MAX_PARTITIONS,
        help_text="how many partitions may be replicated; default: that of the policy, else a quarter",
    )
    planner = serializers.ChoiceField(
        REPLICATION_PLANNER_CHOICES,
        required=False,
        help_text="default: that of the policy; `dynamic_programming` is exact, refuses what is too large; "
        "`optimal` searches for some seconds and says how far its plan can be from the best",
    )
    objective = serializers.ChoiceField(
        REPLICATION_OBJECTIVE_CHOICES,
        required=False,
        help_text="default: `weighted`, by rate and priority; `plain` is the paper's, by rate alone",
    )


class ChosenPartitionSerializer(serializers.Serializer):
    partition = serializers.CharField()
    operator = serializers.CharField()
    step = serializers.IntegerField(
        help_text="the step in which it was chosen; partitions of one step count together"
    )
    fidelity = serializers.FloatField(help_text="of the plan after that step, 0 to 1")
    gain = serializers.FloatField(help_text="fidelity that the whole plan would lose without it")
    rate = serializers.FloatField(help_text="of its output, tuples per second, as the plan took it")
    reason = serializers.CharField()


class QueryOutlookSerializer(serializers.Serializer):
    query = serializers.CharField()
    tentative = serializers.BooleanField(help_text="whether it gives output before recovery ends")
    fidelity = serializers.FloatField(help_text="of that output, 0 to 1")
    weight = serializers.FloatField(help_text="what it counts among all queries, 0 to 1")
    reason = serializers.CharField()


class ProtectingCheckpointSerializer(serializers.ModelSerializer):
    class Meta:
        model = Checkpoint
        fields = ("epoch", "ended_at", "size_bytes")


class ReplicationPlanSerializer(serializers.Serializer):
    """Which partitions are worth an active replica, for the worst case of a correlated failure: everything
    that has no replica fails. Replicas run where the policy says so (`replicas/`)."""

    topology = serializers.CharField()
    planner = serializers.CharField()
    objective = serializers.ChoiceField(
        REPLICATION_OBJECTIVE_CHOICES,
        help_text="what all fidelities but the plain ones, gains and weights count",
    )
    budget = serializers.IntegerField(help_text="partitions that may be replicated, at most all of them")
    total = serializers.IntegerField(help_text="partitions of the topology")
    fidelity_before = serializers.FloatField(help_text="output fidelity without any replica, 0 to 1")
    fidelity_after = serializers.FloatField(help_text="the same with the plan")
    plain_fidelity_before = serializers.FloatField(
        help_text="output fidelity of the paper, without priorities and without any replica, 0 to 1"
    )
    plain_fidelity_after = serializers.FloatField(help_text="the same with the plan")
    completeness_before = serializers.FloatField(
        help_text="internal completeness without any replica, 0 to 1"
    )
    completeness_after = serializers.FloatField(help_text="the same with the plan")
    proven = serializers.BooleanField(help_text="no plan of this budget has a higher fidelity")
    bound = serializers.FloatField(
        allow_null=True, help_text="no plan of this budget has a higher fidelity than this; null: not known"
    )
    gap = serializers.FloatField(allow_null=True, help_text="how far the plan's fidelity is below the bound")
    note = serializers.CharField(help_text="how far the planner looked", allow_blank=True)
    rates = serializers.ChoiceField([(name, name) for name in EXPLAINED], help_text="where rates are from")
    rates_note = serializers.CharField()
    checkpoint = ProtectingCheckpointSerializer(
        allow_null=True, help_text="newest in storage: what protects every partition today"
    )
    chosen = ChosenPartitionSerializer(many=True)
    queries = QueryOutlookSerializer(many=True)


class ReplicaSerializer(serializers.Serializer):
    partition = serializers.CharField()
    node = serializers.CharField(allow_null=True, help_text="where the partition runs")
    replica = serializers.CharField(help_text="the node of its replica")
    wanted = serializers.BooleanField(help_text="false: it goes as soon as others have caught up")
    caught_up = serializers.BooleanField(help_text="whether it is as far as the partition, and could act")
    acts = serializers.BooleanField(help_text="it has taken over, and no plan knows of it yet")


class LossSerializer(serializers.Serializer):
    kind = serializers.ChoiceField(["rack", "node"])
    name = serializers.CharField()
    fidelity = serializers.FloatField(help_text="weighted output fidelity without it, 0 to 1")
    stop = serializers.ListField(child=serializers.CharField(), help_text="queries without any output then")
    lack_input = serializers.ListField(
        child=serializers.CharField(), help_text="queries of which a part of the input would be missing"
    )


class NextReplicaSerializer(serializers.Serializer):
    """A larger budget, for the worst case of a correlated failure: everything that has no replica fails."""

    budget = serializers.IntegerField(help_text="the smallest one that gains anything, of the next six")
    more = serializers.IntegerField(help_text="partitions above the present budget")
    fidelity = serializers.FloatField(help_text="weighted output fidelity of its plan, 0 to 1")
    gain = serializers.FloatField(
        help_text="by how much that is above the present plan; 0: none of the next six gains anything"
    )
    added = serializers.ListField(child=serializers.CharField(), help_text="partitions of its plan alone")
    dropped = serializers.ListField(
        child=serializers.CharField(), help_text="partitions of the present plan that it does without"
    )


class ReplicasSerializer(serializers.Serializer):
    """The replicas of a topology: which there are, where, and what they are good for."""

    topology = serializers.CharField()
    mode = serializers.ChoiceField(ReplicationMode.choices)
    budget = serializers.IntegerField(help_text="partitions that may have a replica")
    planner = serializers.ChoiceField(REPLICATION_PLANNER_CHOICES)
    note = serializers.CharField(allow_blank=True, help_text="why there are none, or none are placed now")
    revision = serializers.IntegerField(help_text="how often replicas have come or gone")
    changed_at = serializers.DateTimeField(allow_null=True, help_text="when they were looked at last")
    replicas = ReplicaSerializer(many=True)
    unplaced = serializers.ListField(
        child=serializers.CharField(), help_text="partitions of the plan for which no node has room"
    )
    waiting = serializers.ListField(
        child=serializers.CharField(), help_text="partitions whose replicas come or go at a later look"
    )
    acting = serializers.DictField(
        child=serializers.CharField(), help_text="partitions that a replica has taken over, and its node"
    )
    next = NextReplicaSerializer(
        allow_null=True,
        help_text="what the next replica would buy; null: the mode is not `on`, all partitions may have one, "
        "or the topology has more than 250 partitions",
    )
    fidelity = serializers.FloatField(help_text="weighted output fidelity now, 0 to 1")
    losses = LossSerializer(many=True, help_text="for each rack and node that runs anything of it")


class ReplicasUpdateSerializer(ReasonSerializer):
    """What is not given stays. These are fields of the policy: `replication_mode` and so on."""

    mode = serializers.ChoiceField(ReplicationMode.choices, required=False)
    budget = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=0,
        max_value=MAX_PARTITIONS,
        help_text="partitions; null: a quarter of all",
    )
    planner = serializers.ChoiceField(REPLICATION_PLANNER_CHOICES, required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs = super().validate(attrs)
        if attrs.keys() <= {"reason"}:
            raise serializers.ValidationError("give at least one of mode, budget, planner")
        return attrs
