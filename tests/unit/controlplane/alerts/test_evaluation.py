"""What comes of looking at rules: rows, events, deliveries of webhooks, and how many queries a look costs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.alerts import evaluation
from controlplane.alerts.evaluation import alerts_evaluate
from controlplane.alerts.measuring import Measured
from controlplane.alerts.models import Alert, AlertRule, Evaluation, Silence
from controlplane.alerts.services import rule_create, rule_delete, rule_update
from controlplane.alerts.silencing import silence_create, silence_end
from controlplane.checkpoints.models import Checkpoint
from controlplane.events.models import Event
from controlplane.nodes.models import Node
from controlplane.replication import figures
from controlplane.replication.figures import fidelities_note
from controlplane.replication.models import FidelityFigure
from controlplane.topologies.models import Partition, Query, Topology
from controlplane.topologies.services import topology_create
from controlplane.webhooks.models import Delivery
from controlplane.webhooks.services import webhook_create
from tests.unit.controlplane.alerts.conftest import Clock
from tests.unit.controlplane.specs import BY, spec_of

pytestmark = pytest.mark.django_db


def told() -> list[tuple[str, str]]:
    events = Event.objects.filter(kind__startswith="alert.").exclude(kind="alert.updated")
    return [(event.kind, event.reason) for event in events]


def states() -> list[str]:
    return list(Alert.objects.order_by("pk").values_list("state", flat=True))


def lagging(seconds: float) -> None:
    Topology.objects.update(lag=seconds)


def rule_of(metric: str, comparison: str, threshold: float, **more: Any) -> AlertRule:
    AlertRule.objects.all().delete()
    fields = {"held": 10.0, "calm": 10.0, **more}
    return rule_create(name="one", metric=metric, comparison=comparison, threshold=threshold, **fields, **BY)


def test_nothing_fires_and_nothing_is_written_while_all_is_well(clock: Clock) -> None:
    fidelities_note()
    clock.run(600)
    assert not Alert.objects.exists()
    assert not told()
    assert Evaluation.objects.get().at == clock.now


def test_a_lag_fires_after_its_time_and_ends_after_another(clock: Clock, only_lag: AlertRule) -> None:
    lagging(45.04)
    clock.run(60)
    assert (states(), told()) == (["pending"], [])
    clock.run(5)
    alert = Alert.objects.get()
    assert (alert.state, alert.value, alert.told) == ("firing", 45.04, True)
    assert told() == [("alert.firing", "lag-high, warning: Lag of counts: 45 s, above 30 s")]
    lagging(1.0)
    clock.run(30)
    assert states() == ["firing"]
    clock.run(5)
    alert.refresh_from_db()
    assert (alert.state, alert.resolved_at, alert.because) == ("resolved", clock.now, "")
    assert told()[1:] == [("alert.resolved", "lag-high, warning: Lag of counts: 1 s, above 30 s; it is over")]
    clock.run(60)
    assert len(told()) == 2


def test_a_value_is_compared_as_it_was_measured(clock: Clock) -> None:
    rule_of("lag", "above", 45.0)
    lagging(45.0004)
    clock.run(20)
    assert states() == ["firing"]


def test_events_carry_what_pages_and_receivers_show(clock: Clock, only_lag: AlertRule) -> None:
    lagging(45.0)
    clock.run(65)
    event = Event.objects.get(kind="alert.firing")
    assert event.topology == "counts"
    (change,) = event.changes
    fields = change["fields"]
    assert (change["entity"], change["key"]) == ("alert", str(Alert.objects.get().pk))
    assert (fields["value"], fields["threshold"], fields["subject"]) == (45.0, 30.0, "counts")
    assert fields["runbook"] == only_lag.runbook


def test_queries_of_one_topology_are_told_together_the_worst_first(clock: Clock) -> None:
    rule_of("query_relative_latency", "above", 2.0)
    for number, query in enumerate(Query.objects.order_by("pk")):
        query.relative_latency = 2.5 + number
        query.save()
    clock.run(20)
    assert states() == ["firing"] * 3
    ((kind, reason),) = told()
    assert kind == "alert.firing"
    assert reason == "one, warning: Relative latency of counts/O1[0]: 4.50×, above 2.00×; and 2 more"


def test_only_queries_of_a_priority_count(clock: Clock) -> None:
    rule_of("query_latency", "above", 1.0, priority=3)
    Query.objects.update(latency=9.0)
    clock.run(20)
    assert sorted(Alert.objects.values_list("query", flat=True)) == ["O0[0]", "O0[1]"]


def test_availability_counts_by_priority_and_without_parked_queries(clock: Clock) -> None:
    rule_of("availability", "below", 0.9)
    Query.objects.filter(partition__operator="O1").update(status="recovering", available=False)
    clock.run(20)
    assert Alert.objects.get().value == pytest.approx(6 / 7, abs=0.001)
    Query.objects.filter(partition__operator="O1").update(status="parked", parked=True)
    clock.run(20)
    assert states() == ["resolved"]


def test_a_failed_topology_fires_for_its_queries_and_a_paused_one_does_not(clock: Clock) -> None:
    rule_of("availability", "below", 1.0)
    Topology.objects.update(status="failed")
    clock.run(20)
    assert states() == ["firing"]
    Topology.objects.update(status="paused")
    clock.run(5)
    alert = Alert.objects.get()
    assert (alert.state, alert.because) == ("resolved", "the topology is paused")
    assert told()[-1][1].endswith("; ended: the topology is paused")
    Query.objects.update(available=False, status="failed")
    clock.run(60)
    assert states() == ["resolved"]


def test_a_latency_that_is_not_measured_is_said_and_ends_nothing(clock: Clock) -> None:
    rule_of("query_latency", "above", 1.0)
    Query.objects.filter(partition__operator="O0").update(latency=9.0)
    clock.run(20)
    Query.objects.filter(partition__operator="O1").update(status="failed", available=False)
    Query.objects.filter(partition__operator="O0").update(status="failed", available=False)
    clock.run(60)
    found = {alert.query: (alert.state, alert.value) for alert in Alert.objects.all()}
    assert found == {"O0[0]": ("firing", None), "O0[1]": ("firing", None), "O1[0]": ("missing", None)}
    assert len(told()) == 1


def test_a_driver_that_reports_nothing_has_no_lag(clock: Clock, only_lag: AlertRule) -> None:
    rule_update(name="lag-high", changes={"missing": "fire"}, **BY)
    for _ in range(8):
        clock.pass_by(5, fresh=False)
    assert states() == ["missing"]
    for _ in range(12):
        clock.pass_by(5, fresh=False)
    assert told() == [("alert.firing", "lag-high, warning: Lag of counts: no data")]


def test_a_report_of_a_clock_that_was_put_back_is_none_of_now(clock: Clock, only_lag: AlertRule) -> None:
    """The driver has died meanwhile."""
    Topology.objects.update(lag=45.0, metrics_at=clock.now + timedelta(hours=1))
    clock.pass_by(5, fresh=False)
    assert states() == ["missing"]


def test_a_topology_with_long_epochs_is_judged_by_the_report_of_the_last_one(
    clock: Clock, only_lag: AlertRule
) -> None:
    """It has a new one each minute."""
    spec = Topology.objects.get().spec | {"epoch_interval": 60.0}
    Topology.objects.update(spec=spec, lag=45.0, metrics_at=clock.now)
    for _ in range(2):
        for _ in range(12):
            clock.pass_by(5, fresh=False)
        Topology.objects.update(metrics_at=clock.now)
    assert len(told()) == 1
    assert states() == ["firing"]
    rule_update(name="lag-high", changes={"threshold": 60.0, "missing": "fire", "held": 0.0}, **BY)
    for _ in range(40):
        clock.pass_by(5, fresh=False)
    assert [alert.value for alert in Alert.objects.order_by("pk")] == [45.0, None], "three epochs without one"


def test_the_age_of_a_checkpoint_is_judged_by_the_interval_of_the_topology(clock: Clock) -> None:
    rule_of("checkpoint_intervals", "above", 3.0)
    Topology.objects.update(spec={**Topology.objects.get().spec, "checkpoint_interval": 20.0})
    Topology.objects.update(deployed_at=clock.now, metrics_at=clock.now)
    Checkpoint.objects.update(ended_at=clock.now)
    for _ in range(12):
        clock.pass_by(5, fresh=False)
    assert states() == []
    for _ in range(4):
        clock.pass_by(5, fresh=False)
    alert = Alert.objects.get()
    assert (alert.state, alert.value) == ("firing", 4.0)


@pytest.mark.parametrize("deployed", [-60, 4 * 3600])
def test_the_age_of_a_checkpoint_is_right_where_the_clock_was_put_back(clock: Clock, deployed: int) -> None:
    """Since a deployment that is still to come now."""
    rule_of("checkpoint_age", "above", 40.0)
    Topology.objects.update(deployed_at=clock.now + timedelta(seconds=deployed), metrics_at=clock.now)
    Checkpoint.objects.update(ended_at=clock.now + timedelta(seconds=5))
    for _ in range(13):
        clock.pass_by(5, fresh=False)
    alert = Alert.objects.get()
    assert (alert.state, alert.value) == ("firing", 60.0)


@pytest.mark.parametrize("metric", ["checkpoint_age", "checkpoint_intervals"])
def test_a_topology_without_checkpoints_is_not_judged_by_them(clock: Clock, metric: str) -> None:
    """Those of its exact version are old by now."""
    rule_of(metric, "above", 0.0, missing="fire")
    Topology.objects.update(deployed_at=clock.now)
    Checkpoint.objects.update(ended_at=clock.now)
    for _ in range(4):
        clock.pass_by(5, fresh=False)
    assert states() == ["firing"]
    Topology.objects.update(guarantee="bounded")
    clock.run(60)
    alert = Alert.objects.get()
    assert (alert.state, alert.because) == ("resolved", "its guarantee is bounded, so it has no checkpoints")


def test_fidelity_is_that_without_the_worst_rack(clock: Clock) -> None:
    rule_of("fidelity_rack_loss", "below", 1.0)
    fidelities_note()
    clock.run(20)
    alert = Alert.objects.get()
    assert alert.state == "firing"
    assert alert.value is not None
    assert 0.0 <= alert.value < 1.0


def test_the_worst_rack_is_the_one_whose_loss_leaves_least(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One query is in the other rack, and needs what is in the first one."""
    Partition.objects.update(node=Node.objects.get(name="node-1"))
    window = Partition.objects.filter(operator="O1", index=0)
    window.update(node=Node.objects.get(name="node-2"))
    fidelities_note()
    figure = FidelityFigure.objects.get()
    assert (figure.now, figure.worst_rack, figure.rack) == (1.0, 0.0, "rack-a")
    with monkeypatch.context() as smaller:
        smaller.setattr(figures, "MOST_PARTITIONS", 1)
        fidelities_note()
    assert not FidelityFigure.objects.exists(), "one that has become too large has none"
    fidelities_note()
    assert FidelityFigure.objects.exists()
    Topology.objects.update(status="paused")
    fidelities_note()
    assert not FidelityFigure.objects.exists(), "a topology that does not run has none"


