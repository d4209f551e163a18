"""The entity tags of what can be edited."""

from __future__ import annotations

from controlplane.alerts.models import AlertRule, Silence
from controlplane.alerts.representation import RULE_EDITABLE
from controlplane.events.representation import iso
from controlplane.preconditions import entity_tag


def rule_tag(rule: AlertRule) -> str:
    return entity_tag("rule", rule.pk, {field: getattr(rule, field) for field in RULE_EDITABLE})


def silence_tag(silence: Silence) -> str:
    return entity_tag("silence", silence.pk, iso(silence.ended_at))
