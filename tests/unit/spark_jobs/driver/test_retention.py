"""The end of a driver waits until its last checkpoint is recorded."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import structs

from spark_jobs.driver.retention import Retention
from spark_jobs.state.checkpoint_storage import CheckpointStorage, Deployment
from spark_jobs.state.records import CheckpointRecord
from spark_jobs.state.state_storage import UnavailableError
from tests.unit.spark_jobs.driver.test_from_savepoint import CHECKPOINT, RECORD


def test_it_waits_for_a_slow_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, may_store, asked = f"file://{tmp_path}", threading.Event(), threading.Event()
    store = CheckpointStorage.store_record

    def slow(self: CheckpointStorage, record: CheckpointRecord) -> None:
        asked.set()
        assert may_store.wait(30)
        store(self, record)

    monkeypatch.setattr(CheckpointStorage, "store_record", slow)
    retention = Retention(url=url, topology="t", partitions=[])
    retention.keep([CHECKPOINT], 3, RECORD)
    closing_it = threading.Thread(target=retention.close)
    closing_it.start()
    assert asked.wait(30)
    assert closing_it.is_alive()
    may_store.set()
    closing_it.join(30)
    assert not closing_it.is_alive()
    with closing(CheckpointStorage(url)) as storage:
        assert storage.record(Deployment("t", 3), CHECKPOINT).plan == RECORD.plan


@pytest.mark.parametrize("force", [True, False])
def test_a_record_is_forced_to_disk_only_where_that_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    forced: list[int] = []
    for call in ("fdatasync", "fsync"):
        monkeypatch.setattr(os, call, forced.append)
    url = f"file://{tmp_path}"
    retention = Retention(url=url, topology="t", partitions=[], force=force)
    retention.keep([CHECKPOINT], 3, RECORD)
    retention.close()
    with closing(CheckpointStorage(url)) as storage:
        assert storage.record(Deployment("t", 3), CHECKPOINT).plan == RECORD.plan
    assert bool(forced) == force


def test_what_is_outside_of_storage_goes_in_its_thread(tmp_path: Path) -> None:
    forgotten: list[tuple[int, str]] = []
    retention = Retention(
        url=f"file://{tmp_path}",
        topology="t",
        partitions=[],
        forget=lambda below: forgotten.append((below, threading.current_thread().name)),
    )
    retention.keep([CHECKPOINT - 1, CHECKPOINT], 3, RECORD)
    retention.close()
    assert forgotten == [(CHECKPOINT, "retention")]


def test_of_many_checkpoints_each_is_recorded_and_some_delete(tmp_path: Path) -> None:
    """The clock shows ten seconds more with every look."""
    forgotten: list[int] = []
    looks = iter(range(0, 1_000, 10))
    retention = Retention(
        url=f"file://{tmp_path}",
        topology="t",
        partitions=[],
        forget=forgotten.append,
        every=35.0,
        clock=lambda: float(next(looks)),
    )
    taken = range(CHECKPOINT, CHECKPOINT + 9)
    for number in taken:
        plan = structs.replace(RECORD.plan, epoch=number)
        retention.keep([number], 3, structs.replace(RECORD, checkpoint=number, plan=plan))
    retention.close()
    assert forgotten == [CHECKPOINT, CHECKPOINT + 4, CHECKPOINT + 8]
    with closing(CheckpointStorage(f"file://{tmp_path}")) as storage:
        assert [storage.record(Deployment("t", 3), number).checkpoint for number in taken] == list(taken)


@pytest.mark.parametrize("what", ["store_record", "__init__"])
def test_it_waits_for_none_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """The bound of the wait is longer than the test may take."""
    monkeypatch.setattr("spark_jobs.driver.retention.RECORDING", 3_600.0)

    def failing(*_: object, **__: object) -> None:
        raise UnavailableError("no answer")

    monkeypatch.setattr(CheckpointStorage, what, failing)
    retention = Retention(url=f"file://{tmp_path}", topology="t", partitions=[])
    retention.keep([CHECKPOINT], 3, RECORD)
    retention.keep([CHECKPOINT], 3)
    retention.close()