@pytest.mark.parametrize("end", ["switched off", "deleted"])
def test_the_end_of_a_rule_ends_no_alert_of_another(clock: Clock, only_lag: AlertRule, end: str) -> None:
    rule_create(name="later", metric="lag", comparison="above", threshold=10.0, held=0.0, **BY)
    lagging(45.0)
    clock.run(70)
    assert states() == ["firing", "firing"]
    if end == "deleted":
        rule_delete(name="later", **BY)
    else:
        rule_update(name="later", changes={"enabled": False}, **BY)
    assert dict(Alert.objects.values_list("rule", "state")) == {"lag-high": "firing", "later": "resolved"}


def test_after_a_break_the_time_begins_again(clock: Clock, only_lag: AlertRule) -> None:
    lagging(45.0)
    clock.run(50)
    clock.pass_by(300)
    assert states() == ["pending"]
    clock.run(60)
    assert states() == ["firing"]


def test_a_silence_keeps_webhooks_quiet_and_the_state_as_it_is(clock: Clock, only_lag: AlertRule) -> None:
    webhook_create(name="pager", url="https://example.org/x", kinds=["alert.firing", "alert.resolved"], **BY)
    silence = silence_create(rule="lag-high", until=clock.now + timedelta(hours=1), **BY)
    lagging(45.0)
    clock.run(65)
    alert = Alert.objects.get()
    assert (alert.state, alert.told, alert.silence_id) == ("firing", False, silence.pk)
    assert not Delivery.objects.exists()
    silence_end(silence_id=silence.pk, **BY)
    alert.refresh_from_db()
    assert alert.silence_id is None
    clock.run(5)
    assert [row.kind for row in Delivery.objects.all()] == ["alert.firing"]
    assert [kind for kind, _ in told()] == ["alert.silenced", "alert.unsilenced", "alert.firing"]


