"""The rules that are on, as alerting rules of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from controlplane.alerts.evaluation import rule_terms
from controlplane.alerts.export.promql import EVALUATED, condition_of, missing_of
from controlplane.alerts.models import AlertRule
from domain.alerting import METRICS, rule_words

HEAD = """\
# Alerting rules for Prometheus (2.42 or newer), written by `manage.py alert_rules --format prometheus` from
# the rules of an installation that are on. Scrape its /metrics with the token of a viewer.
"""
UNEVALUATED_AFTER = 60
"""Seconds. Rules are looked at every five."""


def prometheus_rules(rules: Iterable[AlertRule]) -> str:
    """The text of the file."""
    found = [entry for rule in rules if rule.enabled for entry in _entries(rule)]
    group = {"name": "resurge", "interval": "15s", "rules": [*found, _unevaluated()]}
    return HEAD + yaml.safe_dump({"groups": [group]}, sort_keys=False, width=110, allow_unicode=True)


def _entries(rule: AlertRule) -> Iterable[dict[str, Any]]:
    yield _entry(rule, "", condition_of(rule), f'{_subject(rule)}: {{{{ $value | printf "%.4g" }}}}')
    # The share of queries is known wherever there are queries that count.
    if rule.missing == "fire" and rule.metric != "availability":
        yield _entry(rule, "NoData", missing_of(rule), f"{_subject(rule)}: no data")


def _entry(rule: AlertRule, ending: str, expression: str, summary: str) -> dict[str, Any]:
    annotations = {"summary": summary, "description": rule_words(rule_terms(rule))}
    if rule.runbook:
        link = rule.runbook.startswith(("https://", "http://")) and " " not in rule.runbook
        annotations["runbook_url" if link else "runbook"] = _plain(rule.runbook)
    entry: dict[str, Any] = {"alert": alert_name(rule.name) + ending, "expr": expression}
    if rule.held:
        entry["for"] = _duration(rule.held)
    if rule.calm:
        entry["keep_firing_for"] = _duration(rule.calm)
    return {**entry, "labels": {"severity": rule.severity, "rule": rule.name}, "annotations": annotations}


def _unevaluated() -> dict[str, Any]:
    """What Resurge cannot tell of itself."""
    return {
        "alert": "ResurgeAlertsNotEvaluated",
        "expr": f"time() - {EVALUATED} > {UNEVALUATED_AFTER} or absent({EVALUATED})",
        "for": "60s",
        "labels": {"severity": "critical"},
        "annotations": {
            "summary": "Resurge does not look at its alert rules",
            "description": "The worker `recovery` or beat is away, so no alert of Resurge itself can fire.",
        },
    }


def alert_name(rule: str) -> str:
    """`lag-high` as `ResurgeLagHigh`."""
    return "Resurge" + "".join(part.capitalize() for part in rule.split("-"))


def _subject(rule: AlertRule) -> str:
    metric = METRICS[rule.metric]
    of = "{{ $labels.topology }}" + (" {{ $labels.query }}" if metric.subject == "query" else "")
    return f"{metric.noun[0].upper()}{metric.noun[1:]} of {of}"


def _plain(text: str) -> str:
    """Prometheus takes annotations for templates."""
    return text.replace("{{", '{{ "{{" }}')


def _duration(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms" if seconds != int(seconds) else f"{int(seconds)}s"
