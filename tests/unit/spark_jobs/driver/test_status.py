"""What the driver says of itself: every change at once, a refused plan among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from domain.execution.instructions import Publish
from domain.messages import DriverStatus, NodeKeys, ProblemReport
from spark_jobs.driver.epoch_log import EpochLog
from spark_jobs.driver.status import STATUS_INTERVAL, Status


class Channel:
    """Keeps what was published."""

    session = "a1"

    def __init__(self) -> None:
        self.published: list[DriverStatus] = []

    def publish(self, status: DriverStatus) -> None:
        self.published.append(status)


@pytest.fixture
def log(tmp_path: Path) -> EpochLog:
    return EpochLog(tmp_path / "epochs.log")


def test_a_refused_plan_is_published_at_once_and_then_every_few_seconds(log: EpochLog) -> None:
    channel: Any = Channel()
    sent: list[Any] = []
    now = [100.0]
    status = Status("t", channel, sent.append, lambda: now[0])

    def enter(refused: int, keys: dict[str, NodeKeys] | None = None) -> None:
        told = Publish(
            state="running", generation=1, checkpoint=15, absent=[], behind=[], refused=refused,
            restorable=[10, 15], load=0.0, slow=[], catch_up=None, not_gaining=0.0, error="", acting={},
            shadows={}, tentative={},
        )  # fmt: skip
        status.enter(told, log=log, keys=keys or {})

    enter(0)
    enter(2)
    enter(2)
    assert [(one.refused, one.restorable, one.generation) for one in channel.published] == [
        (0, [10, 15], 1),
        (2, [10, 15], 1),
    ]
    assert sent == channel.published, "telemetry tells it as well"
    now[0] += STATUS_INTERVAL
    enter(2)
    assert len(channel.published) == 3
    assert len(sent) == 2, "what is no news is for ZooKeeper only"
    keys = {"node-1": NodeKeys(stored=5)}
    enter(2, keys)
    assert len(channel.published) == 3
    now[0] += STATUS_INTERVAL
    enter(2, keys)
    assert (len(channel.published), len(sent)) == (4, 3)
    assert sent[-1].keys == keys


def test_a_problem_says_where_what_and_what_to_do(log: EpochLog) -> None:
    channel: Any = Channel()
    sent: list[Any] = []
    Status("t", channel, sent.append, lambda: 1.0).problem("plan 2", "cannot be applied", "Recover it.")
    assert sent == [ProblemReport(topology="t", where="plan 2", what="cannot be applied", hint="Recover it.")]
