"""Following events: none is lost when the connection is cut, a hint is lost, or events are no longer kept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from typing import Any

import httpx
import pytest

from cli.client import Rest
from cli.commands import watch
from cli.configuration import Target
from cli.failures import UnauthorisedError
from cli.live import stream as streams
from cli.live.lines import Changes, document, summary
from cli.live.state import State
from cli.live.stream import Events, EventStream, Gap, Lost, Opened, Signal
from cli.session import Session
from harness.eventually import eventually
from tests.browser.servers import free_port
from tests.unit.cli.conftest import Resurge
from tests.unit.cli.healths import health_of
from tests.unit.cli.running import Wire, newest
from tests.unit.cli.serving import Server

PATIENCE = 20.0


@pytest.fixture
def target(wire: Wire, tokens: dict[str, str]) -> Target:
    return Target(wire.url, tokens["viewer"], "a test")


def signals(stream: EventStream) -> Iterator[Signal]:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        signal = stream.receive(0.1)
        if signal is not None:
            yield signal
    raise AssertionError("nothing more came")


def until(stream: EventStream, kind: type[Signal]) -> Any:
    return next(signal for signal in signals(stream) if isinstance(signal, kind))


def change(rest: httpx.Client, count: int = 1) -> int:
    """The sequence number of the last of `count` new events."""
    for _ in range(count):
        now = rest.get("topologies/mentions/policy/").json()["planner"]
        body = {"planner": "optimal" if now != "optimal" else "best_density", "reason": "a test"}
        assert rest.patch("topologies/mentions/policy/", json=body).status_code == 200
    return newest(rest)


def test_a_cut_loses_nothing(target: Target, wire: Wire, rest: httpx.Client) -> None:
    start = newest(rest)
    with closing(EventStream(target, start)) as stream:
        until(stream, Opened)
        last = change(rest, 2)
        got: list[int] = []
        for signal in signals(stream):
            got += [event["sequence"] for event in signal.events] if isinstance(signal, Events) else []
            if stream.sequence == last:
                break
        wire.down = True
        wire.cut()
        until(stream, Lost)
        assert not stream.live
        last = change(rest, 3)
        wire.down = False
        for signal in signals(stream):
            got += [event["sequence"] for event in signal.events] if isinstance(signal, Events) else []
            if stream.sequence == last:
                break
        assert got == list(range(start + 1, last + 1))


def test_events_that_are_no_longer_kept_are_a_gap(
    target: Target, rest: httpx.Client, database: Callable[..., list[Any]]
) -> None:
    start = newest(rest)
    last = change(rest, 4)
    database("DELETE FROM events_event WHERE sequence = ?", start + 2)
    with closing(EventStream(target, start)) as stream:
        until(stream, Gap)
        stream.restart(last)
        after = change(rest)
        assert [event["sequence"] for event in until(stream, Events).events] == [after]


def test_a_snapshot_and_its_events_are_a_fresh_snapshot(target: Target, rest: httpx.Client) -> None:
    shown = State()
    shown.load(rest.get("snapshot/").json())
    with closing(EventStream(target, shown.sequence)) as stream:
        until(stream, Opened)
        for verb in ("pause", "resume"):
            asked = rest.post(f"incidents/2/{verb}/", json={"reason": "a test"})
            assert asked.status_code == 202
            path = f"operations/{asked.json()['id']}/"
            eventually(
                lambda path=path: rest.get(path).json()["state"] in ("running", "succeeded"),  # type: ignore[misc]
                f"{verb} is carried out",
                pause=0.1,
            )
        last = change(rest, 2)
        for signal in signals(stream):
            assert isinstance(signal, Events)
            shown.apply(signal.events, signal.sequence)
            if shown.sequence >= last:
                break
    fresh = State()
    fresh.load(rest.get("snapshot/").json())
    assert shown.sequence == fresh.sequence
    assert shown.entities == fresh.entities


def test_a_view_that_cannot_be_loaded_anew_says_so(
    server: Server,
    target: Target,
    rest: httpx.Client,
    database: Callable[..., list[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "STILL", 0.05)
    session, shown = Session(), State()
    shown.sequence = newest(rest)
    last = change(rest, 2)
    database("DELETE FROM events_event WHERE sequence = ?", last - 1)
    away = Target(f"http://127.0.0.1:{free_port()}", target.token, "")
    with closing(EventStream(target, shown.sequence)) as stream:
        session.rest = Rest(away, timeout=5)
        followed = islice(watch.followed(session, shown, stream), 400)
        told = (one for one in followed if isinstance(one, Gap | Lost))
        lost = next(told)
        assert isinstance(lost, Lost)
        assert "cannot be reached" in lost.why
        assert not stream.live
        session.rest = Rest(target, timeout=30)
        assert any(isinstance(one, Gap) for one in told)
        assert shown.sequence >= last
        assert shown.topologies()


def test_a_silent_line_is_given_up(target: Target, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SILENCE", 0.3)
    with closing(EventStream(target, 10**9)) as stream:
        until(stream, Opened)
        wire.mute = True
        assert "has sent nothing" in until(stream, Lost).why


def test_a_server_that_does_not_answer(tokens: dict[str, str]) -> None:
    with closing(EventStream(Target(f"http://127.0.0.1:{free_port()}", "t", ""), 0)) as stream:
        first = until(stream, Lost)
        assert "refused" in first.why
        assert until(stream, Lost).delay > first.delay, "each time it waits longer"


@pytest.mark.parametrize("token", ["", "0" * 64])
def test_who_may_not_listen(server: Server, token: str) -> None:
    with closing(EventStream(Target(server.url, token, ""), 0)) as stream, pytest.raises(UnauthorisedError):
        until(stream, Lost)


def test_following_on_the_command_line(
    resurge: Resurge, rest: httpx.Client, database: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Begins where events are missing, goes on live, and ends with Ctrl+C."""
    start = newest(rest)
    change(rest, 3)
    database("DELETE FROM events_event WHERE sequence = ?", start + 2)
    receive, restart = EventStream.receive, EventStream.restart
    heard: list[int] = []

    def restarted(stream: EventStream, sequence: int) -> None:
        restart(stream, sequence)
        change(rest)

    def received(stream: EventStream, timeout: float) -> Signal | None:
        signal = receive(stream, timeout)
        if isinstance(signal, Events):
            heard.append(signal.sequence)
        elif heard:
            raise KeyboardInterrupt
        return signal

    monkeypatch.setattr(EventStream, "restart", restarted)
    monkeypatch.setattr(EventStream, "receive", received)
    answer = resurge("events", "follow", "--after", str(start), "-o", "json")
    assert answer.code == 0
    events = [json.loads(line) for line in answer.out.splitlines()]
    assert [event["sequence"] for event in events] == [start + 1, start + 3, start + 4]
    assert {event["kind"] for event in events} == {"topology.updated"}
    assert not answer.err or "no longer kept" in answer.err


