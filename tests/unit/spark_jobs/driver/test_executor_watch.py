"""Which executors the driver reports as gone, under which session, and until when."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from coordination.session import CoordinationUnavailableError, Stored
from domain.messages import ExecutorGone, ExecutorsSeen, SparkApplication
from harness.eventually import eventually
from spark_jobs.driver import executor_watch
from spark_jobs.driver.application_report import ApplicationReport
from spark_jobs.driver.cluster import Executor
from spark_jobs.driver.executor_watch import ExecutorReport, ExecutorWatch
from tests.unit.controlplane.incidents.places import registration

BOTH = frozenset({"n1", "n2"})
APPLICATION = SparkApplication(id="app-1", host="127.0.0.1", port=4040, memory="512m", pid=1)


class Zookeeper:
    """Registrations by name, and what was written."""

    def __init__(self) -> None:
        self.session = "s1"
        self.away = False
        self.registered = {name: registration(name, session="unread") for name in BOTH}
        self.owner = "a"
        self.written: list[ExecutorsSeen] = []
        self.applications: list[SparkApplication] = []
        self.released = 0

    def get_many(self, wanted: list[tuple[str, Any]]) -> list[Any]:
        if self.away:
            raise CoordinationUnavailableError("away")
        names = [path.rpartition("/")[2] for path, _ in wanted]
        return [
            Stored(self.registered[name], self.owner) if name in self.registered else None for name in names
        ]

    def claim(self, path: str, value: Any, *, replaceable: Any) -> bool:
        if self.away:
            raise CoordinationUnavailableError("away")
        if path == "/resurge/topologies/t/application":
            self.applications.append(value)
        else:
            assert path == "/resurge/topologies/t/executors"
            self.written.append(value)
        return True

    def release(self, path: str) -> None:
        assert path == "/resurge/topologies/t/application"
        self.released = len(self.applications)

    @property
    def last(self) -> tuple[list[str], dict[str, ExecutorGone]]:
        return self.written[-1].present, self.written[-1].gone


@pytest.fixture
def zookeeper() -> Zookeeper:
    return Zookeeper()


@pytest.fixture
def report(zookeeper: Zookeeper) -> ExecutorReport:
    session: Any = zookeeper
    made = ExecutorReport("t", session)
    made.update({"n1", "n2"}, BOTH, 1.0)
    assert zookeeper.last == (["n1", "n2"], {})
    return made


def test_a_node_that_never_had_an_executor_misses_none(zookeeper: Zookeeper) -> None:
    session: Any = zookeeper
    ExecutorReport("t", session).update({"n1"}, BOTH, 1.0)
    assert zookeeper.last == (["n1"], {})


def test_a_lost_executor_is_told_once_with_its_moment_and_its_nodes_session(
    report: ExecutorReport, zookeeper: Zookeeper
) -> None:
    for at in (2.0, 2.1, 2.2):
        report.update({"n2"}, BOTH, at)
    assert zookeeper.last == (["n2"], {"n1": ExecutorGone(session="a", at=2.0)})
    assert len(zookeeper.written) == 2


def test_an_executor_that_is_back_and_goes_again_is_another_loss(
    report: ExecutorReport, zookeeper: Zookeeper
) -> None:
    report.update({"n2"}, BOTH, 2.0)
    report.update({"n1", "n2"}, BOTH, 3.0)
    assert zookeeper.last == (["n1", "n2"], {})
    report.update({"n2"}, BOTH, 4.0)
    assert zookeeper.last == (["n2"], {"n1": ExecutorGone(session="a", at=4.0)})


def test_a_new_session_of_the_node_does_not_inherit_the_loss(
    report: ExecutorReport, zookeeper: Zookeeper
) -> None:
    report.update({"n2"}, BOTH, 2.0)
    zookeeper.owner = "b"
    report.update({"n2"}, BOTH, 3.0)
    assert zookeeper.last == (["n2"], {"n1": ExecutorGone(session="a", at=2.0)})


def test_a_node_that_is_not_registered_is_not_told(report: ExecutorReport, zookeeper: Zookeeper) -> None:
    """Whether the driver knows that already, or finds it out."""
    del zookeeper.registered["n1"]
    report.update({"n2"}, BOTH, 2.0)
    report.update(set(), frozenset({"n1"}), 3.0)
    assert zookeeper.last == ([], {})


def test_it_is_written_again_under_a_new_session_and_when_zookeeper_is_back(
    report: ExecutorReport, zookeeper: Zookeeper
) -> None:
    zookeeper.session = "s2"
    report.update({"n1", "n2"}, BOTH, 2.0)
    assert len(zookeeper.written) == 2
    zookeeper.away = True
    with pytest.raises(CoordinationUnavailableError):
        report.update({"n2"}, BOTH, 3.0)
    zookeeper.away = False
    report.update({"n2"}, BOTH, 4.0)
    assert zookeeper.last == (["n2"], {"n1": ExecutorGone(session="a", at=4.0)})


def test_the_watch_goes_on_after_an_error_and_ends_when_it_is_closed(
    zookeeper: Zookeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_watch, "INTERVAL", 0.01)
    monkeypatch.setattr(executor_watch, "AGAIN", 0.01)
    errors = [ConnectionError("the JVM does not answer"), CoordinationUnavailableError("away")]

    def executors() -> frozenset[Executor]:
        if errors:
            raise errors.pop()
        return frozenset({Executor("7", "127.0.1.1")})

    session: Any = zookeeper
    watch = ExecutorWatch(
        ExecutorReport("t", session),
        ApplicationReport("t", session, APPLICATION, life=lambda: 3),
        executors=executors,
        addresses=lambda: {"n1": "127.0.1.1", "n2": "127.0.1.2"},
        registered=lambda: BOTH,
        clock=lambda: 1.0,
    )
    eventually(lambda: zookeeper.written, "the executors")
    watch.close()
    assert zookeeper.last == (["n1"], {})
    assert [one.life for one in zookeeper.applications] == [3]
    assert zookeeper.released == 1, "no agent starts an executor for a driver that ends"
    assert "executor-watch" not in {thread.name for thread in threading.enumerate()}
