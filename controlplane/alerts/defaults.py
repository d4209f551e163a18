"""The rules that an installation has at first. None of them fires while all is well."""

from __future__ import annotations

from typing import Any

from django.db import connections

RULES: tuple[dict[str, Any], ...] = (
    {
        "name": "queries-unavailable",
        "metric": "availability",
        "comparison": "below",
        "threshold": 1.0,
        "held": 120.0,
        "severity": "critical",
        "runbook": "Open the incident of the topology: it says what is down and when it will be back. "
        "Without an open incident, look at the errors of the topology.",
    },
    {
        "name": "query-latency-high",
        "metric": "query_relative_latency",
        "comparison": "above",
        "threshold": 2.0,
        "held": 120.0,
        "severity": "warning",
        "runbook": "Look for the busiest partition of the topology and for nodes that are full. "
        "Rebalance it, or give it nodes.",
    },
    {
        "name": "lag-high",
        "metric": "lag",
        "comparison": "above",
        "threshold": 30.0,
        "held": 60.0,
        "severity": "warning",
        "runbook": "Input arrives faster than it is processed. Give the topology nodes, or park queries of "
        "low priority.",
    },
    {
        "name": "checkpoint-old",
        "metric": "checkpoint_intervals",
        "comparison": "above",
        "threshold": 3.0,
        "held": 270.0,
        "severity": "warning",
        "runbook": "The page of checkpoints says which partition does not acknowledge, and why. A "
        "recovery would replay everything since the newest complete one.",
    },
    {
        "name": "fidelity-low",
        "metric": "fidelity_rack_loss",
        "comparison": "below",
        "threshold": 0.5,
        "held": 300.0,
        "severity": "warning",
        "enabled": False,
        "runbook": "The loss of one rack would take down more than half of what the outputs are worth. "
        "Rebalance the topology, add nodes in other racks, or switch replicas on.",
    },
)


def rules_ensure(*, using: str, **_: Any) -> None:
    """Make them once, after the first migration (and after `manage.py flush`): one that an administrator has
    deleted does not come back. That they were made shows in the row of evaluations."""
    from controlplane.alerts.models import AlertRule, Evaluation

    if Evaluation._meta.db_table not in connections[using].introspection.table_names():
        return
    if Evaluation.objects.using(using).exists():
        return
    for fields in RULES:
        AlertRule.objects.using(using).get_or_create(
            name=fields["name"], defaults={**fields, "created_by": "system"}
        )
    Evaluation.objects.using(using).create(pk=1)
