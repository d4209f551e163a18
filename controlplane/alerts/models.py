"""Rules, the alerts that come of them, and silences. They name each other and topologies by their names, so
that the history stays when something of it is deleted."""

from __future__ import annotations

from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models

from controlplane.alerts.choices import (
    METRIC_CHOICES,
    AlertComparison,
    AlertSeverity,
    AlertState,
    MissingPolicy,
)
from controlplane.topologies.models import PRIORITY_HIGH, PRIORITY_LOW
from domain.topology.spec import TOPOLOGY_NAME_PATTERN

RUNBOOK_LENGTH = 2_000
REASON_LENGTH = 1_000


class AlertRule(models.Model):
    """A condition on a metric, and for how long it must hold before an alert fires."""

    name = models.CharField(
        max_length=64,
        unique=True,
        validators=[RegexValidator(TOPOLOGY_NAME_PATTERN, "a small letter, then small letters, digits or -")],
        help_text="its name in alerts, silences and the audit trail; cannot be changed",
    )
    metric = models.CharField(
        max_length=32, choices=METRIC_CHOICES, help_text="what is judged; cannot be changed"
    )
    comparison = models.CharField(max_length=8, choices=AlertComparison.choices)
    threshold = models.FloatField(help_text="in the unit of the metric; of a share, 1 is all")
    held = models.FloatField(help_text="seconds for which the condition must hold before an alert fires")
    calm = models.FloatField(
        default=30.0, help_text="seconds for which the condition must not hold before the alert ends"
    )
    missing = models.CharField(
        max_length=8,
        choices=MissingPolicy.choices,
        default=MissingPolicy.SHOW,
        help_text="what happens where the value stays away for as long as the condition must hold",
    )
    severity = models.CharField(max_length=8, choices=AlertSeverity.choices, default=AlertSeverity.WARNING)
    topology = models.CharField(
        max_length=64, blank=True, default="", help_text="the one that it judges; empty: all"
    )
    priority = models.PositiveSmallIntegerField(
        default=PRIORITY_LOW,
        validators=[MinValueValidator(PRIORITY_LOW), MaxValueValidator(PRIORITY_HIGH)],
        help_text="queries of a lower priority are left out; for metrics of queries and their share only",
    )
    enabled = models.BooleanField(default=True)
    runbook = models.TextField(
        blank=True,
        default="",
        max_length=RUNBOOK_LENGTH,
        help_text="what to do when it fires: a text, or an address that begins with https:// or http://",
    )
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Silence(models.Model):
    """Alerts that nothing is told of for some time. Empty names: of all rules, of all topologies."""

    rule = models.CharField(max_length=64, blank=True, default="")
    topology = models.CharField(max_length=64, blank=True, default="")
    until = models.DateTimeField()
    author = models.CharField(max_length=150)
    reason = models.TextField(max_length=REASON_LENGTH)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True, help_text="empty: it lasts")
    ended_by = models.CharField(
        max_length=150, blank=True, default="", help_text="who ended it early; empty: its time was over"
    )

    class Meta:
        ordering = ("-created_at", "-id")
        indexes = (models.Index(fields=["ended_at"], name="silence_ended"),)

    def __str__(self) -> str:
        return f"{self.rule or 'all rules'} of {self.topology or 'all topologies'}"


class Alert(models.Model):
    """One time that a rule applies to one subject, from its beginning to its end. What the rule says is
    copied: that of an alert that has ended is what it said then."""

    rule = models.CharField(max_length=64)
    metric = models.CharField(max_length=32, choices=METRIC_CHOICES)
    comparison = models.CharField(max_length=8, choices=AlertComparison.choices)
    threshold = models.FloatField()
    severity = models.CharField(max_length=8, choices=AlertSeverity.choices)
    runbook = models.TextField(blank=True, default="")
    topology = models.CharField(max_length=64)
    query = models.CharField(max_length=128, blank=True, default="", help_text="empty: the whole topology")
    state = models.CharField(max_length=8, choices=AlertState.choices)
    value = models.FloatField(null=True, blank=True, help_text="empty: no data")
    since = models.DateTimeField(help_text="when its condition began to hold, or its value to be missing")
    fired_at = models.DateTimeField(null=True, blank=True)
    calm_since = models.DateTimeField(
        null=True, blank=True, help_text="since when the condition of one that fires does not hold"
    )
    resolved_at = models.DateTimeField(null=True, blank=True)
    because = models.TextField(
        blank=True, default="", help_text="why it ended, if not because its condition did not hold"
    )
    told = models.BooleanField(default=False, help_text="whether it was told that it fires")
    silence = models.ForeignKey(
        Silence, null=True, blank=True, on_delete=models.SET_NULL, related_name="alerts"
    )

    class Meta:
        ordering = ("-since", "-id")
        indexes = (
            models.Index(fields=["state", "-since"], name="alert_state"),
            models.Index(fields=["resolved_at"], name="alert_resolved"),
        )
        constraints = (
            models.UniqueConstraint(
                fields=["rule", "topology", "query"],
                condition=~models.Q(state=AlertState.RESOLVED),
                name="alert_of_one",
            ),
        )

    def __str__(self) -> str:
        return f"{self.rule} of {self.subject} ({self.state})"

    @property
    def subject(self) -> str:
        return f"{self.topology}/{self.query}" if self.query else self.topology


class Evaluation(models.Model):
    """One row: when rules were looked at last."""

    at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return str(self.at)