def test_plain_lines_and_one_document(resurge: Resurge, rest: httpx.Client) -> None:
    lines = resurge("watch", "--once").out.splitlines()
    assert lines[0].startswith("incident 2: ")
    assert any(line.startswith("incident 2 wave 1 of hashtags: ") for line in lines)
    assert any(line.startswith("topology hashtags: ") and "queries available" in line for line in lines)
    assert any(line.startswith("node node-2: Lost") for line in lines)
    told = resurge("watch", "--once", "-o", "json").json
    assert told["sequence"] == newest(rest)
    assert [incident["number"] for incident in told["incidents"]] == [2]
    assert told["incidents"][0]["waves"][0]["restore"]


def test_the_queries_that_are_down_are_the_same_everywhere(resurge: Resurge) -> None:
    """Two answers, between which a query may have returned."""

    def the_same() -> bool:
        watched = {row["partition"] for row in resurge("watch", "--once", "-o", "json").json["queries_down"]}
        return watched == {row["partition"] for row in resurge("queries", "list", "--down").json} != set()

    eventually(the_same, "the same queries in both")


def test_the_table_of_watch_names_the_incident(resurge: Resurge) -> None:
    view = resurge("watch", "--once", "-o", "table").out
    assert "Incident 2" in view


def test_what_happens_is_told_in_lines() -> None:
    shown = State()
    query = {"topology": "t", "partition": "O[0]", "priority": 1, "health": health_of("available", value=1.0)}
    running = health_of("running", value=1, limit=1)
    topology = {"name": "t", "status": "running", "input_rate": 5.0, "health": running}
    failed, without = health_of("failed"), health_of("catching_up", "Catching up", value=0, limit=1)
    shown.load(
        {"sequence": 4, "server_time": "2026-03-12T12:00:00Z",
         "entities": {"topology": {"t": topology}, "query": {"t/O[0]": query}, "later": {"x": {}}}}
    )  # fmt: skip
    changes = Changes(shown)
    lost = {
        "sequence": 5, "at": "2026-03-12T12:00:01Z", "kind": "node.lost", "topology": None, "node": "node-1",
        "incident": None, "actor": "", "reason": "no heartbeat\x1b[2J",
        "changes": [
            {"entity": "query", "key": "t/O[0]", "fields": {"health": failed}},
            {"entity": "topology", "key": "t", "fields": {"health": without}},
            {"entity": "later", "key": "x", "fields": {}},
            {"entity": "node", "key": "node-1", "fields": None},
        ],
    }  # fmt: skip
    routine = {**lost, "sequence": 6, "kind": "node.metrics", "changes": []}
    shown.apply([lost, routine], 6)
    first, second = changes.lines([lost, routine])
    assert first.endswith("node.lost  node-1: no heartbeat\ufffd[2J")
    assert second == "topology t: 0 of 1 queries available"
    assert list(changes.lines([])) == []
    assert "topology t: Catching up, 0 of 1 queries available" in "\n".join(summary(shown))
    assert document(shown)["queries_down"] == [{**query, "health": failed}]
