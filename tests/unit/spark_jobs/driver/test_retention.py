"""The end of a driver waits until its last checkpoint is recorded."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

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
