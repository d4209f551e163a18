from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from host.process_secrets import NEEDED, SECRETS
from workers.launcher import drivers as drivers_module
from workers.launcher.drivers import Drivers, WantedDriver

WANTED = WantedDriver(topology="hashtags", deployment="1/a", finished=False)


class Driver:
    """A process in place of the driver: it runs a script and counts its starts."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.script = "import time; time.sleep(60)"

    def command(self, topology: str) -> list[str]:
        count = f"open({str(self.home / 'starts')!r}, 'a').write('x')\n"
        return [sys.executable, "-c", count + self.script]

    @property
    def starts(self) -> int:
        path = self.home / "starts"
        return len(path.read_text()) if path.exists() else 0

    def launcher(self) -> Drivers:
        return Drivers(self.home, command=self.command)


def reconcile_until(
    drivers: Drivers, wanted: list[WantedDriver], condition: Callable[[], bool], timeout: float = 15.0
) -> bool:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        drivers.reconcile(wanted)
        if condition():
            return True
        time.sleep(0.05)
    return False


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    monkeypatch.setattr(drivers_module, "BACK_OFF_FIRST", 0.2)
    made = Driver(tmp_path)
    yield made
    made.launcher().end_all(grace=1)


def test_one_driver_for_a_wanted_topology(driver: Driver) -> None:
    drivers = driver.launcher()
    assert reconcile_until(drivers, [WANTED], lambda: driver.starts == 1)
    for _ in range(5):
        drivers.reconcile([WANTED])
    assert driver.starts == 1


def test_the_next_launcher_adopts_it(driver: Driver) -> None:
    assert reconcile_until(driver.launcher(), [WANTED], lambda: driver.starts == 1)
    second = driver.launcher()
    for _ in range(5):
        second.reconcile([WANTED])
        time.sleep(0.05)
    assert driver.starts == 1


def test_a_driver_that_failed_is_started_again_later_and_later(driver: Driver) -> None:
    driver.script = "raise SystemExit(3)"
    drivers = driver.launcher()
    started = time.monotonic()
    assert reconcile_until(drivers, [WANTED], lambda: driver.starts == 4)
    # After 0.2, 0.4 and 0.8 seconds.
    assert time.monotonic() - started > 1.4


def test_a_completed_driver_stays_ended_until_the_next_deployment(driver: Driver) -> None:
    driver.script = "raise SystemExit(0)"
    drivers = driver.launcher()
    assert reconcile_until(drivers, [WANTED], lambda: driver.starts == 1)
    assert not reconcile_until(drivers, [WANTED], lambda: driver.starts > 1, timeout=1)
    assert not reconcile_until(driver.launcher(), [WANTED], lambda: driver.starts > 1, timeout=0.5)
    again = WantedDriver(topology="hashtags", deployment="1/b", finished=False)
    assert reconcile_until(driver.launcher(), [again], lambda: driver.starts == 2)


def test_a_completed_driver_whose_last_status_was_lost_sends_it_again(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.script = "raise SystemExit(0)"
    drivers = driver.launcher()
    completed = driver.home / "run" / "drivers" / "hashtags.completed"
    assert reconcile_until(drivers, [WANTED], completed.exists)
    monkeypatch.setattr(drivers_module, "UNTOLD_AFTER", 0.5)
    assert reconcile_until(drivers, [WANTED], lambda: driver.starts == 2)
    known = replace(WANTED, finished=True)
    assert not reconcile_until(drivers, [known], lambda: driver.starts > 2, timeout=1)


def test_a_driver_that_completes_before_it_is_recorded_has_completed(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.script = "raise SystemExit(0)"
    drivers = driver.launcher()
    with monkeypatch.context() as patch:
        patch.setattr("host.detached.start_time", lambda pid: None)
        drivers.reconcile([WANTED])
    assert reconcile_until(drivers, [WANTED], lambda: driver.starts == 1)
    assert not reconcile_until(drivers, [WANTED], lambda: driver.starts > 1, timeout=0.5)
    assert not reconcile_until(driver.launcher(), [WANTED], lambda: driver.starts > 1, timeout=0.5)


def test_a_topology_known_as_completed_gets_none(driver: Driver) -> None:
    finished = WantedDriver(topology="hashtags", deployment="1/a", finished=True)
    assert not reconcile_until(driver.launcher(), [finished], lambda: driver.starts > 0, timeout=0.3)


def test_an_unwanted_driver_is_asked_and_then_made_to_stop(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    monkeypatch.setattr(drivers_module, "STOP_PATIENCE", 0.2)
    monkeypatch.setattr(drivers_module, "STOP_GRACE", 0.3)
    drivers = driver.launcher()
    hurried = replace(WANTED, checkpoint_timeout=0.1)
    assert reconcile_until(drivers, [hurried], lambda: driver.starts == 1)
    record = next((driver.home / "run" / "drivers").glob("*.json"))
    assert reconcile_until(drivers, [], lambda: not record.exists())


@pytest.mark.parametrize("undeployed", [True, False], ids=["seen", "missed"])
def test_a_driver_of_an_earlier_deployment_makes_room_for_the_next(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, undeployed: bool
) -> None:
    """It may have been frozen while its topology was undeployed and deployed again."""
    driver.script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    monkeypatch.setattr(drivers_module, "STOP_PATIENCE", 0.2)
    monkeypatch.setattr(drivers_module, "STOP_GRACE", 0.3)
    drivers = driver.launcher()
    hurried = replace(WANTED, checkpoint_timeout=0.1)
    again = replace(hurried, deployment="2/b")
    assert reconcile_until(drivers, [hurried], lambda: driver.starts == 1)
    if undeployed:
        drivers.reconcile([])
    assert reconcile_until(drivers, [again], lambda: driver.starts == 2)
    record = next((driver.home / "run" / "drivers").glob("*.json"))
    assert '"2/b"' in record.read_text()
    assert not reconcile_until(drivers, [again], lambda: driver.starts > 2, timeout=1)


def test_a_driver_has_time_for_its_last_checkpoint(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers_module, "STOP_PATIENCE", 0.1)
    told: list[int] = []
    monkeypatch.setattr(drivers_module, "send", lambda pid, number: told.append(number))
    drivers = driver.launcher()
    patient = replace(WANTED, checkpoint_timeout=1.0)
    assert reconcile_until(drivers, [patient], lambda: driver.starts == 1)
    since = time.monotonic()
    assert reconcile_until(drivers, [], lambda: bool(told))
    assert time.monotonic() - since > 1.0


def test_a_driver_gets_its_secrets_only(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, "a secret of this installation")
    driver.script = f"""
import os, time
open({str(driver.home / "seen.part")!r}, "w").write(" ".join(os.environ))
os.replace({str(driver.home / "seen.part")!r}, {str(driver.home / "seen")!r})
time.sleep(60)
"""
    assert reconcile_until(driver.launcher(), [WANTED], (driver.home / "seen").exists)
    assert SECRETS & set((driver.home / "seen").read_text().split()) == NEEDED["driver"]


def test_one_whose_threads_are_still_ending_has_completed(driver: Driver) -> None:
    """Until the last thread has ended there is no exit code, although the process counts as a zombie."""
    driver.script = (
        "import ctypes, os, threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(0.5), os._exit(0))).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    drivers = driver.launcher()
    completed = driver.home / "run" / "drivers" / "hashtags.completed"
    assert reconcile_until(drivers, [WANTED], completed.exists)
    assert driver.starts == 1
