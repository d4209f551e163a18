"""Making, changing and deleting rules (write side)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from controlplane.alerts.choices import AlertComparison, AlertSeverity, MissingPolicy
from controlplane.alerts.evaluation import alerts_end
from controlplane.alerts.models import RUNBOOK_LENGTH, AlertRule
from controlplane.alerts.representation import RULE_EDITABLE, rule_change
from controlplane.alerts.selectors import rule_get
from controlplane.alerts.tags import rule_tag
from controlplane.errors import Conflict, Invalid
from controlplane.events.audit import audit_record
from controlplane.events.choices import Channel, EventKind
from controlplane.events.operations import reason_require
from controlplane.events.representation import removal
from controlplane.events.services import event_publish, writing
from controlplane.preconditions import ANYTHING, Expected
from controlplane.topologies.models import PRIORITY_HIGH, PRIORITY_LOW, Topology
from domain.alerting import METRICS
from domain.topology.spec import TOPOLOGY_NAME_PATTERN

MOST_RULES = 100
EXPORT = "export"
LONGEST = 7 * 86_400.0
"""Seconds for which a condition can have to hold."""
HIGHEST = 1e9
_CHOICES: Mapping[str, list[str]] = {
    "comparison": list(AlertComparison.values),
    "missing": list(MissingPolicy.values),
    "severity": list(AlertSeverity.values),
}


@writing
def rule_create(
    *, name: str, metric: str, actor: str, reason: str, channel: Channel, **fields: Any
) -> AlertRule:
    """Make a rule; `fields` are some of `RULE_EDITABLE`. Raises `Invalid` with the field's name, or
    `Conflict`."""
    reason_require(reason)
    if not re.fullmatch(TOPOLOGY_NAME_PATTERN, name):
        raise Invalid("name", f"{name!r}: use small letters, digits and -, and begin with a letter")
    if name == EXPORT:
        raise Invalid("name", f"{EXPORT!r} is the address of the export; choose another name")
    if metric not in METRICS:
        raise Invalid("metric", f"there is no metric {metric!r}; the metrics are {', '.join(METRICS)}")
    if missing := [one for one in ("comparison", "threshold", "held") if one not in fields]:
        raise Invalid(missing[0], "is needed")
    accepted = {field: _accept(field, value) for field, value in fields.items()}
    if AlertRule.objects.filter(name=name).exists():
        raise Conflict(f"name: there is a rule {name!r} already; change it or choose another name")
    if AlertRule.objects.count() >= MOST_RULES:
        raise Conflict(f"there are {MOST_RULES} rules already; delete one that is not used")
    rule = AlertRule(name=name, metric=metric, created_by=actor, **accepted)
    _require(rule)
    rule.save()
    audit_record(
        actor=actor, channel=channel, action="rule.create", target=name, after=_shown(rule), reason=reason
    )
    _publish(rule, actor=actor, reason=reason)
    return rule


@writing
def rule_update(
    *,
    name: str,
    changes: Mapping[str, Any],
    actor: str,
    reason: str,
    channel: Channel,
    expected: Expected = ANYTHING,
) -> AlertRule:
    """Change some of `RULE_EDITABLE`. The alerts of a rule that is switched off end.

    Raises `Missing`, `Invalid` with the field's name, or `Stale` if it has changed.
    """
    reason_require(reason)
    rule = rule_get(name, lock=True)
    expected.require(rule_tag(rule), f"rule {name}")
    # Its topology may be gone, and stays as long as it is not changed.
    given = [item for item in changes.items() if item != ("topology", rule.topology)]
    accepted = {field: _accept(field, value) for field, value in given}
    before = _shown(rule)
    changed = {field: value for field, value in accepted.items() if getattr(rule, field) != value}
    if not changed:
        return rule
    for field, value in changed.items():
        setattr(rule, field, value)
    _require(rule)
    rule.save()
    after = _shown(rule)
    audit_record(
        actor=actor,
        channel=channel,
        action="rule.update",
        target=name,
        before={field: before[field] for field in changed},
        after={field: after[field] for field in changed},
        reason=reason,
    )
    _publish(rule, actor=actor, reason=reason)
    if not rule.enabled:
        alerts_end(name, because="the rule is off")
    return rule


@writing
def rule_delete(
    *, name: str, actor: str, reason: str, channel: Channel, expected: Expected = ANYTHING
) -> None:
    """Remove a rule; its alerts end, and those that have ended are kept. Raises `Missing`, or `Stale`."""
    reason_require(reason)
    rule = rule_get(name, lock=True)
    expected.require(rule_tag(rule), f"rule {name}")
    audit_record(
        actor=actor, channel=channel, action="rule.delete", target=name, before=_shown(rule), reason=reason
    )
    key = rule.pk
    rule.delete()
    event_publish(
        kind=EventKind.RULE_UPDATED,
        topology=rule.topology or None,
        changes=[removal("rule", key)],
        actor=actor,
        reason=reason,
    )
    alerts_end(name, because="the rule was deleted")


def _publish(rule: AlertRule, *, actor: str, reason: str) -> None:
    event_publish(
        kind=EventKind.RULE_UPDATED,
        topology=rule.topology or None,
        changes=[rule_change(rule)],
        actor=actor,
        reason=reason,
    )


def _shown(rule: AlertRule) -> dict[str, Any]:
    return {"metric": rule.metric, **{field: getattr(rule, field) for field in RULE_EDITABLE}}


def _require(rule: AlertRule) -> None:
    """What depends on several fields. Raises `Invalid`."""
    metric = METRICS[rule.metric]
    if metric.most is not None and rule.threshold > metric.most:
        raise Invalid("threshold", f"{metric.title} is at most {metric.most:g}: 0.95 stands for 95 %")
    if metric.most is not None and rule.threshold == metric.most and rule.comparison == AlertComparison.ABOVE:
        raise Invalid("threshold", f"{metric.title} is never above {metric.most:g}, so no alert would fire")
    if rule.threshold <= 0 and rule.comparison == AlertComparison.BELOW:
        raise Invalid("threshold", f"{metric.title} is never below 0, so no alert would fire")
    if rule.priority != PRIORITY_LOW and not metric.by_priority:
        raise Invalid("priority", f"{metric.title} is one value for all queries of a topology")


def _accept(field: str, value: Any) -> Any:
    """The value as it is stored; raises `Invalid` where the field may not have it."""
    match field:
        case "comparison" | "missing" | "severity":
            if value not in _CHOICES[field]:
                raise Invalid(field, f"must be one of {', '.join(_CHOICES[field])}")
            return str(value)
        case "threshold":
            return _number(field, value, 0.0, HIGHEST)
        case "held" | "calm":
            return _number(field, value, 0.0, LONGEST)
        case "priority":
            if isinstance(value, bool) or not isinstance(value, int):
                raise Invalid(field, "must be a whole number")
            return int(_number(field, value, PRIORITY_LOW, PRIORITY_HIGH))
        case "enabled":
            if not isinstance(value, bool):
                raise Invalid(field, f"{value!r} is neither true nor false")
            return value
        case "topology":
            if not isinstance(value, str):
                raise Invalid(field, "must be a name")
            if value and not Topology.objects.filter(name=value).exists():
                raise Invalid(field, f"there is no topology {value!r}")
            return value
        case "runbook":
            return _runbook(value)
        case _:
            raise Invalid(
                field,
                f"a rule has no field {field!r} that can be changed; the fields are "
                f"{', '.join(RULE_EDITABLE)}",
            )


def _number(field: str, value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Invalid(field, "must be a number")
    if not low <= value <= high:
        raise Invalid(field, f"must be from {low:g} to {high:,.0f}")
    return float(value)


def _runbook(value: Any) -> str:
    """A text, or the address of a page: pages show that as a link, so it is checked."""
    if not isinstance(value, str):
        raise Invalid("runbook", "must be a text")
    text = value.strip()
    if len(text) > RUNBOOK_LENGTH:
        raise Invalid("runbook", f"longer than {RUNBOOK_LENGTH} characters")
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):\S", text)
    if scheme is None or " " in text:
        return text
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise Invalid("runbook", f"this address cannot be read: {error}") from None
    if parts.scheme not in ("http", "https") or not host or not re.fullmatch(r"[!-~]+", text):
        raise Invalid("runbook", "an address must begin with https:// or http:// and name a host")
    if parts.username is not None or parts.password is not None:
        raise Invalid("runbook", "an address must hold no user and password")
    return text
