from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from msgspec import structs

from controlplane.checkpoints.models import Checkpoint
from controlplane.checkpoints.services import checkpoint_apply, checkpoint_restored
from controlplane.events import pace
from controlplane.events.choices import EventKind, OperationKind, OperationState
from controlplane.events.models import Event
from controlplane.events.operations import operation_start
from controlplane.events.services import event_publish
from controlplane.lifecycle.topologies import topology_action, topology_deploy, topology_undeploy
from controlplane.nodes.choices import NodeState
from controlplane.nodes.models import Node
from controlplane.topologies import telemetry
from controlplane.topologies.choices import TopologyStatus
from controlplane.topologies.models import AvailabilitySample, Partition, Problem, Query, Topology
from controlplane.topologies.problems import problem_record
from controlplane.topologies.reports import UnknownPlanError
from controlplane.topologies.services import topology_create
from controlplane.topologies.telemetry import driver_status_apply, topology_metrics_apply, topology_stopped
from domain.availability import QueryHealth
from domain.capacity import Pace
from domain.messages import ProblemReport
from tests.unit.controlplane.following import Follower
from tests.unit.controlplane.specs import BY, checkpoint_report, driver_status, epoch_report, spec_of


def healthy(topology: Topology, **changes: Any) -> dict[str, QueryHealth]:
    verdict = QueryHealth(latency=0.8, baseline=0.75, relative=1.07, available=True)
    queries = topology.queries.select_related("partition").all()
    return {query.partition.label: replace(verdict, **changes) for query in queries}


@pytest.fixture
def running(topology: Topology) -> Topology:
    topology_deploy(name="counts", **BY)
    topology.refresh_from_db()
    driver_status_apply(status=driver_status(topology))
    topology.refresh_from_db()
    return topology


def let_a_second_pass(topology: Topology) -> None:
    row = Topology.objects.get(pk=topology.pk)
    assert row.metrics_at is not None
    Topology.objects.filter(pk=topology.pk).update(metrics_at=row.metrics_at - timedelta(seconds=1))


