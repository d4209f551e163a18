"""Alerts as they are some minutes after something broke, made by the product's own looks at its rules."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from controlplane.alerts.evaluation import alerts_evaluate
from controlplane.alerts.models import Alert, AlertRule
from controlplane.alerts.services import rule_create, rule_update
from controlplane.alerts.silencing import silence_create
from controlplane.events.choices import Channel
from controlplane.replication.figures import fidelities_note
from controlplane.topologies.models import Topology

BY: dict[str, Any] = {"actor": "kim", "channel": Channel.PAGE}
EVERY = 5
LOOKED_FOR = 200
"""Seconds. Longer than any of the rules that are to fire must hold."""


def alerts_play(now: datetime, *, broken: bool) -> None:
    """In an installation that is broken an alert of each group; else only one that has ended."""
    fidelities_note()
    if broken:
        # A rule that is far too strict, silenced; and one that still waits.
        rule_create(
            name="latency-of-important-queries", metric="query_latency", comparison="above", threshold=0.2,
            held=60.0, priority=5, runbook="https://wiki.example.org/runbooks/latency", reason="as agreed",
            **BY,
        )  # fmt: skip
        silence_create(
            rule="latency-of-important-queries", until=now + timedelta(hours=2),
            reason="the threshold is being found out", **BY,
        )  # fmt: skip
        rule_update(name="lag-high", changes={"held": 900.0}, reason="bursts are normal here", **BY)
        Topology.objects.filter(name="hashtags").update(lag=42.0)
    for back in range(LOOKED_FOR, -1, -EVERY):
        at = now - timedelta(seconds=back)
        Topology.objects.exclude(status="completed").update(metrics_at=at)
        alerts_evaluate(at)
    rule = AlertRule.objects.get(name="query-latency-high")
    Alert.objects.create(
        rule=rule.name, metric=rule.metric, comparison=rule.comparison, threshold=rule.threshold,
        severity=rule.severity, runbook=rule.runbook, topology="hashtags", query="O9[0]", state="resolved",
        value=1.1, since=now - timedelta(minutes=185), fired_at=now - timedelta(minutes=183), told=True,
        resolved_at=now - timedelta(minutes=176),
    )  # fmt: skip
