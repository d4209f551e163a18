"""The snapshot as an answer: shared by waiting requests, compressed, limited, large plans without
intermediate results."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.api.events import documents
from controlplane.api.events.documents import Document
from controlplane.api.events.sharing import LONGEST, Shared
from controlplane.checkpoints.models import Checkpoint
from controlplane.events.representation import iso
from controlplane.incidents import representation
from controlplane.incidents.models import Incident, IncidentEntry, RecoveryPlan
from controlplane.lifecycle.topologies import topology_deploy
from controlplane.nodes.models import Node
from controlplane.snapshot import document, entities
from controlplane.topologies.models import AvailabilitySample, Problem, Topology
from controlplane.tuple_rows import Unchanging
from harness.eventually import eventually
from tests.unit.controlplane.following import Follower, snapshot_read
from tests.unit.controlplane.specs import BY


class Reading:
    """Counts the readings; each waits for the event `go`."""

    def __init__(self) -> None:
        self.count = 0
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self) -> Iterator[bytes]:
        self.count += 1
        number = self.count
        self.begun.set()
        assert self.go.wait(10)
        if number == 1:
            raise ConnectionError("the database is away")
        yield str(number).encode()


def test_requests_during_a_reading_share_the_next_one() -> None:
    reading = Reading()
    shared = Shared(reading)
    with ThreadPoolExecutor(20) as threads:
        first = threads.submit(shared.get, 1)
        assert reading.begun.wait(10)
        others = [threads.submit(shared.get, 1) for _ in range(19)]
        waiting: Any = shared._turn
        eventually(lambda: len(waiting._waiters) >= 19, "19 that wait", pause=0.005)
        reading.go.set()
        with pytest.raises(ConnectionError):
            first.result(10)
        numbers = {int(one.result(10).text) for one in others}
    assert numbers == {2}, "all got one reading, which began after they had asked"
    assert shared.get(2).text == b"3", "a request after an event gets a later state"


def test_a_reading_is_the_state_until_something_happens() -> None:
    reading, now = Reading(), [0.0]
    reading.count = 1
    reading.go.set()
    shared = Shared(reading, clock=lambda: now[0])
    assert [shared.get(5).text for _ in range(3)] == [b"2"] * 3
    assert shared.get(6).text == b"3"
    now[0] = LONGEST - 1.0
    assert shared.get(6).text == b"3"
    now[0] = LONGEST + 1.0
    assert shared.get(6).text == b"4", "a database may have been put back"
    shared.forget()
    assert shared.get(6).text == b"5"


def test_an_end_of_its_own_at_every_handing_out() -> None:
    document = Document.of([b"x" * 100_000, b"y" * 5, b""])
    for end in (b"", b"z", b"end" * 1000):
        assert gzip.decompress(document.gzip(end)) == b"x" * 100_000 + b"yyyyy" + end


def test_the_time_is_that_of_the_answer(
    viewer: APIClient, topology: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of two answers with the same content."""
    moments = [timezone.now() + timedelta(milliseconds=number) for number in (1, 2)]
    clock = SimpleNamespace(now=iter(moments).__next__)
    monkeypatch.setattr(document, "timezone", clock)
    first, second = (viewer.get("/api/v1/snapshot/").json() for _ in range(2))
    assert first["entities"] == second["entities"]
    assert [first["server_time"], second["server_time"]] == [iso(moment) for moment in moments]


