"""How the driver's process ends, and what it reports then."""

from __future__ import annotations

import argparse
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from domain.messages import DeployedSpec, DriverStatus, ProblemReport
from host import environment
from spark_jobs.driver import __main__ as driver
from spark_jobs.driver.loop import MakeWayError
from spark_jobs.driver.only_driver import AnotherDriverError


class Channel:
    plan = latest = None
    session = "a1"

    def __init__(self, **named: Any) -> None:
        self.closed = False

    def connect(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Telemetry of a driver whose surroundings are played."""
    told: list[Any] = []
    settings = environment.read({})
    monkeypatch.setattr("host.environment.read", lambda: settings)
    monkeypatch.setattr(driver, "TopologyChannel", Channel)
    stream = SimpleNamespace(send=told.append, close=lambda: None)
    monkeypatch.setattr(driver, "TelemetryStream", lambda url: stream)
    monkeypatch.setattr("logging.config.dictConfig", lambda configuration: None)
    monkeypatch.setattr(driver, "prepare_spark_environment", lambda: None)
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    return told


def ending(monkeypatch: pytest.MonkeyPatch, error: Exception) -> int:
    def drive(*given: Any) -> int:
        raise error

    monkeypatch.setattr(driver, "_drive", drive)
    return driver.main(["--topology", "t"])


def test_an_error_is_reported(monkeypatch: pytest.MonkeyPatch, sent: list[Any]) -> None:
    assert ending(monkeypatch, RuntimeError("five jobs failed")) == 1
    assert [type(one) for one in sent] == [ProblemReport, DriverStatus]
    assert ending(monkeypatch, TimeoutError()) == 1
    assert (sent[2].what, sent[3].error) == ("TimeoutError", "TimeoutError")


def test_one_that_makes_way_reports_no_failure(monkeypatch: pytest.MonkeyPatch, sent: list[Any]) -> None:
    """A failure would end the operation that has just deployed the topology, and an exit with 0 would say
    that this deployment has completed."""
    assert ending(monkeypatch, MakeWayError("plan 3 is of a later deployment")) == 1
    assert sent == []


def test_one_that_was_started_before_zookeeper_knew_has_not_completed(tmp_path: Path) -> None:
    """The launcher goes by the database, and would not start it again for this deployment."""
    spec = DeployedSpec(name="t", version=1, spec={}, desired="stopped")
    channel: Any = SimpleNamespace(spec=spec, wait_for_predecessor=lambda: None, refresh=lambda force: None)
    options, settings = argparse.Namespace(topology="t"), environment.read({"RESURGE_HOME": str(tmp_path)})
    telemetry: Any = None
    with pytest.raises(MakeWayError, match="does not know of its deployment yet"):
        driver._drive(options, settings, threading.Event(), telemetry, channel)


def test_a_second_driver_says_so_and_nothing_of_the_topology(
    monkeypatch: pytest.MonkeyPatch, sent: list[Any]
) -> None:
    """What the first one says of the topology goes on to be true."""
    assert ending(monkeypatch, AnotherDriverError("another driver of topology 't' is running")) == 1
    assert [type(one) for one in sent] == [ProblemReport]
