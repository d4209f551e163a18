"""What is generated for Prometheus and Grafana names series that `/metrics` has, with the values that rules
judge here, and the committed examples are current."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from functools import partial
from io import StringIO
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from prometheus_client.parser import text_string_to_metric_families
from rest_framework.test import APIClient

from controlplane.alerts.export.grafana import grafana_dashboard
from controlplane.alerts.export.prometheus import prometheus_rules
from controlplane.alerts.export.promql import condition_of, missing_of
from controlplane.alerts.measuring import Measured
from controlplane.alerts.models import AlertRule
from controlplane.alerts.services import rule_create, rule_update
from controlplane.alerts.silencing import silence_create
from controlplane.replication.figures import fidelities_note
from controlplane.topologies.models import Query, Topology
from controlplane.topologies.services import topology_create
from domain.alerting import METRICS
from host.environment import ROOT
from tests.unit.controlplane.alerts.conftest import Clock
from tests.unit.controlplane.specs import BY, spec_of

EXAMPLES = ROOT / "docs" / "monitoring"
NAME = re.compile(r"\bresurge_[a-z_]+")
Series = dict[tuple[str, ...], float]


def written(form: str) -> str:
    out = StringIO()
    call_command("alert_rules", format=form, stdout=out)
    return out.getvalue()


def rules_of_every_kind() -> None:
    """For each metric a rule that also fires without data; one by priority, one of a single topology."""
    for name, metric in METRICS.items():
        rule_create(
            name=name.replace("_", "-"), metric=name, comparison="below", threshold=0.5, held=10.0,
            missing="fire", priority=3 if metric.by_priority else 1, topology="counts", **BY,
        )  # fmt: skip


@pytest.fixture
def scraped(clock: Clock, viewer: APIClient) -> dict[str, Series]:
    """Name of a series to its values by (topology, query)."""
    fidelities_note()
    Topology.objects.update(lag=45.0)
    query = Query.objects.filter(partition__operator="O1").get()
    query.available, query.status, query.relative_latency, query.latency = False, "recovering", 3.0, 1.5
    query.save()
    clock.run(15)
    text = viewer.get("/metrics", headers={"Accept": "text/plain"}).content.decode()
    found: dict[str, Series] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.labels.get("topology", ""), sample.labels.get("query", ""))
            found.setdefault(sample.name, {})[key] = sample.value
    return found


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("form", "file"), [("prometheus", "resurge.rules.yaml"), ("grafana", "resurge.dashboard.json")]
)
def test_the_committed_examples_are_those_of_the_default_rules(form: str, file: str) -> None:
    assert (EXAMPLES / file).read_text(encoding="utf-8") == written(form), (
        f"docs/monitoring/{file} is out of date: write it with `manage.py alert_rules --format {form}` in an "
        "installation whose rules are the default ones"
    )


def test_every_series_that_is_named_is_in_metrics(scraped: dict[str, Series]) -> None:
    rules_of_every_kind()
    for text in (written("prometheus"), written("grafana")):
        named = set(NAME.findall(text))
        assert {metric.series for metric in METRICS.values()} <= named
        assert named - scraped.keys() == set()


def test_series_have_the_values_that_rules_judge(scraped: dict[str, Series], clock: Clock) -> None:
    rules_of_every_kind()
    measured = Measured(clock.now)
    AlertRule.objects.update(priority=1)
    for name, metric in METRICS.items():
        judged = measured.values(AlertRule.objects.get(metric=name, topology="counts"))
        assert judged
        told = scraped[metric.series]
        assert told.keys() == judged.keys(), name
        for subject, value in judged.items():
            assert value is not None
            # A few seconds pass between the look and the scrape, in which only ages grow.
            near = 20.0 if "checkpoint" in name else 0.001
            assert told[subject] == pytest.approx(value, abs=near), name


def test_what_is_not_known_has_no_series(clock: Clock, viewer: APIClient) -> None:
    Topology.objects.update(status="paused")
    text = viewer.get("/metrics", headers={"Accept": "text/plain"}).content.decode()
    assert 'resurge_topology_health{state="paused",topology="counts"} 1.0' in text
    assert not re.findall(r"^resurge_(?:current_lag|availability|checkpoint_age|query_)\w*{", text, re.M)


def test_a_query_without_a_latency_has_no_series_of_it(clock: Clock, viewer: APIClient) -> None:
    clock.run(5)
    Query.objects.filter(partition__operator="O1").update(status="failed", available=False)
    text = viewer.get("/metrics", headers={"Accept": "text/plain"}).content.decode()
    assert 'resurge_query_available{priority="1",query="O1[0]",topology="counts"} 0.0' in text
    assert len(re.findall(r"^resurge_query_latency_seconds{", text, re.M)) == 2


def test_what_is_silenced_does_not_count_as_firing(
    clock: Clock, only_lag: AlertRule, viewer: APIClient
) -> None:
    silence_create(rule="lag-high", until=clock.now + timedelta(hours=1), **BY)
    Topology.objects.update(lag=45.0)
    clock.run(65)
    text = viewer.get("/metrics", headers={"Accept": "text/plain"}).content.decode()
    found = re.findall(r"^resurge_alerts{.*}.*$", text, re.M)
    assert found == ['resurge_alerts{rule="lag-high",severity="warning",state="silenced"} 1.0']


def test_alerts_are_counted_by_state(clock: Clock, only_lag: AlertRule, viewer: APIClient) -> None:
    Topology.objects.update(lag=45.0)
    clock.run(10)
    text = viewer.get("/metrics", headers={"Accept": "text/plain"}).content.decode()
    assert 'resurge_alerts{rule="lag-high",severity="warning",state="pending"} 1.0' in text
    at = float(re.findall(r"^resurge_alerts_evaluated_timestamp_seconds (\S+)$", text, re.M)[0])
    assert at == pytest.approx(clock.now.timestamp(), abs=1)


def test_the_share_of_queries_of_a_priority_is_weighed_by_priority(
    clock: Clock, scraped: dict[str, Series]
) -> None:
    """The expression, evaluated by hand on what was scraped, gives what the rule judges."""
    rule = rule_create(
        name="valued", metric="availability", comparison="below", threshold=0.9, held=0.0, priority=1, **BY
    )
    assert condition_of(rule) == "resurge_availability_share < 0.9"
    rule.priority = 3
    wanted = "3|4|5|6|7|8|9|10"
    assert condition_of(rule) == (
        f'sum by (topology) (resurge_query_available{{priority=~"{wanted}"}} * '
        f'resurge_query_priority{{priority=~"{wanted}"}}) / '
        f'sum by (topology) (resurge_query_priority{{priority=~"{wanted}"}}) < 0.9'
    )
    worth = {key: value for key, value in scraped["resurge_query_priority"].items() if value >= 3}
    available = sum(value * scraped["resurge_query_available"][key] for key, value in worth.items())
    assert available / sum(worth.values()) == Measured(clock.now).values(rule)["counts", ""]


@pytest.mark.django_db
def test_rules_of_prometheus_say_what_ours_say() -> None:
    rule_update(name="lag-high", changes={"missing": "fire", "runbook": "https://wiki.example.org/lag"}, **BY)
    rule_update(name="query-latency-high", changes={"runbook": "write {{ braces }}"}, **BY)
    (group,) = yaml.safe_load(prometheus_rules(AlertRule.objects.order_by("name")))["groups"]
    found: dict[str, dict[str, Any]] = {entry["alert"]: entry for entry in group["rules"]}
    assert list(found) == [
        "ResurgeCheckpointOld",
        "ResurgeLagHigh",
        "ResurgeLagHighNoData",
        "ResurgeQueriesUnavailable",
        "ResurgeQueryLatencyHigh",
        "ResurgeAlertsNotEvaluated",
    ], "the rule that is off is left out"
    lag = found["ResurgeLagHigh"]
    assert (lag["expr"], lag["for"], lag["keep_firing_for"]) == (
        "resurge_current_lag_seconds > 30",
        "60s",
        "30s",
    )
    assert lag["labels"] == {"severity": "warning", "rule": "lag-high"}
    assert lag["annotations"]["runbook_url"] == "https://wiki.example.org/lag"
    missing = found["ResurgeLagHighNoData"]["expr"]
    assert missing.endswith("unless on (topology) (resurge_current_lag_seconds)")
    assert '{{ "{{" }}' in found["ResurgeQueryLatencyHigh"]["annotations"]["runbook"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("metric", "threshold"), [("availability", 0.9999999), ("checkpoint_age", 1_234_567.0)]
)
def test_a_threshold_is_not_rounded(metric: str, threshold: float) -> None:
    rule = rule_create(name="exact", metric=metric, comparison="below", threshold=threshold, held=0.0, **BY)
    assert float(condition_of(rule).rpartition(" < ")[2]) == threshold


@pytest.mark.django_db
def test_no_checkpoint_is_missing_where_there_are_none(clock: Clock, viewer: APIClient) -> None:
    """Where the guarantee is bounded."""
    rule = rule_create(
        name="no-checkpoint", metric="checkpoint_age", comparison="above", threshold=60.0, held=0.0,
        missing="fire", topology="counts", **BY,
    )  # fmt: skip
    left, _, value = missing_of(rule).partition(" unless on (topology) ")
    assert left.endswith(',topology="counts"} and on (topology) resurge_checkpoint_epoch)')
    assert value == '(resurge_checkpoint_age_seconds{topology="counts"})'
    series = r"^resurge_checkpoint_(?:epoch|age_seconds|age_intervals){topology=\"counts\"}"
    scrape = partial(viewer.get, "/metrics", headers={"Accept": "text/plain"})
    assert len(re.findall(series, scrape().content.decode(), re.M)) == 3
    Topology.objects.update(guarantee="bounded")
    assert not re.findall(series, scrape().content.decode(), re.M)


@pytest.mark.django_db
def test_panels_have_the_thresholds_of_rules() -> None:
    rule_create(
        name="lag-very-high", metric="lag", comparison="above", threshold=300.0, held=0.0,
        severity="critical", **BY,
    )  # fmt: skip
    dashboard = json.loads(grafana_dashboard(AlertRule.objects.order_by("name")))
    panels = {panel["title"]: panel for panel in dashboard["panels"]}
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(panels) == len(METRICS) + 2

    def steps(title: str) -> list[tuple[float | None, str]]:
        found = panels[title]["fieldConfig"]["defaults"]["thresholds"]["steps"]
        return [(step["value"], step["color"]) for step in found]

    assert steps("Lag") == [(None, "green"), (30.0, "orange"), (300.0, "red")]
    assert steps("Share of queries available") == [(None, "red"), (1.0, "green")]
    assert steps("Fidelity now") == [(None, "green")]
    assert "lag-very-high (critical): Lag above 300 s" in panels["Lag"]["description"]
    places = [(one["gridPos"]["x"], one["gridPos"]["y"]) for one in dashboard["panels"]]
    assert len(set(places)) == len(places)


@pytest.mark.django_db
def test_a_scrape_costs_the_same_number_of_queries_for_any_number_of_rows(
    clock: Clock, viewer: APIClient
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as found:
            assert viewer.get("/metrics").status_code == 200
        return len(found)

    viewer.get("/metrics")  # reads and keeps the user
    one = queries()
    for number in range(4):
        other = topology_create(spec=spec_of(f"more-{number}"), **BY)
        Topology.objects.filter(pk=other.pk).update(status="running")
    assert queries() == one <= 20
