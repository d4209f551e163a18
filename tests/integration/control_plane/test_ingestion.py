"""Telemetry from a real Redis stream into the database."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
import redis

from controlplane.checkpoints.models import Checkpoint
from controlplane.topologies.models import Problem, Query, Topology
from domain.messages import (
    TELEMETRY_FIELD,
    TELEMETRY_STREAM,
    ProblemReport,
    Telemetry,
    encode,
)
from harness.eventually import eventually
from spark_jobs.driver.telemetry import TelemetryStream
from tests.integration.control_plane.conftest import everything_delete
from tests.integration.control_plane.stack import Stack
from tests.unit.controlplane import specs
from workers.ingestion import GROUP, Ingestion

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


def send(stream: redis.Redis, *messages: Telemetry) -> None:
    for message in messages:
        stream.xadd(TELEMETRY_STREAM, {TELEMETRY_FIELD: encode(message)})


def drain(ingestion: Ingestion, position: str = ">") -> int:
    """Read and apply all entries; returns their number."""
    count = 0
    while entries := ingestion._read(position):
        ingestion._apply(entries)
        count += len(entries)
    return count


@pytest.fixture
def ingestion(stream: redis.Redis) -> Ingestion:
    one = Ingestion()
    one._read("0")  # makes the group
    return one


def test_every_kind_of_message_is_applied_and_acknowledged(
    stream: redis.Redis, ingestion: Ingestion, deployed: Topology
) -> None:
    send(
        stream,
        specs.driver_status(deployed),
        specs.epoch_report(deployed),
        specs.checkpoint_report(deployed),
        ProblemReport(topology="counts", where="Source", what="bad row"),
    )
    assert drain(ingestion) == 4
    assert Checkpoint.objects.count() == 1
    assert Problem.objects.count() == 1
    assert Query.objects.filter(available=True).count() == Query.objects.count()
    assert stream.xpending(TELEMETRY_STREAM, GROUP)["pending"] == 0


def test_messages_in_hand_of_a_killed_worker_are_read_again(
    stream: redis.Redis, ingestion: Ingestion, deployed: Topology
) -> None:
    send(stream, specs.epoch_report(deployed))
    assert ingestion._read(">")  # and then it dies
    successor = Ingestion()
    assert drain(successor, "0") == 1
    assert stream.xpending(TELEMETRY_STREAM, GROUP)["pending"] == 0


def test_messages_that_waited_too_long_do_not_stand_before_those_in_hand(
    stream: redis.Redis, ingestion: Ingestion, deployed: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that the stream kept no more stayed in hand for good, and what came later was not read again."""
    monkeypatch.setattr("workers.ingestion.BATCH", 1)
    send(stream, specs.epoch_report(deployed))
    assert ingestion._read(">")  # the database is away, and more messages come than the stream keeps
    stream.xtrim(TELEMETRY_STREAM, maxlen=0)
    send(stream, ProblemReport(topology="counts", where="O0[0]", what="an object is damaged"))
    assert ingestion._read(">")  # and again
    assert drain(ingestion, "0") == 1
    assert Problem.objects.exists()
    assert stream.xpending(TELEMETRY_STREAM, GROUP)["pending"] == 0


def test_redis_keeps_no_message_that_was_applied(
    stream: redis.Redis, ingestion: Ingestion, deployed: Topology
) -> None:
    """Else 7,000 reports of 250 partitions filled it for good: it took neither reports nor tasks any more."""
    send(stream, specs.epoch_report(deployed), specs.driver_status(deployed))
    stream.xadd(TELEMETRY_STREAM, {TELEMETRY_FIELD: b"{"})
    assert drain(ingestion) == 3
    assert stream.xlen(TELEMETRY_STREAM) == 0


def test_redis_that_lost_everything_gets_a_new_group(
    stream: redis.Redis, ingestion: Ingestion, deployed: Topology
) -> None:
    everything_delete(stream)
    assert ingestion._read(">") == []
    send(stream, specs.epoch_report(deployed))
    assert drain(ingestion) == 1


def test_unreadable_and_foreign_messages_do_not_block(
    stream: redis.Redis, ingestion: Ingestion, deployed: Topology
) -> None:
    stream.xadd(TELEMETRY_STREAM, {TELEMETRY_FIELD: b"{"})
    stream.xadd(TELEMETRY_STREAM, {"other": b"1"})
    report = specs.epoch_report(deployed)
    send(stream, msgspec.structs.replace(report, topology="unknown"), report)
    assert drain(ingestion) == 4
    assert Query.objects.filter(available=True).exists()


def test_a_problem_outlasts_a_redis_that_is_away(
    servers: Stack, stream: redis.Redis, ingestion: Ingestion, deployed: Topology
) -> None:
    """It is told once, so that nothing would tell it again; reports are."""
    telemetry = TelemetryStream(servers.environment["RESURGE_REDIS_URL"])
    servers.kill("redis")
    try:
        for what in ("an object is damaged", "a row is late"):
            telemetry.send(ProblemReport(topology="counts", where="O0[0]", what=what))
            telemetry.send(specs.epoch_report(deployed))
        assert telemetry.dropped == 2
    finally:
        servers.start("redis")

    def told() -> bool:
        telemetry.send(specs.driver_status(deployed))
        return stream.xlen(TELEMETRY_STREAM) > 0

    eventually(told, "redis is back", 20, not_yet=(redis.RedisError,))
    entries: Any = stream.xrange(TELEMETRY_STREAM)
    kinds = [msgspec.json.decode(fields[TELEMETRY_FIELD.encode()])["kind"] for _, fields in entries]
    assert kinds == ["problem", "problem", "driver"]
    assert ingestion._read(">") == [], "it makes the group again"
    assert drain(ingestion) == 3
    assert sorted(Problem.objects.values_list("what", flat=True)) == ["a row is late", "an object is damaged"]
    telemetry.close()


def test_thread_survives_redis_being_away(settings: Any, stream: redis.Redis) -> None:
    settings.RESURGE.redis_url = "redis://127.0.0.1:1/0"
    thread = Ingestion()
    thread.start()
    time.sleep(0.5)
    assert thread.is_alive()
    thread.finish()
    assert not thread.is_alive()
