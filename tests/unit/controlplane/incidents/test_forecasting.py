"""Estimates of an incident on the real database: made, shown, kept, compared, and learned from."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from controlplane.events.choices import OperationKind
from controlplane.incidents.actions import incident_order
from controlplane.incidents.forecasting import _spread
from controlplane.incidents.models import Incident, IncidentPrediction
from controlplane.incidents.selectors import incident_get
from controlplane.lifecycle.nodes import node_register
from controlplane.topologies.models import Partition, Topology
from domain.forecast import Spread
from domain.forecast.outlook import Expected
from domain.recovery.events import PlanPublished
from tests.unit.controlplane.following import Follower
from tests.unit.controlplane.incidents.places import newest, now, queries_return, registration
from tests.unit.controlplane.incidents.test_waves import look, lose, seen, unassigned

pytestmark = pytest.mark.django_db


@pytest.fixture
def measured(deployed: Topology) -> Topology:
    """Every partition takes 25 % of a CPU, so that a node takes three."""
    Partition.objects.update(cpu=0.25)
    return deployed


def kept(kind: str) -> list[tuple[str, bool]]:
    """Stages in which this kind was predicted, and whether it is known what came."""
    rows = IncidentPrediction.objects.filter(kind=kind).order_by("pk")
    return [(row.stage, row.over_at is not None) for row in rows]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def recover() -> Incident:
    lose("node-1", "node-2", "node-3")
    for name in ("node-5", "node-6", "node-7"):
        node_register(registration=registration(name), at=now())
    look(*seen("degraded"))
    look(PlanPublished(at=now().timestamp(), topology="counts", generation=newest().generation))
    look(*seen("replaying", behind=newest().restore))
    look(*seen("running", checkpoint=20))
    queries_return()
    look(*seen("running", checkpoint=60))
    look()
    incident = Incident.objects.get()
    assert incident.state == "closed"
    return incident


def test_an_estimate_follows_the_incident(measured: Topology) -> None:
    follower = Follower()
    lose("node-1", "node-2", "node-3")
    assert incident_get(1).forecast == {}, "nothing is expected before all that was observed is known"
    node_register(registration=registration("node-5"), at=now())
    look(*seen("degraded"))
    follower.check()
    forecast = incident_get(1).forecast
    over = forecast["over"]
    assert over["stage"] == "nodes", "a part waits for further nodes"
    assert timezone.now() < at(over["low_at"]) < at(over["expected_at"]) < at(over["high_at"])
    assert {one["stage"] for one in forecast["queries"]} == {"nodes", "start"}
    failed = incident_get(1).summary["failed_queries"]["counts"]
    assert sorted(q for one in forecast["queries"] for q in one["queries"]) == [f"counts/{q}" for q in failed]
    assert [one["wave"] for one in forecast["waves"]] == ["counts/2"]
    assert kept("incident") == [("nodes", False)]
    assert kept("wave") == [("start", False)]

    down = unassigned()
    look(PlanPublished(at=now().timestamp(), topology="counts", generation=2))
    look(*seen("degraded", absent=down, behind=newest().restore))
    assert kept("wave") == [("start", False), ("replay", False)]
    look(*seen("degraded", absent=down))
    assert kept("wave") == [("start", True), ("replay", True)], "it has caught up"
    follower.check()


def test_the_pace_of_the_driver_decides(measured: Topology) -> None:
    lose("node-1", "node-2", "node-3")
    for name in ("node-5", "node-6", "node-7"):
        node_register(registration=registration(name), at=now())
    look(*seen("degraded"))
    look(PlanPublished(at=now().timestamp(), topology="counts", generation=2))
    look(*seen("replaying", behind=newest().restore))
    soon = at(incident_get(1).forecast["over"]["expected_at"])
    Topology.objects.update(catch_up=900.0)
    look(*seen("replaying", behind=newest().restore))
    later = at(incident_get(1).forecast["over"]["expected_at"])
    assert later - soon > timedelta(seconds=600)


def test_the_topology_s_own_checkpoint_interval_counts(measured: Topology) -> None:
    """Its newest checkpoint may be that old, and the one that proves its recovery comes that late."""
    lose("node-1", "node-2", "node-3")
    for name in ("node-5", "node-6", "node-7"):
        node_register(registration=registration(name), at=now())
    look(*seen("degraded"))
    soon = at(incident_get(1).forecast["over"]["expected_at"])
    Topology.objects.update(spec={**measured.spec, "checkpoint_interval": 900.0})
    look(*seen("degraded"))
    later = at(incident_get(1).forecast["over"]["expected_at"])
    assert later - soon > timedelta(seconds=800)


def test_what_came_stands_beside_what_was_predicted(measured: Topology) -> None:
    follower = Follower()
    incident = recover()
    follower.check()
    course = incident.forecast["course"]
    assert incident.forecast.keys() == {"course"}, "nothing is expected any more"
    assert {one["kind"] for one in course} == {"incident", "wave"}
    assert all(one["over_at"] is not None for one in course)
    assert all(known for kind in ("incident", "wave", "query") for _, known in kept(kind))


def test_later_incidents_learn_from_it(measured: Topology) -> None:
    assert _spread().count("query", "nodes") == 0
    incident = recover()
    row = incident.predictions.filter(kind="wave", stage="start").get()
    assert row.over_at is not None
    # It took four times as long as was estimated.
    over = row.made_at + timedelta(seconds=40)
    IncidentPrediction.objects.filter(pk=row.pk).update(raw=10.0, over_at=over)
    Incident.objects.update(closed_at=timezone.now())
    expected = Expected(kind="wave", subject="counts/9", stage="start", seconds=10.0)
    spread = _spread()
    assert spread.count("wave", "start") == 1
    assert spread.range_of(expected).expected > Spread().range_of(expected).expected
    assert spread.range_of(expected).high > Spread().range_of(expected).high


def test_an_aborted_incident_teaches_nothing(measured: Topology) -> None:
    lose("node-1", "node-2", "node-3")
    node_register(registration=registration("node-5"), at=now())
    look(*seen("degraded"))
    incident_order(kind=OperationKind.INCIDENT_ABORT, number=1, actor="kim", reason="enough")
    incident = incident_get(1)
    assert (incident.state, incident.forecast.keys()) == ("aborted", {"course"})
    assert kept("incident") == [("nodes", False)]
    assert _spread().count("incident", "nodes") == 0


def test_a_look_that_says_nothing_new_tells_nothing(
    measured: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = now()
    monkeypatch.setattr(timezone, "now", lambda: stopped)
    lose("node-1", "node-2", "node-3")
    node_register(registration=registration("node-5"), at=now())
    look(*seen("degraded"))
    before = incident_get(1).forecast
    assert not look().changed
    assert incident_get(1).forecast == before
