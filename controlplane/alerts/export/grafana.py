"""A dashboard of Grafana: what the rules judge, with their thresholds, and what fires."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from controlplane.alerts.choices import AlertComparison, AlertSeverity
from controlplane.alerts.evaluation import rule_terms
from controlplane.alerts.export.promql import EVALUATED
from controlplane.alerts.models import AlertRule
from domain.alerting import METRICS, Metric, Unit, rule_words

UNITS: dict[Unit, str] = {"times": "none", "seconds": "s", "share": "percentunit", "intervals": "none"}
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLOURS = {"warning": "orange", "critical": "red"}
WIDTH, HEIGHT = 12, 8
"""Of a panel, in Grafana's grid of 24 columns."""


def grafana_dashboard(rules: Iterable[AlertRule]) -> str:
    """The text of the file: a panel for each metric, with the thresholds of the rules that are on."""
    enabled = [rule for rule in rules if rule.enabled]
    panels = [_firing(), _evaluated()]
    for metric in METRICS.values():
        own = [rule for rule in enabled if rule.metric == metric.name]
        panels.append(_panel(metric, own, place=len(panels) - 2))
    numbered = [{"id": number, **panel} for number, panel in enumerate(panels, 1)]
    dashboard = {
        "uid": "resurge-alerts",
        "title": "Resurge",
        "tags": ["resurge"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_source_variable(), _topology_variable()]},
        "annotations": {"list": []},
        "panels": numbered,
    }
    return json.dumps(dashboard, indent=2, ensure_ascii=False) + "\n"


def _panel(metric: Metric, rules: Sequence[AlertRule], *, place: int) -> dict[str, Any]:
    named = "{{topology}} {{query}}" if metric.subject == "query" else "{{topology}}"
    return {
        "type": "timeseries",
        "title": metric.title,
        "description": "\n\n".join([metric.about, *(_said(rule) for rule in rules)]),
        "datasource": SOURCE,
        "gridPos": {
            "h": HEIGHT, "w": WIDTH, "x": WIDTH * (place % 2), "y": 4 + HEIGHT * (place // 2),
        },
        "targets": [_target(f'{metric.series}{{topology=~"$topology"}}', named)],
        "fieldConfig": {
            "defaults": {
                "unit": UNITS[metric.unit],
                "min": 0,
                "custom": {"thresholdsStyle": {"mode": "line" if rules else "off"}, "spanNulls": False},
                "thresholds": {"mode": "absolute", "steps": _steps(rules)},
            },
            "overrides": [],
        },
    }  # fmt: skip


def _said(rule: AlertRule) -> str:
    return f"{rule.name} ({rule.severity}): {rule_words(rule_terms(rule))}"


def _steps(rules: Sequence[AlertRule]) -> list[dict[str, Any]]:
    """The colour from each value upwards. Below a threshold of `below`, the colour is that of the rule."""
    steps: list[dict[str, Any]] = []
    for low in [None, *sorted({rule.threshold for rule in rules})]:
        hit = [rule for rule in rules if _hits(rule, low)]
        worst = "critical" if any(rule.severity == AlertSeverity.CRITICAL for rule in hit) else "warning"
        steps.append({"color": COLOURS[worst] if hit else "green", "value": low})
    return steps


def _hits(rule: AlertRule, low: float | None) -> bool:
    """Whether values just above `low` meet the condition; None is below all thresholds."""
    if rule.comparison == AlertComparison.ABOVE:
        return low is not None and rule.threshold <= low
    return low is None or low < rule.threshold


def _firing() -> dict[str, Any]:
    return {
        "type": "stat",
        "title": "Alerts firing in Resurge",
        "datasource": SOURCE,
        "gridPos": {"h": 4, "w": WIDTH, "x": 0, "y": 0},
        "targets": [_target('sum by (rule, severity) (resurge_alerts{state="firing"})', "{{rule}}")],
        "fieldConfig": {
            "defaults": {"noValue": "none", "thresholds": {"mode": "absolute", "steps": [
                {"color": "green", "value": None}, {"color": "red", "value": 1}]}},
            "overrides": [],
        },
    }  # fmt: skip


def _evaluated() -> dict[str, Any]:
    return {
        "type": "stat",
        "title": "Rules were looked at",
        "datasource": SOURCE,
        "gridPos": {"h": 4, "w": WIDTH, "x": WIDTH, "y": 0},
        "targets": [_target(f"time() - {EVALUATED}", "ago")],
        "fieldConfig": {
            "defaults": {"unit": "s", "thresholds": {"mode": "absolute", "steps": [
                {"color": "green", "value": None}, {"color": "red", "value": 60}]}},
            "overrides": [],
        },
    }  # fmt: skip


def _target(expression: str, legend: str) -> dict[str, Any]:
    return {"refId": "A", "datasource": SOURCE, "expr": expression, "legendFormat": legend}


def _source_variable() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _topology_variable() -> dict[str, Any]:
    query = "label_values(resurge_topology_health, topology)"
    return {
        "name": "topology", "label": "Topology", "type": "query", "datasource": SOURCE,
        "definition": query, "query": {"query": query, "refId": "topology"}, "refresh": 2,
        "multi": True, "includeAll": True, "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }  # fmt: skip
