"""Incidents, their story and the plans that brought topologies back."""

from __future__ import annotations

from django.db import models

from controlplane.incidents.choices import (
    EntryKind,
    IncidentState,
    IncidentTrigger,
    PlanKind,
    PlanState,
    PredictionKind,
    PredictionStage,
)
from controlplane.topologies.choices import RecoveryMethod


class Incident(models.Model):
    """One correlated (or single) failure, from detection to verified recovery."""

    number = models.PositiveIntegerField(unique=True)
    state = models.CharField(
        max_length=16, choices=IncidentState.choices, default=IncidentState.OPEN, db_index=True
    )
    method = models.CharField(max_length=16, choices=RecoveryMethod.choices, default=RecoveryMethod.BLOCKING)
    trigger = models.CharField(
        max_length=16, choices=IncidentTrigger.choices, default=IncidentTrigger.DETECTED
    )
    reason = models.TextField(blank=True, default="")
    detected_at = models.DateTimeField(help_text="when the first sign was noticed")
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True, blank=True)
    first_query_at = models.DateTimeField(null=True, blank=True)
    half_queries_at = models.DateTimeField(null=True, blank=True)
    all_queries_at = models.DateTimeField(null=True, blank=True)
    failed_nodes = models.ManyToManyField("nodes.Node", blank=True, related_name="incidents")
    topologies = models.ManyToManyField("topologies.Topology", blank=True, related_name="incidents")
    checkpoints = models.JSONField(
        default=dict, blank=True, help_text="topology name -> checkpoint rolled back to"
    )
    paused = models.BooleanField(default=False, help_text="nothing new is planned until resumed")
    proposals = models.JSONField(
        default=dict, blank=True, help_text="topology name -> plan that waits for a confirmation"
    )
    costs = models.JSONField(
        default=dict,
        blank=True,
        help_text="topology name -> partition id -> CPU percent it counts for in this incident",
    )
    availability_area = models.FloatField(
        null=True,
        blank=True,
        help_text="mean priority-weighted availability from detection until all queries are back, 0 to 1",
    )
    wanted_nodes = models.PositiveIntegerField(default=0, help_text="replacements asked for")
    summary = models.JSONField(default=dict, blank=True)
    forecast = models.JSONField(
        default=dict, blank=True, help_text="when it will be over, and what was predicted before"
    )

    class Meta:
        ordering = ("-number",)

    def __str__(self) -> str:
        return f"#{self.number}"


class IncidentPrediction(models.Model):
    """When an incident, one of its waves or of its queries was expected to be over, as it was predicted when
    it began a stage (`domain.forecast`); and when it was."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="predictions")
    kind = models.CharField(max_length=16, choices=PredictionKind.choices)
    subject = models.CharField(
        max_length=300, blank=True, default="", help_text="topology/generation or topology/query"
    )
    stage = models.CharField(max_length=16, choices=PredictionStage.choices)
    made_at = models.DateTimeField()
    raw = models.FloatField(help_text="seconds, before earlier incidents were taken into account")
    expected_at = models.DateTimeField()
    low_at = models.DateTimeField()
    high_at = models.DateTimeField()
    over_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("incident", "id")

    def __str__(self) -> str:
        return f"{self.kind} {self.subject} ({self.stage})"


class IncidentEntry(models.Model):
    """One line of an incident's story; written once, never changed."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="entries")
    at = models.DateTimeField()
    kind = models.CharField(max_length=16, choices=EntryKind.choices)
    text = models.TextField()
    data = models.JSONField(default=dict, blank=True)
    key = models.CharField(
        max_length=128, null=True, blank=True, help_text="set where the entry must be written only once"
    )

    class Meta:
        ordering = ("incident", "at", "id")
        verbose_name_plural = "incident entries"
        constraints = (models.UniqueConstraint(fields=["incident", "key"], name="entry_key_unique"),)

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"[:120]


PLAN_BEGINS = models.Q(kind=PlanKind.DEPLOY) | models.Q(from_savepoint=True)
"""Plans with which a deployment begins."""


class RecoveryPlan(models.Model):
    """What a topology's driver was told to run, where; `generation` only grows."""

    topology = models.ForeignKey("topologies.Topology", on_delete=models.CASCADE, related_name="plans")
    incident = models.ForeignKey(
        Incident, null=True, blank=True, on_delete=models.SET_NULL, related_name="plans"
    )
    generation = models.PositiveIntegerField()
    wave = models.PositiveIntegerField(default=0)
    kind = models.CharField(max_length=16, choices=PlanKind.choices)
    method = models.CharField(max_length=16, choices=RecoveryMethod.choices, default=RecoveryMethod.BLOCKING)
    rollback = models.BooleanField(default=False)
    buffering = models.BooleanField(default=False, help_text="outputs are kept for what is not restored yet")
    checkpoint = models.PositiveBigIntegerField(default=0)
    assignment = models.JSONField(default=dict, help_text="partition id -> node name")
    restore = models.JSONField(default=list, help_text="partition ids to restore")
    acting = models.JSONField(
        default=dict,
        blank=True,
        help_text="takeovers that it knows of: partition id -> node name",
    )
    stateless = models.JSONField(
        default=list, blank=True, help_text="partition ids that the checkpoint has no state of"
    )
    divided = models.JSONField(
        default=list, blank=True, help_text="operators whose state the checkpoint has in other partitions"
    )
    from_savepoint = models.BooleanField(
        default=False, help_text="whether a deployment begins with it, and with a savepoint"
    )
    state = models.CharField(
        max_length=16, choices=PlanState.choices, default=PlanState.PLANNED, db_index=True
    )
    reason = models.TextField(blank=True, default="")
    explanation = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    published_at = models.DateTimeField(null=True, blank=True)
    applied_at = models.DateTimeField(null=True, blank=True)
    caught_up_at = models.DateTimeField(null=True, blank=True)
    verified_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("topology", "-generation")
        constraints = (
            models.UniqueConstraint(fields=["topology", "generation"], name="plan_generation_unique"),
        )
        indexes = (models.Index(fields=["created_at"], name="plan_created"),)

    def __str__(self) -> str:
        return f"{self.topology} g{self.generation} ({self.kind})"

    @property
    def begins_deployment(self) -> bool:
        """Whether nothing that ran before is of its deployment (`PLAN_BEGINS` in queries)."""
        return self.kind == PlanKind.DEPLOY or self.from_savepoint

    @property
    def deploys(self) -> bool:
        """Whether the topology was deployed with it, from its first tuple or from a checkpoint."""
        return self.incident_id is None and self.kind in (PlanKind.DEPLOY, PlanKind.RESTORE)