@pytest.mark.parametrize(("path", "what"), [("snapshot/", "entities"), ("events/", "results")])
def test_what_is_long_is_compressed(
    viewer: APIClient, topology: Topology, path: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask() -> Any:
        return viewer.get(f"/api/v1/{path}", HTTP_ACCEPT_ENCODING="gzip, deflate")

    monkeypatch.setattr(documents, "WORTH_IT", 100_000)
    assert "Content-Encoding" not in ask().headers, "short answers are not compressed"
    monkeypatch.setattr(documents, "WORTH_IT", 1_000)
    plain, compressed = viewer.get(f"/api/v1/{path}"), ask()
    assert "Content-Encoding" not in plain.headers
    assert compressed.headers["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in compressed.headers["Vary"]
    assert json.loads(gzip.decompress(compressed.content))[what] == plain.json()[what]
    assert "counts" in plain.content.decode()


def test_only_the_newest_part_of_histories(topology: Topology, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entities, "HISTORY", 3)
    now = timezone.now()
    other = Topology.objects.create(name="old", checkpoint_epoch=7)
    for number in range(1, 8):
        at = now - timedelta(hours=1, seconds=-number)
        Checkpoint.objects.create(topology=other, epoch=number, started_at=at - timedelta(days=1))
        Checkpoint.objects.create(topology=topology, epoch=number, started_at=at)
        Problem.objects.create(topology=topology, at=at, where="x", what=str(number))
        AvailabilitySample.objects.create(topology=topology, at=at, available=1, total=1, weighted=1)
    late = AvailabilitySample.objects.create(topology=topology, at=now, available=1, total=1, weighted=1)
    found = snapshot_read()["entities"]
    assert list(found["checkpoint"]) == ["old/7", "counts/5", "counts/6", "counts/7"]
    assert [row["what"] for row in found["problem"].values()] == ["5", "6", "7"]
    assert [row["at"] for row in found["sample"].values()] == [iso(late.at)]


def test_samples_that_repeat_the_one_before_are_left_out(topology: Topology) -> None:
    other = Topology.objects.create(name="other")
    begin = (timezone.now() - timedelta(seconds=100)).replace(microsecond=0)
    levels = {topology: [3, 3, 3, 3, 1, 1, 1, 2, 3, 3, 3], other: [5] * 11}
    for one, values in levels.items():
        for second, available in enumerate(values):
            at = begin + timedelta(seconds=second)
            AvailabilitySample.objects.create(topology=one, at=at, available=available, total=5, weighted=1)
    found = snapshot_read()["entities"]["sample"].values()
    shown = {
        name: [
            ((datetime.fromisoformat(row["at"]) - begin).total_seconds(), row["available"])
            for row in found
            if row["topology"] == name
        ]
        for name in ("counts", "other")
    }
    assert shown["counts"] == [(0, 3), (3, 3), (4, 1), (6, 1), (7, 2), (8, 3), (10, 3)]
    assert shown["other"] == [(0, 5), (10, 5)]


def test_a_large_plan_is_told_without_its_workings(
    topology: Topology, nodes: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    topology_deploy(name="counts", **BY)
    plan = RecoveryPlan.objects.get()
    plan.restore = ["O0[0]"]
    plan.explanation = {"value": 3, "alternatives": [1], "placed": {"O0[0]": "node-1"}}
    plan.save()
    whole = snapshot_read()["entities"]["plan"]["counts/1"]
    assert (whole["assignment"], whole["explanation"]) == (plan.assignment, plan.explanation)
    monkeypatch.setattr(representation, "LARGE", 3)
    RecoveryPlan.objects.update(state="published")
    told = snapshot_read()["entities"]["plan"]["counts/1"]
    assert told["assignment"] == {"O0[0]": plan.assignment["O0[0]"]}
    assert told["explanation"] == {"value": 3}
    plan.refresh_from_db()
    change = representation.plan_change(plan, topology="counts", incident=None)
    assert told == json.loads(json.dumps(change["fields"])), "events and snapshots tell the same"


def test_a_story_is_told_without_workings_and_added_to(topology: Topology) -> None:
    now = timezone.now()
    incident = Incident.objects.create(number=1, detected_at=now, opened_at=now)
    data = {"fact": "lost", "nodes": ["node-1"], "homes": {"O0[0]": "node-1"}}
    IncidentEntry.objects.create(incident=incident, at=now, kind="stimulus", text="Lost node-1.", data=data)
    Follower().check()
    IncidentEntry.objects.create(incident=incident, at=now, kind="step", text="Asked for a node.")
    told = list(snapshot_read()["entities"]["entry"].values())
    assert [row["text"] for row in told] == ["Lost node-1.", "Asked for a node."]
    assert told[0]["data"] == {"fact": "lost", "nodes": ["node-1"]}


def test_what_never_changes_is_read_once() -> None:
    read: list[list[int]] = []

    def squares(keys: Any) -> dict[int, int]:
        read.append(list(keys))
        return {key: key * key for key in keys}

    known = Unchanging(squares)
    assert known.of([1, 2]) == {1: 1, 2: 4}
    assert list(known.of([3, 2]).items()) == [(3, 9), (2, 4)]
    assert known.of([1]) == {1: 1}
    assert read == [[1, 2], [3], [1]], "what is not asked for any more is not kept"
