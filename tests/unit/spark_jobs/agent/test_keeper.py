"""The keeper of a node: what tasks left is stored beside them, and a storage that fails is left alone."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from domain.topology import Topology, load_topology
from harness.eventually import eventually
from spark_jobs.agent.keeper import Keeper
from spark_jobs.agent.keeper_process import KeeperProcess
from spark_jobs.operators.catalogue import catalogue
from spark_jobs.operators.keyed_operator import KeyedOperator
from spark_jobs.state import saved_keys
from spark_jobs.state.key_requests import BEGAN, KeyDesk, KeyWork
from spark_jobs.state.saved_keys import SavedKeys
from spark_jobs.state.state_storage import UnavailableError
from spark_jobs.state.storage_urls import open_storage
from spark_jobs.state.store import Manifest, StateStore
from spark_jobs.state.tables import StateTables

BYPASS = 60.0
FAILURES = 3


@dataclass
class Node:
    """A node with a partition `W[0]` of a window; its clock."""

    root: Path
    now: float = 1_000.0
    history: dict[str, int] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.root / "node"

    @property
    def url(self) -> str:
        return f"file://{self.root}/checkpoints"

    @property
    def desk(self) -> KeyDesk:
        return KeyDesk(self.home, "t", 1)

    @property
    def states(self) -> StateStore:
        return StateStore(self.home / "state" / "t" / "1" / "W-0")

    def work(self) -> KeyWork:
        operators: list[dict[str, Any]] = [
            {"name": "S", "kind": "source", "params": {"path": "x.parquet"}},
            {
                "name": "W",
                "kind": "distinct",
                "params": {"size_s": 600},
                "inputs": [{"from": "S"}],
                "output": True,
            },
        ]
        topology = load_topology(
            {
                "name": "t",
                "guarantee": "bounded",
                "key_saving": {"failures": FAILURES, "bypass_s": BYPASS},
                "operators": operators,
            },
            catalogue,
        )
        return KeyWork(spec=topology.spec, checkpoints=self.url, modules=[], force=False)

    def ask(self, epoch: int, keys: str, *, began: int = 0, forget: bool = False) -> Manifest:
        """A task applies an epoch, in which these keys change, and leaves them to be stored."""
        self.history = {} if forget else self.history
        self.history |= dict.fromkeys(keys, epoch)
        state = StateTables({BEGAN: began} if began else {}, {}, {})
        rows = {"key": list(self.history), "__window": list(self.history.values())}
        state.table("seen").append(pa.table(rows), {"high": 1})
        manifest = self.states.commit(state, epoch=epoch, generation=1)
        self.desk.prepare(self.work())
        self.desk.leave(self.states, "W[0]", manifest, list(keys), counts=True)
        return manifest

    def stored(self, keys: str) -> dict[str, int]:
        saved = SavedKeys(open_storage(self.url), "t", 1, "W[0]")
        keyed = KeyedOperator(Topology(self.work().spec), "W", [])
        found, _ = saved.find(pa.array(list(keys), pa.string()), saved.index, keyed.take)
        rows = [row for one in found for chunk in one.table("seen") for row in chunk.table.to_pylist()]
        return {row["key"]: row["__window"] for row in rows}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def drained(node: Node) -> Keeper:
    keeper = Keeper(node.home, lambda: node.now)
    keeper.drain(30)
    return keeper


def test_the_states_of_the_keys_that_were_asked_for_are_stored(node: Node) -> None:
    node.ask(5, "abc")
    drained(node)
    assert node.stored("abcd") == {"a": 5, "b": 5, "c": 5}
    node.ask(9, "b")
    drained(node)
    assert node.stored("abcd") == {"a": 5, "b": 9, "c": 5}
    status = node.desk.status()
    assert (status.stored, status.segments, status.waiting, status.error) == (4, 2, 0, "")
    assert status.bytes > 0


def test_a_state_that_was_trimmed_meanwhile_is_still_stored(node: Node) -> None:
    node.ask(5, "a")
    node.states.remove()
    drained(node)
    assert node.stored("a") == {"a": 5}


def test_requests_that_have_waited_are_stored_together(node: Node) -> None:
    for epoch in range(1, 8):
        node.ask(epoch, "ab"[epoch % 2])
    drained(node)
    assert node.stored("ab") == {"a": 6, "b": 7}
    assert node.desk.status().segments == 1


def test_what_was_asked_before_its_state_was_lost_is_stored_by_itself(node: Node) -> None:
    """The partition then began without state, so its later states lack what the earlier ones had."""
    node.ask(5, "ab")
    node.ask(9, "b", began=7, forget=True)
    drained(node)
    assert node.stored("ab") == {"a": 5, "b": 9}
    assert node.desk.status().segments == 2


@dataclass
class Outage:
    """Of the storage: calls of `put` fail while `on`."""

    on: bool = True
    tried: int = 0


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Outage:
    found = Outage()
    put = SavedKeys.store

    def store(self: SavedKeys, *arguments: Any) -> int:
        found.tried += 1
        if found.on:
            raise UnavailableError("the storage does not answer")
        return put(self, *arguments)

    monkeypatch.setattr(SavedKeys, "store", store)
    return found


def polled_until(keeper: Keeper, condition: Callable[[], bool]) -> None:
    def come() -> bool:
        keeper.poll()
        return condition()

    eventually(come)


def polled(keeper: Keeper, seconds: float = 0.3) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        keeper.poll()


def test_a_storage_that_fails_is_bypassed_and_tried_again(node: Node, outage: Outage) -> None:
    node.ask(5, "a")
    keeper = Keeper(node.home, lambda: node.now)
    polled_until(keeper, lambda: node.desk.status().storing.until > 0)
    status = node.desk.status()
    assert status.storing.failures == outage.tried == FAILURES
    assert status.storing.until == node.now + BYPASS
    assert status.error == "the storage does not answer"
    polled(keeper)
    assert outage.tried == FAILURES
    node.now += BYPASS
    polled_until(keeper, lambda: node.desk.status().storing.failures > FAILURES)
    assert outage.tried == FAILURES + 1
    polled(keeper)
    assert outage.tried == FAILURES + 1
    outage.on = False
    polled(keeper)
    assert outage.tried == FAILURES + 1
    node.now += BYPASS
    keeper.drain(30)
    assert node.stored("a") == {"a": 5}
    assert node.desk.status().storing.failures == 0
    assert node.desk.status().error == ""


@pytest.mark.parametrize("other_work", [False, True])
def test_a_request_is_stored_by_one_thread(
    node: Node, monkeypatch: pytest.MonkeyPatch, *, other_work: bool
) -> None:
    begun, go, put = list[int](), threading.Event(), SavedKeys.store

    def store(self: SavedKeys, *arguments: Any) -> int:
        begun.append(1)
        assert go.wait(30)
        return put(self, *arguments)

    monkeypatch.setattr(SavedKeys, "store", store)
    node.ask(5, "a")
    keeper = Keeper(node.home, lambda: node.now)
    polled_until(keeper, lambda: bool(begun))
    if other_work:
        node.desk.prepare(msgspec.structs.replace(node.work(), force=True))
    threading.Timer(0.3, go.set).start()
    polled(keeper)
    keeper.drain(30)
    assert begun == [1]
    assert node.stored("a") == {"a": 5}


def test_a_request_waits_while_its_node_has_no_room(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    node.ask(5, "a")
    keeper = Keeper(node.home, lambda: node.now)
    with monkeypatch.context() as patched:
        patched.setattr(saved_keys, "TemporaryDirectory", full)
        polled_until(keeper, lambda: node.desk.status().storing.failures == FAILURES)
    assert "No space left on device" in node.desk.status().error
    node.now += BYPASS
    keeper.drain(30)
    assert node.stored("a") == {"a": 5}
    assert node.desk.status().error == ""


def test_a_request_that_cannot_be_serialised_does_not_hold_up_others(node: Node) -> None:
    node.ask(5, "a")
    ((request,),) = node.desk.waiting().values()
    (request / "request.json").write_bytes(b"{}")
    node.ask(9, "b")
    drained(node)
    assert node.stored("ab") == {"b": 9}
    assert node.desk.waiting() == {}


def test_a_damaged_request_takes_none_before_it_along(node: Node) -> None:
    node.ask(5, "a")
    node.ask(9, "b")
    ((_, damaged),) = node.desk.waiting().values()
    (damaged / "request.json").write_bytes(b"{}")
    drained(node)
    assert node.stored("ab") == {"a": 5}
    assert "is damaged" in node.desk.status().error


def test_a_state_that_cannot_be_read_takes_no_other_request_along(node: Node) -> None:
    for epoch, key in ((5, "a"), (7, "b"), (9, "c"), (11, "d")):
        node.ask(epoch, key)
    ((_, _, bad, _),) = node.desk.waiting().values()
    (file,) = bad.glob("*.arrow")
    file.unlink()
    keeper = drained(node)
    assert node.stored("abcd") == {"a": 5, "b": 7, "c": 9, "d": 11}, (
        "the newest has what the one before lacks"
    )
    node.ask(13, "a")
    node.ask(15, "b")
    ((_, bad),) = node.desk.waiting().values()
    (file,) = bad.glob("*.arrow")
    file.unlink()
    keeper.drain(30)
    assert node.stored("ab") == {"a": 13, "b": 7}
    assert "is missing" in node.desk.status().error
    assert node.desk.waiting() == {}


def test_another_version_is_stored_as_it_says_and_a_bad_one_holds_up_no_other_topology(node: Node) -> None:
    node.ask(5, "a")
    keeper = drained(node)
    node.desk.prepare(msgspec.structs.replace(node.work(), checkpoints="nowhere://x"))
    other = KeyDesk(node.home, "other", 3)
    other.prepare(node.work())
    other.leave(node.states, "W[0]", node.states.manifest(5), ["a"], counts=True)
    keeper.drain(30)
    assert other.waiting() == {}
    assert other.status().stored == 1
    node.ask(9, "b")  # as the version before
    keeper.drain(30)
    assert node.stored("ab") == {"a": 5, "b": 9}


def test_another_keeper_goes_on_where_one_was_killed(node: Node) -> None:
    node.ask(5, "a")
    first = Keeper(node.home, lambda: node.now)
    first.poll()  # it begins, and is not heard of again
    drained(node)
    assert node.stored("a") == {"a": 5}


def test_the_process_stores_what_waits_before_it_ends(node: Node) -> None:
    node.ask(5, "ab")
    command = [sys.executable, "-m", "spark_jobs.agent.keeper", str(node.home)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        eventually(lambda: node.stored("ab") == {"a": 5, "b": 5})
        node.ask(9, "b")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
    assert node.stored("ab") == {"a": 5, "b": 9}


def test_the_agent_starts_it_when_there_is_something_and_again_when_it_ends(node: Node) -> None:
    keeper = KeeperProcess(node.home)

    def running() -> int:
        keeper.reconcile()
        return keeper.pid or 0

    try:
        assert not running()
        node.ask(5, "a")
        first = running()
        assert first
        eventually(lambda: node.stored("a") == {"a": 5})
        os.kill(first, signal.SIGKILL)
        eventually(lambda: running() not in (0, first))
    finally:
        keeper.stop()
    assert keeper.pid is None


def test_one_that_cannot_be_started_ends_nothing_else(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    keeper = KeeperProcess(node.home)
    node.ask(5, "a")
    monkeypatch.setattr("spark_jobs.agent.keeper_process.subprocess.Popen", full)
    keeper.reconcile()
    assert keeper.pid is None
