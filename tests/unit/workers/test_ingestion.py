"""What ingestion keeps of topologies from report to report."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from controlplane.events.choices import Channel
from controlplane.lifecycle.topologies import topology_deploy
from controlplane.topologies.models import Topology
from domain.availability import QueryHealth
from domain.messages import TELEMETRY_FIELD, TELEMETRY_STREAM, EpochReport, Telemetry, encode
from tests.unit.controlplane.incidents.conftest import deployed  # noqa: F401
from tests.unit.controlplane.specs import epoch_report
from workers import ingestion
from workers.availabilities import Availabilities
from workers.ingestion import Ingestion


def test_a_deployment_is_not_measured_by_the_latencies_of_the_one_before(
    deployed: Topology,  # noqa: F811
) -> None:
    availabilities = Availabilities()

    def observed(first: int, latency: float) -> QueryHealth:
        for epoch in range(first, first + 20):
            report = epoch_report(deployed, epoch=epoch, latency=latency)
            verdicts, _ = availabilities.observe(report)
        return verdicts["O1[0]"]

    before = observed(1, 0.8)
    assert (before.baseline, before.available) == (0.8, True)
    Topology.objects.update(desired="stopped", status="stopped")
    availabilities._tracker("counts").query_failed("O1[0]", 121.0)
    topology_deploy(name="counts", actor="ada", reason="slower, but right", channel=Channel.CLI)
    availabilities.look(force=True)
    after = observed(50, 3.0)
    assert (after.baseline, after.relative, after.available) == (3.0, 1.0, True)


class Stream:
    """A consumer group of Redis: what was handed out is pending until it is acknowledged."""

    def __init__(self, *messages: Telemetry) -> None:
        values = map(encode, messages)
        self.left = [
            (f"{i}-0".encode(), {TELEMETRY_FIELD.encode(): value}) for i, value in enumerate(values, 1)
        ]
        self.pending: list[Any] = []

    def xreadgroup(self, group: str, consumer: str, streams: Any, *, count: int, block: int | None) -> Any:
        if (after := streams[TELEMETRY_STREAM]) == ">":
            found, self.left = self.left[:count], self.left[count:]
            self.pending += found
        else:
            first = int(after.partition("-")[0])
            found = [one for one in self.pending if int(one[0].partition(b"-")[0]) > first][:count]
        return [[TELEMETRY_STREAM.encode(), found]] if found else []

    def pipeline(self) -> Any:
        return contextlib.nullcontext(self)

    def xack(self, stream: str, group: str, *entries: bytes) -> None:
        self.pending = [one for one in self.pending if one[0] not in entries]

    def xdel(self, stream: str, *entries: bytes) -> None: ...

    def execute(self) -> None: ...


@pytest.mark.parametrize("position", [">", "0"])
@pytest.mark.django_db
def test_of_a_backlog_of_many_topologies_the_newest_reports_are_applied(
    position: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch has one or two of each, so none of them would be left out, and the backlog would stay until
    Redis drops what was not read."""
    monkeypatch.setattr(ingestion, "BATCH", 30)
    one = Ingestion()
    applied: list[Telemetry] = []
    reports = [
        EpochReport(
            topology=f"t-{number}", generation=1, first=epoch, last=epoch, head=epoch, committed=epoch,
            tuples=1, started_at=0.0, ended_at=1.0, input_rate=1.0, watermark=0.0, state="running",
            absent=[], queries={}, partitions={},
        )
        for epoch in range(7)
        for number in range(20)
    ]  # fmt: skip
    stream: Any = Stream(*reports)
    if position == "0":  # a killed worker had them in hand
        stream.pending, stream.left = stream.left, []
    one._redis.close()
    one._redis = stream
    monkeypatch.setattr(one, "_take_in", applied.append)
    while entries := one._read(position):
        one._apply(entries)
    assert applied == reports[-20:]
    assert not stream.pending


def test_no_more_is_read_at_a_time_than_memory_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingestion, "BATCH", 2)
    monkeypatch.setattr(ingestion, "MOST_BYTES", 100)
    one = Ingestion()
    one._redis.close()
    long = EpochReport(
        topology="t", generation=1, first=1, last=1, head=1, committed=1, tuples=1, started_at=0.0,
        ended_at=1.0, input_rate=1.0, watermark=0.0, state="running", absent=["x" * 100], queries={},
        partitions={},
    )  # fmt: skip
    stream: Any = Stream(*[long] * 5)
    one._redis = stream
    assert [len(one._read(">")) for _ in range(3)] == [2, 2, 1]