def test_what_was_told_is_told_to_be_over_also_under_a_silence(clock: Clock, only_lag: AlertRule) -> None:
    lagging(45.0)
    clock.run(65)
    silence_create(topology="counts", until=clock.now + timedelta(hours=1), **BY)
    assert Alert.objects.get().silence is not None
    lagging(0.0)
    clock.run(40)
    assert [kind for kind, _ in told()] == ["alert.firing", "alert.silenced", "alert.resolved"]


def test_a_silence_ends_with_its_time(clock: Clock, only_lag: AlertRule) -> None:
    silence = silence_create(rule="lag-high", until=clock.now + timedelta(seconds=100), **BY)
    lagging(45.0)
    clock.run(95)
    assert [kind for kind, _ in told()] == ["alert.silenced"]
    clock.run(10)
    silence.refresh_from_db()
    assert (silence.ended_at, silence.ended_by) == (silence.until, "")
    assert [kind for kind, _ in told()] == ["alert.silenced", "alert.unsilenced", "alert.firing"]


def test_a_rule_that_is_off_or_gone_has_no_alerts(clock: Clock, only_lag: AlertRule) -> None:
    lagging(45.0)
    clock.run(65)
    rule_update(name="lag-high", changes={"enabled": False}, **BY)
    alert = Alert.objects.get()
    assert (alert.state, alert.because) == ("resolved", "the rule is off")
    rule_update(name="lag-high", changes={"enabled": True}, **BY)
    clock.run(30)
    assert states() == ["resolved", "pending"]
    rule_delete(name="lag-high", **BY)
    assert states() == ["resolved"]


