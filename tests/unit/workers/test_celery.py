"""The configuration of the workers."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from celery.beat import SchedulingError
from celery.utils.imports import symbol_by_name
from django.db import OperationalError
from redis.exceptions import ReadOnlyError

from coordination.session import CoordinationUnavailableError
from domain.messages import EpochReport, ProblemReport, Telemetry
from host.environment import ROOT
from workers import tasks
from workers.bootsteps import DetectionStep, ForkingPoolError, IngestionStep
from workers.celery_app import SWEEP_INTERVAL, app
from workers.consumer import ClosingConsumer
from workers.ingestion import _coalesced, _entries


def worker(queues: set[str], pool: str) -> Any:
    return SimpleNamespace(
        app=SimpleNamespace(amqp=SimpleNamespace(queues=SimpleNamespace(consume_from=queues))),
        pool_cls=type("TaskPool", (), {"__module__": f"celery.concurrency.{pool}"}),
    )


def test_a_worker_loads_little() -> None:
    """What costs half of its start: DuckDB, Arrow, and what REST and its pages need."""
    probe = "import json, sys, workers.celery_app; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.check_output([sys.executable, "-c", probe], cwd=ROOT))
    assert "workers.tasks" in loaded
    for name in ("duckdb", "pyarrow", "rest_framework.serializers", "controlplane.config.urls"):
        assert name not in loaded


def test_threads_run_only_in_the_detection_worker() -> None:
    for step in (DetectionStep, IngestionStep):
        one = step.__new__(step)
        assert one.include_if(worker({"detection"}, "thread"))
        assert not one.include_if(worker({"recovery"}, "thread"))


def test_detection_refuses_a_pool_that_forks() -> None:
    step = DetectionStep.__new__(DetectionStep)
    with pytest.raises(ForkingPoolError, match="--pool threads"):
        step.start(worker({"detection"}, "prefork"))


def test_messages_are_json_late_and_short_lived() -> None:
    assert app.conf.accept_content == ["json"]
    assert app.conf.task_acks_late
    assert app.conf.task_reject_on_worker_lost
    # Zero is no limit at all without the second one.
    assert (app.conf.worker_prefetch_multiplier, app.conf.worker_disable_prefetch) == (0, True)
    assert app.conf.broker_connection_max_retries is None
    sweep = app.conf.beat_schedule["sweep"]
    assert sweep["schedule"] == SWEEP_INTERVAL == 2.0
    assert sweep["options"]["expires"] <= 2 * SWEEP_INTERVAL
    for name in ("incident_step", "topology_publish", "operation_run", "sweep"):
        assert app.tasks[f"recovery.{name}"]
        assert app.amqp.router.route({}, f"recovery.{name}")["queue"].name == "recovery"
    assert app.tasks["maintenance.trim"]


def test_a_task_of_beat_that_still_runs_takes_no_second_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []

    def look() -> None:
        looks.append("look")
        if len(looks) == 1:  # beat sends it again meanwhile
            other = threading.Thread(target=tasks.alerts)
            other.start()
            other.join()

    monkeypatch.setattr(tasks, "alerts_evaluate", look)
    tasks.alerts()
    assert looks == ["look"]
    tasks.alerts()
    assert looks == ["look", "look"]


def test_a_connection_that_cannot_be_used_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Redis takes no writes, it is made and then refused, again and again."""
    assert symbol_by_name(app.conf.worker_consumer) is ClosingConsumer

    def refused(*_: Any) -> None:
        raise ReadOnlyError("You can't write against a read only replica.")

    closed: list[bool] = []
    transport = SimpleNamespace(register_with_event_loop=refused)
    made = SimpleNamespace(
        transport=transport, connection=None, connection_errors=(), channel_errors=(),
        close=lambda: closed.append(True),
    )  # fmt: skip
    monkeypatch.setattr("celery.worker.consumer.Consumer.connection_for_read", lambda *_, **__: made)
    consumer = object.__new__(ClosingConsumer)
    consumer.hub, consumer.amqheartbeat = object(), None
    with pytest.raises(ReadOnlyError):
        consumer.connect()
    assert closed == [True]