@contextmanager
def within_a_second() -> Iterator[None]:
    """However long the block takes, the second after the last metrics does not pass in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(telemetry, "METRICS_EVERY", timedelta(hours=1))
        yield


def statuses(topology: Topology) -> dict[str, str]:
    return {row.partition.label: row.status for row in topology.queries.select_related("partition")}


def states(topology: Topology) -> dict[str, str]:
    return {row.label: row.state for row in topology.partitions.all()}


def test_metrics_reach_rows_sample_and_one_event(running: Topology) -> None:
    follower = Follower()
    before = Event.objects.count()
    topology_metrics_apply(report=epoch_report(running), health=healthy(running))
    assert Event.objects.count() == before + 1
    assert Event.objects.order_by("-sequence")[0].kind == "topology.metrics"
    parser = Partition.objects.get(operator="Parser", index=0)
    # The job took half a second of its one-second epoch: rates are per second of real time. What the operator
    # measures of itself, 0.05, is not all that the node takes for it.
    assert (parser.rows_in_rate, parser.rows_out_rate, parser.cpu) == (500.0, 250.0, 0.06)
    query = Query.objects.select_related("partition").get(partition__operator="O1")
    assert (query.latency, query.baseline_latency, query.relative_latency) == (0.8, 0.75, 1.07)
    assert (query.status, query.available, query.epoch) == ("available", True, 5)
    sample = AvailabilitySample.objects.get()
    assert (sample.available, sample.total, sample.weighted) == (3, 3, 1.0)
    follower.check()


def test_a_cost_stays_while_the_driver_has_not_learnt_it_anew(running: Topology) -> None:
    topology_metrics_apply(report=epoch_report(running), health=healthy(running))
    report = epoch_report(running)
    unknown = {name: structs.replace(metrics, cost=None) for name, metrics in report.partitions.items()}
    topology_metrics_apply(report=structs.replace(report, partitions=unknown), health=healthy(running))
    assert Partition.objects.get(operator="Parser", index=0).cpu == 0.06


def test_at_most_one_metrics_event_a_second(running: Topology) -> None:
    health = healthy(running)
    topology_metrics_apply(report=epoch_report(running, epoch=5), health=health)
    with within_a_second():
        for epoch in (6, 7):
            topology_metrics_apply(report=epoch_report(running, epoch=epoch), health=health)
    assert Event.objects.filter(kind="topology.metrics").count() == 1
    assert Topology.objects.get().committed_epoch == 7, "rows are current all the same"
    let_a_second_pass(running)
    follower = Follower()
    topology_metrics_apply(report=epoch_report(running, epoch=8), health=health)
    assert Event.objects.filter(kind="topology.metrics").count() == 2
    follower.check()


def test_metrics_go_on_where_the_clock_was_put_back(running: Topology) -> None:
    Topology.objects.update(metrics_at=timezone.now() + timedelta(hours=1))
    topology_metrics_apply(report=epoch_report(running), health=healthy(running))
    assert Event.objects.filter(kind="topology.metrics").count() == 1
    at = Topology.objects.get().metrics_at
    assert at is not None
    assert at <= timezone.now()


def test_a_change_of_state_does_not_wait_for_the_second(running: Topology) -> None:
    topology_metrics_apply(report=epoch_report(running), health=healthy(running))
    follower = Follower()
    with within_a_second():
        topology_metrics_apply(
            report=epoch_report(running, epoch=6, state="degraded", absent=("Parser[1]",)),
            health=healthy(running, available=False),
        )
    assert Event.objects.order_by("-sequence")[0].kind == "topology.updated"
    assert set(statuses(running).values()) == {"failed"}, "every query needs both parsers"
    assert states(running) == {
        "Source[0]": "running",
        "Source[1]": "running",
        "Parser[0]": "running",
        "Parser[1]": "failed",
        "O0[0]": "stalled",
        "O0[1]": "stalled",
        "O1[0]": "stalled",
    }
    follower.check()


def test_numbers_of_many_partitions_are_told_in_rounds(
    running: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "ROWS_A_SECOND", 2)  # seven partitions: a round takes three and a half seconds
    start, told = timezone.now(), []
    for second in range(15):
        monkeypatch.setattr(timezone, "now", lambda at=start + timedelta(seconds=second): at)
        report = epoch_report(running, epoch=6 + second)
        topology_metrics_apply(report=report, health=healthy(running))
        changes = Event.objects.order_by("-sequence")[0].changes
        told.append(sum(change["entity"] == "partition" for change in changes))
        assert sum(change["entity"] == "query" for change in changes) == 3, "queries never wait"
    assert told[0] == 7
    assert set(told) == {0, 7}
    assert 4 <= told.count(7) <= 6
    follower = Follower()
    report = epoch_report(running, epoch=30, state="degraded", absent=("Parser[1]",))
    topology_metrics_apply(report=report, health=healthy(running, available=False))
    changes = Event.objects.order_by("-sequence")[0].changes
    moved = {one["key"]: one["fields"]["state"] for one in changes if one["entity"] == "partition"}
    assert moved["counts/Parser[1]"] == "failed", "what changes its state is told at once"
    follower.follow()
    assert follower.entities["partition"]["counts/Parser[1]"]["state"] == "failed"


def test_the_same_message_twice_changes_nothing(running: Topology) -> None:
    report, health = epoch_report(running), healthy(running)
    topology_metrics_apply(report=report, health=health)
    follower = Follower()
    topology_metrics_apply(report=report, health=health)
    driver_status_apply(status=driver_status(running))
    driver_status_apply(status=driver_status(running))
    follower.check()


def test_earlier_generations_and_unknown_names_are_ignored(running: Topology) -> None:
    before = Event.objects.count()
    running.applied_generation = 3
    running.save()
    topology_metrics_apply(report=epoch_report(running, generation=2), health={})
    driver_status_apply(status=driver_status(running, "failed", generation=2))
    checkpoint_apply(report=checkpoint_report(running, generation=2))
    other = Topology(name="elsewhere", spec=running.spec)
    driver_status_apply(status=driver_status(other, generation=9))
    problem_record(report=ProblemReport(topology="elsewhere", where="x", what="y"))
    assert Event.objects.count() == before


@pytest.mark.parametrize(("life", "at"), [(2, 101.0), (1, 103.0), (0, 103.0)])
def test_what_a_driver_said_before_does_not_count_when_it_comes_late(
    running: Topology, life: int, at: float
) -> None:
    """The sweep has read the znode, and telemetry brings what came after it before the sweep goes on."""
    last = structs.replace(driver_status(running, "completed"), life=2, at=104.0)
    driver_status_apply(status=last)
    driver_status_apply(status=structs.replace(driver_status(running, "running"), life=life, at=at))
    assert Topology.objects.get().status == "completed"
    driver_status_apply(status=last)
    assert Topology.objects.get().status == "completed"


@pytest.mark.parametrize(("life", "at"), [(3, 50.0), (1, 105.0), (0, 105.0)])
def test_a_driver_that_begins_later_is_heard(running: Topology, life: int, at: float) -> None:
    """Also after the clock was put back, or with an epoch log from a backup."""
    driver_status_apply(status=structs.replace(driver_status(running, "degraded"), life=2, at=104.0))
    driver_status_apply(status=structs.replace(driver_status(running, "running"), life=life, at=at))
    assert Topology.objects.get().status == "running"


def test_what_the_sweep_has_read_lowers_no_number_of_an_epoch(running: Topology) -> None:
    """The driver says it every two seconds, and reports of epochs come between."""

    def known() -> tuple[int, int]:
        row = Topology.objects.get()
        return row.head_epoch, row.committed_epoch

    def said(epoch: int, life: int) -> None:
        status = driver_status(running, committed=epoch)
        driver_status_apply(status=structs.replace(status, head=epoch, life=life, at=1000.0 + epoch))

    said(8, 2)
    topology_metrics_apply(report=epoch_report(running, epoch=10), health=healthy(running))
    said(9, 2)
    assert known() == (11, 10)
    said(13, 2)
    assert known() == (13, 13)
    said(12, 3)  # its host went down, and what was not forced to disk is lost
    assert known() == (12, 12)


def test_a_driver_that_fails_at_its_start_does_not_know_what_is_committed(running: Topology) -> None:
    failed = structs.replace(driver_status(running, "failed", error="no module"), head=0, committed=0)
    driver_status_apply(status=failed)
    topology = Topology.objects.get()
    assert (topology.status, topology.head_epoch, topology.committed_epoch) == ("failed", 6, 5)


def test_a_lost_node_keeps_its_partitions_failed(running: Topology) -> None:
    node = Partition.objects.get(operator="O1").node
    Node.objects.filter(pk=node.pk).update(state=NodeState.LOST)
    topology_metrics_apply(report=epoch_report(running), health=healthy(running))
    assert statuses(running)["O1[0]"] == "failed"
    assert not Query.objects.get(partition__operator="O1").available


def test_a_recovery_in_driver_states(running: Topology) -> None:
    topology_metrics_apply(report=epoch_report(running), health=healthy(running))
    follower = Follower()
    driver_status_apply(status=driver_status(running, "degraded", absent=("O1[0]",)))
    assert statuses(running) == {"O0[0]": "available", "O0[1]": "available", "O1[0]": "failed"}
    running.refresh_from_db()
    assert running.status == TopologyStatus.DEGRADED
    Topology.objects.update(generation=2)
    driver_status_apply(status=driver_status(running, "restoring", generation=2))
    running.refresh_from_db()
    assert (running.status, running.applied_generation) == (TopologyStatus.RECOVERING, 2)
    assert set(states(running).values()) == {"restoring"}
    assert set(statuses(running).values()) == {"recovering"}
    driver_status_apply(status=driver_status(running, "replaying", generation=2))
    assert set(states(running).values()) == {"replaying"}
    driver_status_apply(status=driver_status(running, "running", generation=2))
    report = epoch_report(running, epoch=9, generation=2)
    topology_metrics_apply(report=report, health=healthy(running, relative=1.5, available=False))
    assert set(statuses(running).values()) == {"recovering"}
    let_a_second_pass(running)
    topology_metrics_apply(report=report, health=healthy(running))
    assert set(statuses(running).values()) == {"available"}
    follower.check()


@pytest.mark.parametrize("state", ["paused", "completed", "failed"])
def test_an_epoch_from_before_its_driver_halted_changes_nothing_when_it_comes_late(
    running: Topology, state: Any
) -> None:
    """The sweep has read the znode before telemetry brings the last epoch."""
    driver_status_apply(status=structs.replace(driver_status(running, state), at=104.0))
    before = Event.objects.count()
    late = structs.replace(epoch_report(running, epoch=6), started_at=102.0, ended_at=103.0)
    topology_metrics_apply(report=late, health=healthy(running))
    assert (Topology.objects.get().status, Event.objects.count()) == (state, before)
    resumed = structs.replace(late, started_at=104.5, ended_at=105.0)
    topology_metrics_apply(report=resumed, health=healthy(running))
    assert Topology.objects.get().status == "running"


def test_completion_and_failure_have_their_own_events(running: Topology) -> None:
    driver_status_apply(status=driver_status(running, "failed", error="the sink is full"))
    event = Event.objects.get(kind="topology.failed")
    assert event.reason == "the sink is full"
    assert Topology.objects.get().error == "the sink is full"
    driver_status_apply(status=driver_status(running, "completed"))
    assert Event.objects.filter(kind="topology.completed").count() == 1
    assert Topology.objects.get().status == TopologyStatus.COMPLETED


def test_a_stop_leaves_nothing_available_or_running(running: Topology) -> None:
    topology_metrics_apply(report=epoch_report(running), health=healthy(running))
    topology_undeploy(name="counts", **BY)
    follower = Follower()
    topology_stopped(name="counts")
    assert Topology.objects.get().status == TopologyStatus.STOPPED
    assert set(states(running).values()) == {"starting"}
    assert set(statuses(running).values()) == {"starting"}
    assert not Query.objects.filter(available=True).exists()
    follower.check()


def test_a_stopped_topology_has_no_figures_of_its_run(running: Topology) -> None:
    topology_metrics_apply(report=epoch_report(running), health=healthy(running))
    driver_status_apply(status=driver_status(running, "failed", error="the sink is full"))
    topology_undeploy(name="counts", **BY)
    follower = Follower()
    topology_stopped(name="counts")
    stopped = Topology.objects.get()
    assert (stopped.status, stopped.input_rate, stopped.load, stopped.error) == ("stopped", 0.0, None, "")
    assert not Partition.objects.filter(node__isnull=False).exists()
    assert set(Partition.objects.values_list("rows_in_rate", "rows_out_rate")) == {(0.0, 0.0)}
    latencies = Query.objects.values_list("latency", "baseline_latency", "relative_latency")
    assert set(latencies) == {(None, None, None)}
    follower.check()


def test_a_completed_run_is_on_no_node_and_stopping_it_takes_its_figures_back(running: Topology) -> None:
    topology_metrics_apply(report=epoch_report(running), health=healthy(running))
    follower = Follower()
    driver_status_apply(status=driver_status(running, "completed"))
    assert Topology.objects.get().input_rate == 0.0
    assert not Partition.objects.filter(node__isnull=False).exists()
    topology_undeploy(name="counts", **BY)
    assert set(Query.objects.values_list("latency", "available")) == {(None, False)}
    follower.check()


def test_a_paused_topology_reads_nothing(running: Topology) -> None:
    topology_metrics_apply(report=epoch_report(running), health=healthy(running))
    driver_status_apply(status=driver_status(running, "paused"))
    assert Topology.objects.get().input_rate == 0.0
    assert set(Partition.objects.values_list("rows_in_rate", flat=True)) == {0.0}
    assert Partition.objects.filter(node__isnull=False).exists()
    driver_status_apply(status=driver_status(running))
    topology_metrics_apply(report=epoch_report(running, epoch=6), health=healthy(running))
    assert Topology.objects.get().input_rate == 1000.0


def test_uneven_epochs_and_replays_do_not_make_the_rate_flicker(running: Topology) -> None:
    topology_metrics_apply(report=epoch_report(running), health=healthy(running))
    shown = []
    for epoch in range(6, 16):
        report = structs.replace(epoch_report(running, epoch=epoch), input_rate=0.0 if epoch % 2 else 2000.0)
        topology_metrics_apply(report=report, health=healthy(running))
        replayed = structs.replace(report, first=epoch + 1, last=epoch, input_rate=0.0)
        topology_metrics_apply(report=replayed, health=healthy(running))
        shown.append(Topology.objects.get().input_rate)
    assert min(shown) > 800
    assert max(shown) < 1200


def test_the_usual_load_is_that_of_times_in_which_all_is_well(running: Topology) -> None:
    def loaded(
        load: float | None, epoch: int, state: Any = "running", *, overloaded: bool = False
    ) -> float | None:
        report = structs.replace(epoch_report(running, epoch=epoch), state=state)
        pace = Pace(load, 0.0, 1.0 if overloaded else None, falls=overloaded)
        topology_metrics_apply(report=report, health=healthy(running), pace=pace)
        assert Topology.objects.get().load_falls is overloaded
        return Topology.objects.get().usual_load

    assert loaded(None, 5) is None
    assert loaded(0.5, 6) == 0.5
    later = loaded(0.8, 7)
    assert later is not None
    assert 0.5 < later < 0.6, "the mean of a minute"
    assert loaded(2.0, 8, overloaded=True) == later
    assert loaded(1.0, 8) == later, "little waits yet, but there is no time left"
    assert loaded(2.0, 9, "degraded") == later


@pytest.mark.parametrize("state", ["paused", "completed"])
def test_results_stay_available_through_a_pause_and_after_the_end(running: Topology, state: Any) -> None:
    topology_metrics_apply(report=epoch_report(running), health=healthy(running))
    driver_status_apply(status=driver_status(running, state))
    assert set(statuses(running).values()) == {"available"}


@pytest.mark.django_db(transaction=True)
def test_a_snapshot_outside_a_transaction_is_one_read() -> None:
    with CaptureQueriesContext(connection) as queries:
        Follower()
    statements = [query["sql"] for query in queries.captured_queries]
    if connection.vendor == "sqlite":
        assert (statements[0], statements[-1]) == ("BEGIN DEFERRED", "ROLLBACK")
    assert not connection.in_atomic_block


def test_a_driver_that_stops_unasked_is_about_to_come_back(running: Topology) -> None:
    driver_status_apply(status=driver_status(running, "stopped"))
    assert Topology.objects.get().status == TopologyStatus.RECOVERING


def test_the_number_of_queries_does_not_grow_with_the_topology(nodes: list[Node]) -> None:
    counts = []
    for name, parallelism in (("small", 1), ("large", 150)):
        Node.objects.update(capacity=100_000)
        topology_create(spec=spec_of(name, parallelism=parallelism), **BY)
        topology_deploy(name=name, **BY)
        topology = Topology.objects.get(name=name)
        report, health = epoch_report(topology), healthy(topology)
        with CaptureQueriesContext(connection) as applying:
            topology_metrics_apply(report=report, health=health)
        with CaptureQueriesContext(connection) as degrading:
            absent = ("Parser[0]",)
            driver_status_apply(status=driver_status(topology, "degraded", absent=absent))
        counts.append((len(applying), len(degrading)))
    assert counts[0] == counts[1]
    assert max(counts[0]) <= 22


def test_problems_are_counted(running: Topology) -> None:
    follower = Follower()
    report = ProblemReport(
        topology="counts", where="Source[0]", what="3 rows without text", hint="see rejected.jsonl", count=3
    )
    problem_record(report=report)
    problem_record(report=report)
    problem = Problem.objects.get()
    assert (problem.count, problem.severity) == (6, "error")
    follower.check()


def test_checkpoints_from_start_to_end(running: Topology) -> None:
    follower = Follower()
    checkpoint_apply(report=checkpoint_report(running, "started", acknowledged=0))
    checkpoint_apply(report=checkpoint_report(running, "acknowledged", acknowledged=3))
    checkpoint_apply(report=checkpoint_report(running, "acknowledged", acknowledged=2))
    assert Checkpoint.objects.get().acknowledged == 3, "a late acknowledgement takes nothing back"
    checkpoint_apply(report=checkpoint_report(running))
    checkpoint_apply(report=checkpoint_report(running, "started", acknowledged=0))
    checkpoint = Checkpoint.objects.get()
    assert (checkpoint.state, checkpoint.acknowledged, checkpoint.total) == ("completed", 7, 7)
    assert Topology.objects.get().checkpoint_epoch == 10
    follower.check()


def test_a_failed_checkpoint_says_why_and_may_be_made_again(running: Topology) -> None:
    checkpoint_apply(report=checkpoint_report(running, "failed", cause="no space left on device"))
    assert Checkpoint.objects.get().cause == "no space left on device"
    assert Event.objects.get(kind="checkpoint.failed").reason == "no space left on device"
    Topology.objects.update(generation=2)
    checkpoint_apply(report=checkpoint_report(running, "started", generation=2, acknowledged=0))
    checkpoint = Checkpoint.objects.get()
    assert (checkpoint.state, checkpoint.generation, checkpoint.cause) == ("started", 2, "")


def test_going_back_to_a_checkpoint_undoes_what_came_after_it(running: Topology) -> None:
    for number, kept in ((10, [10]), (20, [10, 20]), (30, [10, 20, 30]), (40, [20, 30, 40])):
        checkpoint_apply(report=checkpoint_report(running, checkpoint=number, kept=kept))
    assert list(Checkpoint.objects.order_by("epoch").values_list("epoch", flat=True).filter(stored=True)) == [
        20, 30, 40,
    ]  # fmt: skip
    follower = Follower()
    with transaction.atomic():
        changes = checkpoint_restored(topology=running, epoch=20, at=timezone.now(), undone_by=2)
        event_publish(kind=EventKind.PLAN_APPLIED, topology=running.name, changes=changes)
    follower.check()
    states = Checkpoint.objects.order_by("epoch").values_list("epoch", "state", "stored")
    assert list(states) == [
        (10, "completed", False),
        (20, "completed", True),
        (30, "undone", False),
        (40, "undone", False),
    ]


@pytest.mark.parametrize(("state", "ended"), [("completed", "succeeded"), ("failed", "failed")])
def test_a_requested_checkpoint_ends_its_operation(running: Topology, state: str, ended: str) -> None:
    operation = topology_action(kind=OperationKind.TOPOLOGY_CHECKPOINT, name="counts", **BY)
    operation_start(operation=operation, result={"request": 4})
    checkpoint_apply(report=checkpoint_report(running, checkpoint=9, request=3))
    operation.refresh_from_db()
    assert operation.state == OperationState.RUNNING, "that was an earlier request's"
    checkpoint_apply(report=checkpoint_report(running, state, request=4, cause="disk full"))
    operation.refresh_from_db()
    assert operation.state == ended
    assert Checkpoint.objects.get(epoch=10).requested_by == "ada"


def test_a_report_of_a_plan_that_was_never_made_silences_no_later_one(running: Topology) -> None:
    never = "it is of plan 1000000, and 1 is the newest of counts"
    with pytest.raises(UnknownPlanError, match=never):
        driver_status_apply(status=driver_status(running, generation=10**6))
    with pytest.raises(UnknownPlanError, match=never):
        topology_metrics_apply(report=epoch_report(running, generation=10**6), health={})
    with pytest.raises(UnknownPlanError, match=never):
        checkpoint_apply(report=checkpoint_report(running, generation=10**6))
    topology_metrics_apply(report=epoch_report(running, epoch=7), health=healthy(running))
    running.refresh_from_db()
    assert (running.applied_generation, running.committed_epoch) == (1, 7)


def test_a_problem_is_counted_as_far_as_the_database_can_and_cut(running: Topology) -> None:
    report = ProblemReport(topology="counts", where="x" * 999, what="y" * 99_999, count=2**31 - 1)
    for _ in range(2):
        problem_record(report=report)
    problem = Problem.objects.get()
    assert (problem.count, len(problem.where), len(problem.what)) == (2**31 - 1, 255, 10_000)
