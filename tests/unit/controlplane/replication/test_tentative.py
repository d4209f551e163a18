"""Tentative output: what drivers are told of it, and what they say of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.db.models import F
from msgspec import structs
from rest_framework.test import APIClient

from controlplane.events.models import Event
from controlplane.incidents.models import RecoveryPlan
from controlplane.lifecycle.deployment import deploy_plan_create
from controlplane.replication.models import ReplicaPlacement
from controlplane.replication.services import replicas_look
from controlplane.results import asking, corrections
from controlplane.results.corrections import corrections_look
from controlplane.topologies.models import AvailabilitySample, Query, TentativePeriod, Topology
from controlplane.topologies.telemetry import driver_status_apply, topology_stopped
from domain.messages import DriverState, TentativeStatus
from domain.topology.spec import ParquetSinkSpec
from spark_jobs.sinks.parquet_sink import ParquetSink
from tests.unit.controlplane.incidents.conftest import deployed  # noqa: F401
from tests.unit.controlplane.specs import driver_status

POLICY = "/api/v1/topologies/counts/policy/"
WHY = {"reason": "they must not wait"}
HALF = TentativeStatus(since=6, epoch=8, fidelity=0.5)


@pytest.fixture
def tentative(deployed: Topology, operator: APIClient) -> Topology:  # noqa: F811
    assert operator.patch(POLICY, {"tentative_output": "on", **WHY}).status_code == 200
    replicas_look("counts")
    return Topology.objects.get(name="counts")


def row() -> ReplicaPlacement:
    return ReplicaPlacement.objects.get(topology__name="counts")


def say(**more: Any) -> None:
    status = driver_status(Topology.objects.get(name="counts"), "degraded")
    driver_status_apply(status=structs.replace(status, **more))


def test_drivers_are_told_which_queries_may_go_on_and_from_which_fidelity(
    tentative: Topology, operator: APIClient
) -> None:
    first = row()
    queries = set(first.tentative)
    assert queries == {label.partition("[")[0] for label in labels()}
    assert set(first.tentative.values()) == {0.0}
    assert (first.assignment, first.deployed) == ({}, tentative.generation), "no replica is needed for it"
    name = sorted(queries)[0]
    body = {"tentative_fidelity": 0.25, "tentative_except": [name], **WHY}
    assert operator.patch(POLICY, body, format="json").status_code == 200
    replicas_look("counts")
    assert row().tentative == dict.fromkeys(queries - {name}, 0.25)
    assert row().revision == first.revision + 1
    replicas_look("counts")
    assert row().revision == first.revision + 1, "nothing is news"


@pytest.mark.parametrize("change", [{"desired": "stopped"}, {"tentative_output": "off"}])
def test_none_goes_on_where_it_is_not_to(tentative: Topology, change: dict[str, str]) -> None:
    Topology.objects.update(**change)
    replicas_look("counts")
    assert row().tentative == {}


def labels() -> list[str]:
    return [query.partition.label for query in Query.objects.select_related("partition")]


def health(client: APIClient, label: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/api/v1/topologies/counts/queries/{label}/").json()["health"]
    return found


def test_a_query_that_goes_on_is_tentative_until_it_is_available_again(
    tentative: Topology, viewer: APIClient
) -> None:
    one, *others = labels()
    say(tentative={one: HALF})
    shown = health(viewer, one)
    assert (shown["state"], shown["word"], shown["tone"]) == ("tentative", "Tentative", "warn")
    assert "50 % of its input" in shown["note"]
    assert [health(viewer, other)["state"] for other in others] == ["recovering"] * len(others)
    assert "1 of them tentative" in viewer.get("/api/v1/topologies/counts/").json()["health"]["note"]
    assert AvailabilitySample.objects.latest("at").tentative == 1
    told = Event.objects.latest("sequence").changes
    fields = {change["key"]: change["fields"] for change in told if change["entity"] == "query"}
    assert fields[f"counts/{one}"]["fidelity"] == 0.5
    say(tentative={})
    assert health(viewer, one)["state"] == "recovering"
    assert AvailabilitySample.objects.latest("at").tentative == 0


def test_a_query_whose_partition_is_lost_goes_on_tentatively_all_the_same(
    tentative: Topology, viewer: APIClient
) -> None:
    """What it needs does not run, and yet it gives output."""
    one = labels()[0]
    say(tentative={one: HALF}, absent=["O0[0]"])
    assert health(viewer, one)["state"] == "tentative"


def test_nothing_is_tentative_of_what_has_stopped(tentative: Topology) -> None:
    say(tentative={labels()[0]: HALF})
    Topology.objects.update(desired="stopped", status="stopping")
    topology_stopped(name="counts")
    assert not Query.objects.exclude(fidelity=None).exists()


def periods() -> list[TentativePeriod]:
    return list(TentativePeriod.objects.order_by("pk"))


def test_each_time_in_which_a_query_went_on_is_kept(tentative: Topology) -> None:
    one, other = labels()[:2]
    say(tentative={one: HALF})
    say(tentative={one: structs.replace(HALF, epoch=11, fidelity=0.25), other: HALF})
    assert Event.objects.latest("sequence").kind == "query.tentative"
    assert Event.objects.latest("sequence").reason == f"{other} go on with about 50 % of their input"
    say(tentative={other: HALF})
    first, second = periods()
    assert (first.query, first.first_epoch, first.last_epoch, first.fidelity) == (one, 6, 11, 0.25)
    assert first.ended_at is not None
    assert (second.query, second.ended_at) == (other, None)
    # A driver that was started anew, some epochs later.
    say(tentative={other: TentativeStatus(since=20, epoch=21, fidelity=0.5)})
    assert [period.query for period in periods()] == [one, other, other]
    assert [period.ended_at is None for period in periods()] == [False, False, True]


def rows(*counts: int) -> pa.Table:
    keys = [f"k{number}" for number in range(len(counts))]
    return pa.table({"key": keys, "count": pa.array(counts, pa.int64())})


def test_ended_periods_are_corrected_once_their_final_rows_are_committed(
    tentative: Topology, viewer: APIClient, settings: Any, tmp_path: Path
) -> None:
    settings.RESURGE = dataclasses.replace(settings.RESURGE, outputs=str(tmp_path))
    sink = ParquetSink(tmp_path, "counts", ParquetSinkSpec(), operators=["O1"], force=False)
    sink.prepare(deployed=tentative.generation, life=1)
    task = sink.outputs(deployed=tentative.generation, attempt=0, life=1)
    task.write_tentative("O1", 0, 7, rows(3, 4), 0.5)
    task.write("O1", 0, 7, rows(6, 4, 1))
    assert not task.settle()
    sink.commit(epoch=8)
    sink.close()
    say(tentative={"O1[0]": HALF})
    say(tentative={})
    assert corrections_look() == 0, "epoch 8 is not committed yet"
    say(committed=8)
    assert corrections_look() == 1
    assert corrections_look() == 0
    (shown,) = viewer.get("/api/v1/topologies/counts/tentative/").json()["results"]
    assert (shown["stayed"], shown["changed"], shown["appeared"], shown["vanished"]) == (1, 1, 1, 0)
    assert (shown["query"], shown["problem"]) == ("O1[0]", "")
    told = Event.objects.latest("sequence")
    assert told.kind == "query.corrected"
    assert told.reason.endswith("1 rows stayed, 1 changed, 1 appeared, 0 vanished")


def test_what_cannot_be_compared_is_told_and_not_tried_again(
    tentative: Topology, settings: Any, tmp_path: Path
) -> None:
    settings.RESURGE = dataclasses.replace(settings.RESURGE, outputs=str(tmp_path))
    say(tentative={"O1[0]": HALF})
    say(tentative={}, committed=8)
    assert corrections_look() == 1
    assert periods()[0].problem == "the outputs are not where this host reads them"
    assert "not compared" in Event.objects.latest("sequence").reason
    assert corrections_look() == 0


def test_rows_of_another_deployment_are_not_compared(
    tentative: Topology, settings: Any, tmp_path: Path
) -> None:
    """The epochs of the new one have the same numbers, and its rows have nothing to do with these."""
    settings.RESURGE = dataclasses.replace(settings.RESURGE, outputs=str(tmp_path))
    say(tentative={"O1[0]": HALF})
    say(tentative={})
    later = tentative.generation + 1
    RecoveryPlan.objects.create(topology=tentative, generation=later, kind="deploy")
    sink = ParquetSink(tmp_path, "counts", ParquetSinkSpec(), operators=["O1"], force=False)
    sink.prepare(deployed=later, life=1)
    task = sink.outputs(deployed=later, attempt=0, life=1)
    task.write("O1", 0, 7, rows(6, 4, 1))
    assert not task.settle()
    sink.commit(epoch=8)
    sink.close()
    say(committed=8)
    assert corrections_look() == 1
    (period,) = periods()
    assert (period.problem, period.appeared) == ("the topology was deployed again", 0)


def told_up_to_seven(tentative: Topology, settings: Any, tmp_path: Path) -> ParquetSink:
    """A sink with final rows that has told that epoch 7 counts, and nothing of later ones."""
    settings.RESURGE = dataclasses.replace(settings.RESURGE, outputs=str(tmp_path))
    sink = ParquetSink(tmp_path, "counts", ParquetSinkSpec(), operators=["O1"], force=False)
    sink.prepare(deployed=tentative.generation, life=1)
    task = sink.outputs(deployed=tentative.generation, attempt=0, life=1)
    task.write("O1", 0, 7, rows(6))
    assert not task.settle()
    sink.commit(epoch=7)
    return sink


def test_what_is_not_there_yet_is_looked_for_again(
    tentative: Topology, settings: Any, tmp_path: Path
) -> None:
    """The driver could not write which epochs count: it does so with its next one."""
    sink = told_up_to_seven(tentative, settings, tmp_path)
    say(tentative={"O1[0]": HALF})
    say(tentative={}, committed=8)
    assert corrections_look() == 0
    assert periods()[0].corrected_at is None
    sink.commit(epoch=8)
    sink.close()
    assert corrections_look() == 1
    assert (periods()[0].appeared, periods()[0].problem) == (1, "")


def test_periods_that_have_to_wait_hold_up_no_other(
    tentative: Topology, settings: Any, tmp_path: Path
) -> None:
    told_up_to_seven(tentative, settings, tmp_path).close()
    say(tentative={"O1[0]": HALF})
    say(tentative={}, committed=8)
    (period,) = periods()
    for last in [8] * corrections.AT_ONCE + [7]:
        period.pk, period.last_epoch = None, last
        period.save(force_insert=True)
    assert corrections_look() == 1
    assert [one.last_epoch for one in periods() if one.corrected_at] == [7]


def test_reading_that_was_too_slow_is_tried_again_for_a_while(
    tentative: Topology, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.RESURGE = dataclasses.replace(settings.RESURGE, outputs=str(tmp_path))
    say(tentative={"O1[0]": HALF})
    say(tentative={}, committed=8)
    monkeypatch.setattr(asking, "SECONDS", 0.001)
    assert corrections_look() == 0
    assert periods()[0].corrected_at is None
    TentativePeriod.objects.update(ended_at=F("ended_at") - corrections.TRIED_FOR)
    assert corrections_look() == 1
    assert "reading took longer" in periods()[0].problem


@pytest.mark.parametrize("state", ["stopped", "completed", "failed"])
def test_a_time_ends_with_the_run_that_it_is_of(tentative: Topology, state: DriverState) -> None:
    """The last word of a driver may still name queries that were tentative."""
    say(tentative={labels()[0]: HALF})
    if state == "stopped":
        Topology.objects.update(desired="stopped", status="stopping")
    say(tentative={labels()[0]: HALF}, state=state)
    assert periods()[0].ended_at is not None
    assert not Query.objects.exclude(fidelity=None).exists()


def test_a_time_ends_when_the_topology_is_deployed_anew(tentative: Topology) -> None:
    say(tentative={labels()[0]: HALF})
    deploy_plan_create(topology=Topology.objects.get(name="counts"), reason="")
    assert periods()[0].ended_at is not None
