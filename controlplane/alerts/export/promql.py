"""A rule as an expression of Prometheus."""

from __future__ import annotations

from controlplane.alerts.choices import AlertComparison
from controlplane.alerts.measuring import OF_CHECKPOINTS
from controlplane.alerts.models import AlertRule
from controlplane.topologies.models import PRIORITY_HIGH, PRIORITY_LOW
from domain.alerting import METRICS

RUNS = 'resurge_topology_health{state=~"running|catching_up|degraded|recovering"}'
"""Has a series for each topology that runs."""
CHECKPOINTED = "resurge_checkpoint_epoch"
"""Has a series for each topology of which there are checkpoints, also before the first one."""
AVAILABLE, PRIORITY = "resurge_query_available", "resurge_query_priority"
EVALUATED = "resurge_alerts_evaluated_timestamp_seconds"


def value_of(rule: AlertRule) -> str:
    """What the rule judges, a series for each subject."""
    metric = METRICS[rule.metric]
    chosen = _chosen(rule)
    if rule.metric == "availability" and rule.priority > PRIORITY_LOW:
        # By priority, as the share of all queries is; those below the priority are left out.
        worth = f"sum by (topology) ({AVAILABLE}{chosen} * {PRIORITY}{chosen})"
        return f"{worth} / sum by (topology) ({PRIORITY}{chosen})"
    return f"{metric.series}{chosen}"


def condition_of(rule: AlertRule) -> str:
    sign = ">" if rule.comparison == AlertComparison.ABOVE else "<"
    return f"{value_of(rule)} {sign} {rule.threshold:.12g}"


def missing_of(rule: AlertRule) -> str:
    """Has a series for each subject that runs and has no value."""
    metric = METRICS[rule.metric]
    if metric.subject == "query":
        present = f"{AVAILABLE}{_chosen(rule)} and on (topology) {RUNS}"
        return f"({present}) unless on (topology, query) {metric.series}"
    topology = f',topology="{rule.topology}"' if rule.topology else ""
    runs = f"{RUNS[:-1]}{topology}}}"
    if rule.metric in OF_CHECKPOINTS:
        runs = f"({runs} and on (topology) {CHECKPOINTED})"
    return f"{runs} unless on (topology) ({value_of(rule)})"


def _chosen(rule: AlertRule) -> str:
    """The matchers of the rule's scope, with their braces; "" where it judges everything."""
    matchers = [f'topology="{rule.topology}"'] if rule.topology else []
    if rule.priority > PRIORITY_LOW and METRICS[rule.metric].by_priority:
        wanted = "|".join(str(one) for one in range(rule.priority, PRIORITY_HIGH + 1))
        matchers.append(f'priority=~"{wanted}"')
    return f"{{{','.join(matchers)}}}" if matchers else ""
