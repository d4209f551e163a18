"""The session of a worker with a real ZooKeeper."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from typing import NoReturn

import pytest
from kazoo.client import KazooClient

from coordination.paths import Paths
from domain.messages import (
    Control,
    ExecutorGone,
    ExecutorsSeen,
    Plan,
)
from tests.integration.control_plane.steps import plan, publish
from tests.unit.controlplane.incidents.places import registration
from workers.zookeeper import WorkerSession, coordination_close
from workers.zookeeper import coordination as worker_session

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


def test_only_a_higher_generation_replaces_a_plan(coordination: WorkerSession) -> None:
    assert publish(coordination, "t", plan(3)).generation == 3
    assert publish(coordination, "t", plan(3, reason="again")).reason == ""
    assert publish(coordination, "t", plan(2)).generation == 3
    assert publish(coordination, "t", plan(4)).generation == 4


def test_a_plan_replaces_one_that_cannot_be_read(coordination: WorkerSession, raw: KazooClient) -> None:
    raw.create(Paths.plan("t"), b"{nonsense", makepath=True)
    assert publish(coordination, "t", plan(3)).generation == 3
    found = coordination.get(Paths.plan("t"), Plan)
    assert found is not None
    assert found.value == plan(3)


def test_session_of_a_registration_is_the_owner_of_its_znode(coordination: WorkerSession) -> None:
    assert coordination.claim(Paths.node("node-1"), registration("node-1", session="fee1dead"))
    assert [r.session for r in coordination.registrations()] == [coordination.session]


def test_watch_only_signals(coordination: WorkerSession) -> None:
    changed = threading.Event()
    with closing(WorkerSession(coordination.hosts, 4.0, on_change=changed.set)) as other:
        other.start()
        other.require_connected(10)
        assert other.registrations() == []
        coordination.put(Paths.node("node-1"), registration("node-1"))
        assert changed.wait(5)


def test_executors_of_drivers_are_read_and_watched(coordination: WorkerSession) -> None:
    changed = threading.Event()
    with closing(WorkerSession(coordination.hosts, 4.0, on_change=changed.set)) as worker:
        worker.start()
        worker.require_connected(10)
        assert worker.executors(["t", "u"]) == {}
        seen = ExecutorsSeen(pid=1, present=["node-1"], gone={"node-2": ExecutorGone(session="a", at=1.0)})
        assert coordination.claim(Paths.executors("t"), seen)
        assert changed.wait(5)
        assert worker.executors(["t", "u"]) == {"t": seen}
        changed.clear()
        assert coordination.claim(Paths.executors("t"), ExecutorsSeen(pid=1))
        assert changed.wait(5), "and watched again"


def test_a_forked_process_has_a_session_of_its_own(
    coordination: WorkerSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESURGE_ZOOKEEPER", coordination.hosts)
    coordination.put(Paths.control("t"), Control(checkpoint_request=7))
    mine = worker_session()
    try:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            _answer_and_exit(writing)
        os.close(writing)
        with os.fdopen(reading) as answer:
            theirs, request = answer.read().split()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert request == "7"
        assert theirs != mine.session
        assert worker_session() is mine
        assert mine.get(Paths.control("t"), Control) is not None, "the child has left this session alone"
    finally:
        coordination_close()


def _answer_and_exit(writing: int) -> NoReturn:
    """In the child process: report its session and what the session reads, and end without the clean-up of
    the tests."""
    code = 1
    try:
        session = worker_session()
        found = session.get(Paths.control("t"), Control)
        os.write(writing, f"{session.session} {found and found.value.checkpoint_request}".encode())
        coordination_close()
        code = 0
    finally:
        os._exit(code)