def test_a_changed_threshold_judges_what_fires(clock: Clock, only_lag: AlertRule) -> None:
    lagging(45.0)
    clock.run(65)
    rule_update(name="lag-high", changes={"threshold": 60.0}, **BY)
    clock.run(40)
    alert = Alert.objects.get()
    assert (alert.state, alert.threshold) == ("resolved", 60.0)


def test_of_two_looks_at_the_same_time_one_is_stored(
    clock: Clock, only_lag: AlertRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    from controlplane.alerts import evaluation

    lagging(45.0)
    clock.run(60)
    last = Evaluation.objects.get().at
    clock.run(5)
    monkeypatch.setattr(evaluation, "_last", lambda: last)
    Alert.objects.update(state="pending", told=False, fired_at=None)
    alerts_evaluate(clock.now + timedelta(seconds=1))
    assert [kind for kind, _ in told()] == ["alert.firing"]


def test_a_rule_that_changes_during_a_look_is_not_judged_by_it(
    clock: Clock, only_lag: AlertRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    from controlplane.alerts import evaluation

    lagging(45.0)
    clock.run(60)
    stale = list(AlertRule.objects.all())
    rule_update(name="lag-high", changes={"threshold": 50.0}, **BY)
    measured = Measured(clock.now)
    evaluation._look_store(
        rules=stale, measured=measured, now=clock.now + timedelta(seconds=5), last=Evaluation.objects.get().at
    )
    assert states() == ["pending"]


def test_a_look_costs_the_same_number_of_queries_for_any_number_of_topologies(clock: Clock) -> None:
    clock.run(5)
    one = _queries(clock)
    for number in range(5):
        other = topology_create(spec=spec_of(f"more-{number}"), **BY)
        other.status = "running"
        other.save()
    Query.objects.update(available=True, status="available", latency=0.5, relative_latency=1.0)
    Checkpoint.objects.update(ended_at=clock.now)
    Topology.objects.update(deployed_at=clock.now)
    assert _queries(clock) == one
    assert one <= 12


def test_a_look_that_finds_much_costs_no_query_for_each_alert(clock: Clock) -> None:
    rule_of("query_latency", "above", 1.0, held=0.0)
    topology = Topology.objects.get()
    clock.run(5)
    Query.objects.all().delete()
    made = Partition.objects.bulk_create(
        [Partition(topology=topology, operator="Q", index=index) for index in range(150)]
    )
    Query.objects.bulk_create(
        [
            Query(topology=topology, partition=row, latency=9.0, status="available", available=True)
            for row in made
        ]
    )
    assert _queries(clock) <= 40
    assert states() == ["firing"] * 150
    assert len(told()) == 1


def test_alerts_are_written_once_and_changed_together(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing reports any more, there is one for each query, and nothing else writes meanwhile."""
    monkeypatch.setattr(evaluation, "QUIET", 2)
    rule = rule_of("query_latency", "above", 1.0, held=0.0)

    def look() -> tuple[int, list[int]]:
        last = Event.objects.order_by("-sequence")[0].sequence
        with CaptureQueriesContext(connection) as asked:
            clock.pass_by(5, fresh=False)
        updates = sum('UPDATE "alerts_alert"' in query["sql"] for query in asked)
        events = Event.objects.filter(sequence__gt=last, kind="alert.updated").order_by("sequence")
        return updates, [len(event.changes) for event in events]

    Topology.objects.update(metrics_at=None)
    assert look() == (0, [2, 1])
    assert states() == ["missing"] * 3
    AlertRule.objects.filter(pk=rule.pk).update(severity="critical")
    assert look() == (1, [2, 1])
    found = Alert.objects.values_list("severity", "state", "since", "value", "told", "silence")
    assert set(found) == {("critical", "missing", clock.now - timedelta(seconds=5), None, False, None)}


def _queries(clock: Clock) -> int:
    Topology.objects.update(metrics_at=clock.now)
    with CaptureQueriesContext(
        connection,
    ) as found:
        clock.pass_by(5, fresh=False)
    return len(found)


def test_a_silence_of_a_deleted_rule_stays_in_the_history(clock: Clock, only_lag: AlertRule) -> None:
    silence_create(rule="lag-high", until=clock.now + timedelta(hours=1), **BY)
    rule_delete(name="lag-high", **BY)
    assert Silence.objects.get().rule == "lag-high"