@pytest.mark.parametrize("error", [CoordinationUnavailableError("away"), OperationalError("locked")])
def test_what_is_temporary_is_left_to_the_next_sweep(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr("workers.tasks.coordination", fail)
    tasks.incident_step(1)
    tasks.topology_publish("counts")
    tasks.operation_run("2e9d6d1e-0000-4000-8000-000000000000")


def test_a_fault_in_one_piece_is_logged_and_passed_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("workers.tasks.coordination", lambda: 1 / 0)
    with caplog.at_level(logging.ERROR):
        tasks.incident_step(1)


@pytest.mark.django_db
def test_sweep_and_trim_on_an_empty_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.tasks.coordination", _no_zookeeper)
    tasks.sweep()
    tasks.trim()


def _no_zookeeper() -> Any:
    raise CoordinationUnavailableError("away")


def test_entries_of_either_protocol() -> None:
    fields = {b"m": b"{}"}
    assert _entries([[b"s", [(b"1-0", fields)]]]) == [(b"1-0", fields)]
    assert _entries({b"s": [[(b"1-0", fields)]]}) == [(b"1-0", fields)]
    assert _entries(None) == []
    assert _entries([[b"s", [(b"1-0", None)]]]) == [(b"1-0", {})]


def test_backlog_keeps_the_newest_epoch_of_each_topology() -> None:
    def epoch(topology: str, number: int) -> EpochReport:
        return EpochReport(
            topology=topology, generation=1, first=number, last=number, head=number, committed=number,
            tuples=1, started_at=0.0, ended_at=1.0, input_rate=1.0, watermark=0.0, state="running",
            absent=[], queries={}, partitions={},
        )  # fmt: skip

    problem = ProblemReport(topology="a", where="x", what="y")
    batch: list[Telemetry] = [*(epoch("a", i) for i in range(10)), problem, epoch("b", 1), epoch("b", 2)]
    kept = _coalesced({str(index).encode(): message for index, message in enumerate(batch)})
    assert list(kept.values()) == [epoch("a", 9), problem, epoch("b", 1), epoch("b", 2)]


def test_beat_says_in_a_line_that_redis_takes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise SchedulingError("Couldn't apply scheduled task sweep: connection refused")

    scheduler: Any = symbol_by_name(app.conf.beat_scheduler)
    beat = scheduler(app=app, schedule_filename="not used")
    monkeypatch.setattr(beat, "apply_async", refused)
    beat.apply_entry(beat.schedule["sweep"])
    (record,) = caplog.records
    assert "connection refused" in record.getMessage()
    assert "RESURGE_REDIS_URL" in record.getMessage()
    assert record.exc_info is None


def test_beat_goes_on_when_the_clock_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 11, 30, 12, tzinfo=UTC)
    monkeypatch.setattr(app, "now", lambda: now)
    scheduler: Any = symbol_by_name(app.conf.beat_scheduler)
    sent: Counter[str] = Counter()
    monkeypatch.setattr(scheduler, "producer", None)
    monkeypatch.setattr(scheduler, "apply_entry", lambda self, entry, producer: sent.update([entry.name]))
    beat = scheduler(app=app, schedule_filename="not used")

    def minutes(count: int) -> Counter[str]:
        nonlocal now
        sent.clear()
        for _ in range(count * 120):
            now += timedelta(seconds=0.5)
            while not beat.tick():
                pass
        return Counter(sent)

    before = minutes(2)
    assert before["sweep"] >= 59
    now -= timedelta(hours=1)
    after = minutes(2)
    assert after["sweep"] >= 59
    assert set(after) == set(before) == set(app.conf.beat_schedule)
