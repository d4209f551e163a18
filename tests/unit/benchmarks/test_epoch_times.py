"""What benchmarks read in a driver's epoch log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.epoch_times import EpochTimes, following
from domain.execution.job import EpochPlan
from domain.execution.progress import Position
from harness.eventually import eventually
from spark_jobs.driver.epoch_log import EpochLog


def times(*entries: dict[str, Any]) -> EpochTimes:
    found = EpochTimes()
    for entry in entries:
        found.take(json.dumps(entry).encode())
    return found


def plan(epoch: int) -> dict[str, Any]:
    """Epochs end at the full seconds of their number."""
    return {"t": "plan", "epoch": epoch, "at": float(epoch)}


def commit(at: float, epoch: int, **ahead: int) -> dict[str, Any]:
    return {"t": "commit", "at": at, "epoch": epoch, **({"ahead": ahead} if ahead else {})}


FAILED = times(
    *(plan(epoch) for epoch in range(1, 11)),
    commit(4.4, 4),
    # Killed at 5.2. What had been computed before is committed, then `b` goes back to a checkpoint.
    commit(5.3, 5),
    {"t": "applied", "generation": 2, "epoch": 3, "ahead": {"a": 5}},
    commit(6.9, 3, a=6),
    commit(7.5, 5, a=7),
    commit(8.1, 7),
    commit(9.4, 9),
)


def test_output_is_the_first_epoch_that_was_not_complete_at_the_kill() -> None:
    assert FAILED.due_after(5.2) == 6
    assert FAILED.output("a", 5.2) == 6.9
    assert FAILED.output("b", 5.2) == 8.1, "what it replays is no output"


def test_news_is_any_epoch_that_it_had_not_applied_before() -> None:
    assert FAILED.news("a", 5.2) == FAILED.news("b", 5.2) == 5.3


def test_no_output_yet() -> None:
    assert FAILED.output("a", 9.5) is None, "epoch 10 is not committed"
    assert FAILED.output("a", 20.0) is None, "no such epoch is known"
    assert FAILED.news("a", 9.5) is None


def test_the_longest_gap_counts_from_the_last_advance_before_the_kill() -> None:
    assert FAILED.longest_gap("a", 5.2, 9.5) == pytest.approx(1.9)
    assert FAILED.longest_gap("b", 5.2, 9.5) == pytest.approx(2.8)
    assert FAILED.longest_gap("b", 5.2, 5.2) is None


def test_the_log_of_a_driver_is_followed_over_a_trim(tmp_path: Path) -> None:
    path = tmp_path / "epochs.log"
    log = EpochLog(path)
    log.start(at=0.0, origin_us=0)

    def epoch(number: int) -> None:
        log.plan([EpochPlan(epoch=number, slices={}, watermark=0, previous_watermark=0, at=float(number))])
        log.commit(Position(number), at=number + 0.5)

    epoch(1)
    with following(path) as found:
        eventually(lambda: found.output("a", 0.5) == 1.5)
        epoch(2)
        log.trim(2)
        epoch(3)
        eventually(lambda: found.output("a", 2.5) == 3.5)
        assert [one.committed for one in found.commits] == [1, 2, 3]
    log.close()
