"""What rules can judge and say, and the states of alerts."""

from __future__ import annotations

from controlplane.choices import Choices
from domain.alerting import METRICS

METRIC_CHOICES = [(name, metric.title) for name, metric in METRICS.items()]


class AlertState(Choices):
    MISSING = "missing", "No data"
    PENDING = "pending", "Pending"
    FIRING = "firing", "Firing"
    RESOLVED = "resolved", "Resolved"


class AlertSeverity(Choices):
    WARNING = "warning", "Warning"
    CRITICAL = "critical", "Critical"


class AlertComparison(Choices):
    ABOVE = "above", "Above"
    BELOW = "below", "Below"


class MissingPolicy(Choices):
    SHOW = "show", "It is only shown"
    FIRE = "fire", "An alert fires"
