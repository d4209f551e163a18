"""Which application the driver tells agents of, and which executors it has no longer."""

from __future__ import annotations

from typing import Any

import pytest

from coordination.session import CoordinationUnavailableError
from domain.messages import SparkApplication
from spark_jobs.driver import application_report
from spark_jobs.driver.application_report import ApplicationReport
from spark_jobs.driver.cluster import Executor

APPLICATION = SparkApplication(id="app-1", host="127.0.0.1", port=4040, memory="512m", pid=10)
ONE, TWO = Executor("1", "127.0.1.1"), Executor("2", "127.0.1.2")


class Znode:
    """That of the application, as a session sees it."""

    def __init__(self, other: SparkApplication | None = None) -> None:
        self.session = "s1"
        self.away = False
        self.value = other
        self.writes = 0

    def claim(self, path: str, value: SparkApplication, *, replaceable: Any) -> bool:
        if self.away:
            raise CoordinationUnavailableError("away")
        if self.value is not None and not replaceable(self.value):
            return False
        self.value = value
        self.writes += 1
        return True

    def release(self, path: str) -> None:
        if self.away:
            raise CoordinationUnavailableError("away")
        self.value = None

    def report(self, life: int = 2) -> ApplicationReport:
        session: Any = self
        return ApplicationReport("t", session, APPLICATION, life=lambda: life)

    @property
    def ended(self) -> list[str]:
        assert self.value is not None
        return self.value.ended


def test_it_is_written_once_and_again_under_a_new_session() -> None:
    znode = Znode()
    report = znode.report()
    report.update([])
    report.update([ONE])
    report.update([ONE, TWO])
    assert znode.value is not None
    assert (znode.value.id, znode.value.life, znode.ended, znode.writes) == ("app-1", 2, [], 1)
    znode.session, znode.value = "s2", None
    report.update([ONE, TWO])
    assert znode.writes == 2


def test_an_executor_that_the_driver_has_no_longer_is_told() -> None:
    znode = Znode()
    report = znode.report()
    report.update([ONE, TWO])
    report.update([TWO])
    assert znode.ended == ["1"]
    report.update([TWO, Executor("3", "127.0.1.1")])
    assert znode.ended == ["1"], "the next one is no reason to forget it"
    report.update([])
    assert znode.ended == ["1", "2", "3"]


def test_the_znode_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application_report, "ENDED_KEPT", 3)
    znode = Znode()
    report = znode.report()
    for number in range(10, 20):
        report.update([Executor(str(number), f"127.0.1.{number}")])
    assert znode.ended == ["16", "17", "18"]


@pytest.mark.parametrize(("pid", "life", "replaced"), [(9, 1, True), (9, 3, False), (10, 3, True)])
def test_of_two_drivers_the_later_one_is_told_of(pid: int, life: int, replaced: bool) -> None:
    theirs = SparkApplication(id="app-0", host="127.0.0.1", port=4039, memory="512m", pid=pid, life=life)
    znode = Znode(theirs)
    report = znode.report(life=2)
    report.update([ONE])
    assert (znode.value != theirs) is replaced
    znode.value = None
    report.update([ONE])
    assert (znode.value is not None) is not replaced, "what could not be written is tried again"


def test_nothing_is_lost_while_zookeeper_is_away() -> None:
    znode = Znode()
    report = znode.report()
    report.update([ONE, TWO])
    znode.away = True
    with pytest.raises(CoordinationUnavailableError):
        report.update([TWO])
    report.withdraw()
    znode.away = False
    report.update([TWO])
    assert znode.ended == ["1"]
    report.withdraw()
    assert znode.value is None
