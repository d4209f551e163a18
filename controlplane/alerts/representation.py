"""How alerts, rules and silences look to clients, in the snapshot and in events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.events.representation import Change, Fields, change, rounded, shown
from domain.alerting import alert_words

if TYPE_CHECKING:
    from controlplane.alerts.models import Alert, AlertRule, Silence

RULE_EDITABLE = (
    *("comparison", "threshold", "held", "calm", "missing", "severity", "topology", "priority"),
    *("enabled", "runbook"),
)
"""What of a rule can be changed."""
RULE_FIELDS = ("id", "name", "metric", *RULE_EDITABLE, "created_by", "created_at", "updated_at")
"""What is shown of a rule: by the snapshot, by events and by REST."""

SILENCE_FIELDS = (
    *("id", "rule", "topology", "until", "author", "reason", "created_at", "ended_at", "ended_by"),
)
"""Likewise of a silence. An empty name stands for all."""

ALERT_STORED = (
    *("id", "rule", "metric", "comparison", "threshold", "severity", "runbook", "topology", "query", "state"),
    *("value", "since", "fired_at", "resolved_at", "because"),
)
ALERT_FIELDS = (*ALERT_STORED, "silence", "subject", "text")
"""Likewise of an alert. `subject` is the key of a topology or query, `text` a sentence with its value."""


def rule_change(rule: AlertRule) -> Change:
    return change("rule", rule.pk, shown(rule, RULE_FIELDS))


def silence_change(silence: Silence) -> Change:
    return change("silence", silence.pk, shown(silence, SILENCE_FIELDS))


def alert_fields(alert: Any) -> Fields:
    """alert: a model, or a tuple of its columns."""
    subject = f"{alert.topology}/{alert.query}" if alert.query else alert.topology
    return shown(
        alert,
        ALERT_FIELDS,
        value=rounded(alert.value),
        silence=alert.silence_id,
        subject=subject,
        text=alert_words(alert.metric, subject, alert.value, alert.comparison, alert.threshold),
    )


def alert_change(alert: Alert) -> Change:
    return change("alert", alert.pk, alert_fields(alert))
