"""The stored parts of a checkpoint, partition by partition, and how they are read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.checkpoints import services
from controlplane.checkpoints.models import Checkpoint
from controlplane.checkpoints.services import checkpoint_apply, checkpoint_catch_up, checkpoint_restored
from controlplane.events.choices import Channel, OperationKind, OperationState
from controlplane.events.operations import operation_start
from controlplane.lifecycle.topologies import topology_action, topology_deploy
from controlplane.topologies.models import Topology
from controlplane.topologies.services import topology_create
from domain.messages import CheckpointAck, CheckpointReport, LatestCheckpoint, decode_telemetry, encode
from tests.unit.controlplane.following import Follower
from tests.unit.controlplane.specs import BY, checkpoint_report, spec_of

API = "/api/v1/topologies/counts/checkpoints"


@pytest.fixture
def running(topology: Topology) -> Topology:
    topology_deploy(name="counts", actor="ada", reason="test", channel=Channel.CLI)
    return Topology.objects.get()


def ack(partition: str, *, size: int = 100, error: str = "") -> CheckpointAck:
    return CheckpointAck(
        partition=partition, checkpoint=10, generation=1, node="node-1", size_bytes=size, uploaded_bytes=40,
        files=3, taken_at=110.25, waited=0.05, duration=0.25, cpu_seconds=0.125, error=error,
    )  # fmt: skip


def test_every_partition_is_told_once_it_has_ended(running: Topology, viewer: APIClient) -> None:
    follower = Follower()
    checkpoint_apply(report=checkpoint_report(running, "started", acknowledged=0))
    assert viewer.get(f"{API}/10/").json()["acknowledgements"] == []
    acks = [ack("O0[0]"), ack("O1[0]", size=7)]
    report = checkpoint_report(running, acknowledgements=acks)
    sent = decode_telemetry(encode(report))
    assert isinstance(sent, CheckpointReport)
    checkpoint_apply(report=sent)
    detail = viewer.get(f"{API}/10/").json()
    assert (detail["state"], detail["acknowledged"], detail["missing"]) == ("completed", 7, [])
    assert detail["acknowledgements"][1] == {
        "partition": "O1[0]", "node": "node-1", "size_bytes": 7, "uploaded_bytes": 40, "files": 3,
        "alignment": 0.25, "waited": 0.05, "duration": 0.25, "cpu_seconds": 0.125, "error": "",
    }  # fmt: skip
    assert "acknowledgements" not in viewer.get(f"{API}/").json()["results"][0]
    follower.check()


def latest(topology: Topology, checkpoint: int = 10, **changes: Any) -> LatestCheckpoint:
    return LatestCheckpoint(
        checkpoint=checkpoint, completed_at=111.0, size_bytes=7000,
        **{"generation": topology.generation, "kept": [checkpoint], **changes},
    )  # fmt: skip


def rows() -> list[tuple[int, str, bool]]:
    return list(Checkpoint.objects.order_by("epoch").values_list("epoch", "state", "stored"))


@pytest.mark.parametrize("started", [True, False])
def test_one_whose_report_was_lost_is_known_by_zookeeper(
    running: Topology, viewer: APIClient, *, started: bool
) -> None:
    follower = Follower()
    checkpoint_apply(report=checkpoint_report(running, checkpoint=5))
    if started:
        checkpoint_apply(report=checkpoint_report(running, "started", acknowledged=0))
    checkpoint_catch_up(topology="counts", newest=latest(running), since=running.generation)
    assert rows() == [(5, "completed", False), (10, "completed", True)]
    detail = viewer.get(f"{API}/10/").json()
    assert (detail["acknowledged"], detail["total"], detail["size_bytes"]) == (7, 7, 7000)
    assert Checkpoint.objects.get(epoch=10).started_at.timestamp() == (110.0 if started else 111.0)
    running.refresh_from_db()
    assert running.checkpoint_epoch == 10
    follower.check()


def test_its_report_that_comes_late_brings_the_details(running: Topology, viewer: APIClient) -> None:
    follower = Follower()
    checkpoint_catch_up(topology="counts", newest=latest(running), since=running.generation)
    checkpoint_apply(report=checkpoint_report(running, acknowledgements=[ack("O0[0]")], kept=[10]))
    detail = viewer.get(f"{API}/10/").json()
    assert [one["partition"] for one in detail["acknowledgements"]] == ["O0[0]"]
    assert Checkpoint.objects.get().started_at.timestamp() == 110.0
    follower.check()


def test_those_that_were_taken_since_the_topology_went_back_stay(running: Topology) -> None:
    """That the plan was applied may be read after their reports."""
    checkpoint_apply(report=checkpoint_report(running, checkpoint=20, kept=[20]))
    Topology.objects.update(generation=2)
    checkpoint_apply(report=checkpoint_report(running, checkpoint=30, generation=2, kept=[20, 30]))
    checkpoint_restored(topology=running, epoch=20, at=timezone.now(), undone_by=2)
    assert rows() == [(20, "completed", True), (30, "completed", True)]


@pytest.mark.parametrize("state", ["completed", "failed", "undone"])
def test_what_is_known_of_it_is_not_changed(running: Topology, state: str) -> None:
    checkpoint_apply(report=checkpoint_report(running))
    Checkpoint.objects.update(state=state, stored=False)
    checkpoint_catch_up(topology="counts", newest=latest(running), since=running.generation)
    assert rows() == [(10, state, False)]


def test_a_newer_one_stays_the_newest(running: Topology) -> None:
    checkpoint_apply(report=checkpoint_report(running, checkpoint=20, kept=[10, 20]))
    checkpoint_catch_up(topology="counts", newest=latest(running), since=running.generation)
    assert rows() == [(20, "completed", True)]


@pytest.mark.parametrize("state", ["completed", "undone", "started", "failed"])
def test_those_behind_it_that_say_nothing_of_it_do_not_hide_it(running: Topology, state: str) -> None:
    """What is undone, or soon will be, is of an earlier plan; others began when the report had been lost."""
    checkpoint_apply(report=checkpoint_report(running, "started", checkpoint=20))
    generation = running.generation + (state in ("completed", "undone"))
    Checkpoint.objects.update(state=state)
    Topology.objects.update(generation=generation)
    checkpoint_catch_up(topology="counts", newest=latest(running, generation=generation), since=1)
    assert rows() == [(10, "completed", True), (20, state, False)]


def test_one_whose_driver_died_has_ended_when_the_next_is_complete(running: Topology) -> None:
    follower = Follower()
    for epoch in (10, 15, 30):
        checkpoint_apply(report=checkpoint_report(running, "started", checkpoint=epoch, acknowledged=3))
    checkpoint_apply(report=checkpoint_report(running, checkpoint=20, kept=[15, 20]))
    assert rows() == [
        (10, "failed", False), (15, "completed", True), (20, "completed", True), (30, "started", False),
    ]  # fmt: skip
    assert list(Checkpoint.objects.values_list("cause", flat=True)[2:]) == ["", services.UNTOLD]
    follower.check()
    Topology.objects.update(generation=2)  # as one that goes back
    checkpoint_apply(report=checkpoint_report(running, checkpoint=25, generation=2, kept=[15, 20, 25]))
    assert rows()[-1] == (30, "failed", False)


def test_one_of_an_earlier_run_or_plan_is_not_taken(running: Topology) -> None:
    none = latest(running, checkpoint=0, kept=[])
    checkpoint_catch_up(topology="counts", newest=none, since=running.generation)
    checkpoint_catch_up(topology="counts", newest=latest(running), since=running.generation + 1)
    Topology.objects.update(applied_generation=running.generation + 1)
    checkpoint_catch_up(topology="counts", newest=latest(running), since=running.generation)
    checkpoint_catch_up(topology="unknown", newest=latest(running), since=0)
    assert rows() == []


def test_one_of_a_version_that_measured_less_is_read(running: Topology, viewer: APIClient) -> None:
    early = msgspec.structs.replace(ack("O1[0]"), taken_at=0.0)
    late = msgspec.structs.replace(ack("O2[0]"), taken_at=109.0)
    checkpoint_apply(report=checkpoint_report(running, acknowledgements=[ack("O0[0]"), early, late]))
    checkpoint = Checkpoint.objects.get()
    for name in ("cpu_seconds", "alignment", "waited"):
        del checkpoint.acknowledgements[0][name]
    checkpoint.save()
    first, second, third = viewer.get(f"{API}/10/").json()["acknowledgements"]
    assert (first["cpu_seconds"], first["alignment"], first["waited"]) == (0, None, 0)
    assert second["alignment"] is None
    assert third["alignment"] == 0, "the clock of its node is behind"


def test_those_of_another_topology_are_left_alone(running: Topology, viewer: APIClient) -> None:
    """Their epochs have the same numbers."""
    other = topology_create(spec=spec_of("other"), **BY)
    for epoch, state in ((10, "completed"), (15, "started"), (30, "completed")):
        Checkpoint.objects.create(
            topology=other, epoch=epoch, generation=1, state=state, stored=state == "completed",
            started_at=timezone.now(), cause="of the other",
        )  # fmt: skip
    before = list(Checkpoint.objects.filter(topology=other).order_by("epoch").values())
    checkpoint_apply(report=checkpoint_report(running, "started"))
    checkpoint_apply(report=checkpoint_report(running, checkpoint=20, kept=[20]))
    checkpoint_catch_up(topology="counts", newest=latest(running, 25), since=running.generation)
    checkpoint_restored(topology=running, epoch=10, at=timezone.now(), undone_by=running.generation + 1)
    assert list(Checkpoint.objects.filter(topology=other).order_by("epoch").values()) == before
    mine = viewer.get(f"{API}/").json()["results"]
    assert [(one["epoch"], one["state"]) for one in mine] == [(25, "undone"), (20, "undone"), (10, "failed")]
    assert [viewer.get(f"{API}/{epoch}/").json()["epoch"] for epoch in (10, 20, 25)] == [10, 20, 25]
    assert viewer.get("/api/v1/topologies/other/checkpoints/30/").json()["cause"] == "of the other"


def test_one_that_was_asked_for_is_none_from_before_the_driver_knew(running: Topology) -> None:
    """A request has no number before the driver knows of it, nor has a checkpoint that nothing asked for."""
    Topology.objects.update(status="running")
    operation = topology_action(kind=OperationKind.TOPOLOGY_CHECKPOINT, name="counts", **BY)
    checkpoint_apply(report=checkpoint_report(running))
    operation_start(operation=operation, result={"request": 2})
    checkpoint_apply(report=checkpoint_report(running, checkpoint=20, request=1))
    operation.refresh_from_db()
    assert operation.state == OperationState.RUNNING
    checkpoint_apply(report=checkpoint_report(running, checkpoint=30, request=2))
    operation.refresh_from_db()
    assert (operation.state, operation.result["checkpoint"]) == (OperationState.SUCCEEDED, 30)


def test_a_failed_one_names_the_missing_partitions(running: Topology, viewer: APIClient) -> None:
    acks = [ack("O0[0]"), ack("O0[1]", error="No space left on device")]
    report = checkpoint_report(running, "failed", cause="O0[1] on node-1: ...", acknowledgements=acks)
    checkpoint_apply(report=report)
    detail = viewer.get(f"{API}/10/").json()
    assert [one["error"] for one in detail["acknowledgements"]] == ["", "No space left on device"]
    partitions = viewer.get("/api/v1/topologies/counts/partitions/").json()["results"]
    assert detail["missing"] == [
        row["partition"] for row in partitions if row["partition"] not in ("O0[0]", "O0[1]")
    ]
    assert detail["missing"]


def test_only_the_newest_keep_their_details(running: Topology, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "DETAILED", 3)
    for epoch in range(1, 8):
        checkpoint_apply(report=checkpoint_report(running, checkpoint=epoch, acknowledgements=[ack("O0[0]")]))
    detailed = Checkpoint.objects.exclude(acknowledgements=[]).order_by("epoch")
    assert list(detailed.values_list("epoch", flat=True)) == [5, 6, 7]
    assert Checkpoint.objects.count() == 7


@pytest.mark.parametrize("epoch", ["11", "9223372036854775808", "99999999999999999999999"])
def test_one_that_is_not_there(running: Topology, viewer: APIClient, epoch: str) -> None:
    answer = viewer.get(f"{API}/{epoch}/")
    assert answer.status_code == 404
    assert f"no checkpoint {epoch}" in answer.json()["errors"][0]["message"]


def test_details_take_a_constant_number_of_queries(
    running: Topology, viewer: APIClient, django_assert_num_queries: Any
) -> None:
    viewer.get(f"{API}/")  # the role is read once
    few, many = [ack("O0[0]")], [ack(f"O{i}[0]") for i in range(500)]
    for epoch, acks in ((1, few), (2, many)):
        checkpoint_apply(report=checkpoint_report(running, "failed", checkpoint=epoch, acknowledgements=acks))
        with django_assert_num_queries(3):  # the topology, the checkpoint, the partitions
            viewer.get(f"{API}/{epoch}/")
