"""Estimates of an incident on the real database: made, shown, kept, compared, and learned from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.checkpoints.models import Checkpoint
from controlplane.events.choices import OperationKind
from controlplane.incidents import forecasting
from controlplane.incidents.actions import incident_order
from controlplane.incidents.forecasting import PARKED, _spread
from controlplane.incidents.models import Incident, IncidentPrediction, RecoveryPlan
from controlplane.incidents.parking import queries_park, queries_unpark
from controlplane.incidents.restorations import plans_read
from controlplane.incidents.selectors import incident_get
from controlplane.lifecycle.nodes import node_drain, node_register
from controlplane.topologies.models import Partition, Topology
from domain.capacity import CpuModel, CpuShares
from domain.forecast import Spread
from domain.forecast.outlook import Expected
from domain.forecast.reading import Asked
from domain.planning import Arrival
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


def test_how_long_queries_stay_parked_is_not_known(measured: Topology) -> None:
    """And a plan that only stops partitions is no wave that would catch up."""
    Partition.objects.update(cpu=0.1, state="running")
    measured.queries.update(available=True, status="available")
    queries_park(topology="counts", queries=["O1[0]"], actor="ada", reason="input has doubled")
    look()
    look(PlanPublished(at=now().timestamp(), topology="counts", generation=2))
    look(*seen("degraded", absent={"O1[0]"}))
    forecast = incident_get(1).forecast
    assert (forecast["over"], forecast["waves"], forecast["held"]) == (None, [], PARKED)
    assert kept("wave") == []
    queries_unpark(topology="counts", queries=[], actor="ada", reason="it is normal again")
    look(*seen("degraded", absent={"O1[0]"}))
    forecast = incident_get(1).forecast
    assert forecast["over"] is not None
    assert [one["wave"] for one in forecast["waves"]] == ["counts/3"]


def test_a_wave_that_another_overtook_is_over_once_its_partitions_have_caught_up(measured: Topology) -> None:
    lose("node-1", "node-2", "node-3")
    node_register(registration=registration("node-5"), at=now())
    look(*seen("degraded"))
    down, first = unassigned(), newest().restore
    look(PlanPublished(at=now().timestamp(), topology="counts", generation=2))
    look(*seen("degraded", absent=down, behind=first))
    for name in ("node-6", "node-7"):
        node_register(registration=registration(name), at=now())
    look(*seen("degraded", absent=down, behind=first))
    look(PlanPublished(at=now().timestamp(), topology="counts", generation=3))
    look(*seen("replaying", behind={*first, *down}))
    assert {one["wave"] for one in incident_get(1).forecast["waves"]} == {"counts/2", "counts/3"}
    look(*seen("running"))
    assert incident_get(1).state == "verifying"
    assert incident_get(1).forecast["waves"] == []


def test_all_input_since_the_newest_checkpoint_is_replayed(measured: Topology) -> None:
    """Or since the topology was deployed, where none is complete."""
    lose("node-1", "node-2", "node-3")

    def most() -> float:
        look(*seen("degraded"))
        ends = [at(one["expected_at"]) for one in incident_get(1).forecast["queries"]]
        return (max(ends) - now()).total_seconds()

    soon = most()
    Topology.objects.update(deployed_at=now() - timedelta(hours=2))
    assert most() - soon > 1_000
    ended = now() - timedelta(hours=1)
    Checkpoint.objects.create(
        topology=measured,
        epoch=20,
        generation=1,
        state="completed",
        stored=True,
        started_at=ended,
        ended_at=ended,
    )
    assert 600 < most() - soon < 2_000


def test_what_moves_replays_nothing(measured: Topology) -> None:
    Partition.objects.update(cpu=0.05, state="running")
    ended = now() - timedelta(hours=1)
    Checkpoint.objects.create(
        topology=measured,
        epoch=20,
        generation=1,
        state="completed",
        stored=True,
        started_at=ended,
        ended_at=ended,
    )
    assert node_drain(name="node-1", actor="ada", reason="new kernel") is not None
    look(*seen("running"))
    (wave,) = incident_get(1).forecast["waves"]
    assert at(wave["expected_at"]) - now() < timedelta(seconds=60)


def test_with_a_bounded_guarantee_nothing_replays(measured: Topology, settings: Any) -> None:
    settings.RESURGE = replace(settings.RESURGE, checkpoint_interval=900.0)
    long_ago = now() - timedelta(hours=2)
    spec = {**measured.spec, "guarantee": "bounded"}
    Topology.objects.update(spec=spec, guarantee="bounded", deployed_at=long_ago)
    lose("node-1", "node-2", "node-3")
    for name in ("node-5", "node-6", "node-7"):
        node_register(registration=registration(name), at=now())
    look(*seen("degraded"))
    assert at(incident_get(1).forecast["over"]["expected_at"]) - now() < timedelta(seconds=60)


def test_a_node_brings_what_topologies_leave_of_it(
    measured: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Asked] = []

    def noted(rows: Iterable[Asked], *_: object) -> tuple[Arrival, ...]:
        asked.extend(rows)
        return ()

    monkeypatch.setattr(forecasting, "arrivals_of", noted)
    shares = CpuShares(fixed=0.2, per_task=0.0)
    Topology.objects.update(cpu_model=msgspec.to_builtins(CpuModel(shares=shares)))
    lose("node-1", "node-2", "node-3")
    look(*seen("degraded"))
    assert [one.capacity for one in asked] == [pytest.approx(60.0)] * 3


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


def test_it_reads_more_plans_than_sqlite_takes_conditions(measured: Topology) -> None:
    lose("node-1", "node-2", "node-3")
    incident = Incident.objects.get()
    RecoveryPlan.objects.bulk_create(
        RecoveryPlan(
            topology=measured, incident=incident, generation=100 + wave, kind="recover", checkpoint=wave,
            restore=["O0[0]"], state="superseded", applied_at=now(), caught_up_at=now(),
        )
        for wave in range(1_100)
    )  # fmt: skip
    ended = now() - timedelta(seconds=100)
    Checkpoint.objects.create(topology=measured, epoch=7, state="completed", started_at=ended, ended_at=ended)
    with CaptureQueriesContext(connection) as asked:
        begins = [one.plan.checkpoint_at for one in plans_read(incident)["counts"]]
    assert len(asked) == 3
    assert not [query for query in asked if '"assignment"' in query["sql"] or '"spec"' in query["sql"]]
    assert len(begins) == 1_100
    assert begins[7] == ended.timestamp(), "the others replay since the deployment"
    assert begins.count(ended.timestamp()) == 1
