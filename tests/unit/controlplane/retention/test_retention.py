"""Every kind of row has its bounds, which are enforced in small steps and shown."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone
from knox.models import AuthToken
from rest_framework.test import APIClient

from controlplane.alerts.models import Alert, Silence
from controlplane.api.models import KeptAnswer
from controlplane.checkpoints.models import Checkpoint
from controlplane.events.choices import EventKind
from controlplane.events.models import AuditEntry, Event, Operation
from controlplane.events.selectors import event_position
from controlplane.events.services import event_publish
from controlplane.incidents.models import Incident, RecoveryPlan
from controlplane.measurements.models import Measurement
from controlplane.nodes.models import Node, NodeSample
from controlplane.retention import kinds
from controlplane.retention.kinds import CHECKPOINTS_SHOWN, KINDS, PLANS_KEPT, Kind
from controlplane.retention.logs import log_files, logs_trim
from controlplane.retention.selectors import retention_read
from controlplane.retention.services import STEP, STEPS, kind_trim, retention_enforce
from controlplane.topologies.models import AvailabilitySample, Problem, TentativePeriod, Topology
from controlplane.webhooks.models import Delivery
from host.environment import Keep, read
from workers import tasks
from workers.celery_app import TRIM_INTERVAL

BY_NAME = {kind.name: kind for kind in KINDS}
DEFAULTS = read({})


def event(at: datetime, kind: EventKind) -> Event:
    with transaction.atomic():
        made = event_publish(kind=kind, changes=[])
    Event.objects.filter(pk=made.pk).update(at=at)
    return made


def operation(at: datetime) -> Operation:
    made = Operation.objects.create(kind="topology.deploy", target="t", state="succeeded", requested_by="ada")
    Operation.objects.filter(pk=made.pk).update(created_at=at)
    return made


def audit(at: datetime) -> AuditEntry:
    made = AuditEntry.objects.create(actor="ada", action="x", target="t")
    AuditEntry.objects.filter(pk=made.pk).update(at=at)
    return made


def answer(at: datetime) -> KeptAnswer:
    made = KeptAnswer.objects.create(actor="ada", key=str(time.perf_counter_ns()), request="x")
    KeptAnswer.objects.filter(pk=made.pk).update(created_at=at)
    return made


def attempt(at: datetime) -> AccessAttempt:
    made = AccessAttempt.objects.create(
        username=str(time.perf_counter_ns()), failures_since_start=1, ip_address="::1"
    )
    AccessAttempt.objects.filter(pk=made.pk).update(attempt_time=at)
    return made


def alert(at: datetime) -> Alert:
    return Alert.objects.create(
        rule="lag-high", metric="lag", comparison="above", threshold=30.0, severity="warning",
        topology="counts", state="resolved", since=at, resolved_at=at,
    )  # fmt: skip


def token(at: datetime) -> AuthToken:
    user, _ = get_user_model().objects.get_or_create(username="ada")
    made, _ = AuthToken.objects.create(user=user)
    AuthToken.objects.filter(pk=made.pk).update(expiry=at)
    return made


def checkpoint(at: datetime) -> Checkpoint:
    topology = Topology.objects.get()
    last = Checkpoint.objects.order_by("-epoch").first()
    return Checkpoint.objects.create(
        topology=topology, epoch=last.epoch + 1 if last else 1, state="completed", started_at=at
    )


def plan(at: datetime) -> RecoveryPlan:
    topology = Topology.objects.get()
    incident, _ = Incident.objects.get_or_create(number=1, defaults={"detected_at": at, "opened_at": at})
    made = RecoveryPlan.objects.create(
        topology=topology, incident=incident, generation=topology.plans.count() + 1_000, kind="recover"
    )
    RecoveryPlan.objects.filter(pk=made.pk).update(created_at=at)
    return made


def measurement(at: datetime) -> Measurement:
    part = str(time.perf_counter_ns())
    return Measurement.objects.create(
        kind="query", topology=Topology.objects.get(), part=part, seconds=600, at=at, figures={}
    )


MAKE: dict[str, Callable[[datetime], Any]] = {
    "events": lambda at: event(at, EventKind.TOPOLOGY_UPDATED),
    "metrics": lambda at: event(at, EventKind.TOPOLOGY_METRICS),
    "availability": lambda at: AvailabilitySample.objects.create(
        topology=Topology.objects.get(), at=at, available=1, total=1, weighted=1.0
    ),
    "node_samples": lambda at: NodeSample.objects.create(node=Node.objects.all()[0], at=at, cpu_percent=1.0),
    "measurements": measurement,
    "checkpoints": checkpoint,
    "plans": plan,
    "audit": audit,
    "operations": operation,
    "problems": lambda at: Problem.objects.create(at=at, where="x", what="y"),
    "sessions": lambda at: Session.objects.create(
        session_key=str(time.perf_counter_ns()), session_data="", expire_date=at
    ),
    "tokens": token,
    "answers": answer,
    "deliveries": lambda at: Delivery.objects.create(
        webhook_id=1, kind="x", state="succeeded", due_at=at, created_at=at, ended_at=at
    ),
    "alerts": alert,
    "silences": lambda at: Silence.objects.create(
        rule="lag-high", until=at, author="ada", reason="x", ended_at=at
    ),
    "sign_ins": attempt,
    "tentative": lambda at: TentativePeriod.objects.create(
        topology=Topology.objects.get(),
        query="O0[0]",
        generation=1,
        began_at=at,
        ended_at=at,
        first_epoch=1,
        last_epoch=2,
        fidelity=0.5,
    ),
}


NEWEST = {"checkpoints": CHECKPOINTS_SHOWN, "plans": PLANS_KEPT}


@pytest.fixture
def nothing(topology: Topology) -> Topology:
    for kind in KINDS:
        kind.rows().delete()
    return topology


def bound(settings: Any, kind: Kind, keep: Keep) -> None:
    settings.RESURGE = replace(settings.RESURGE, **{kind.field: keep})


def test_every_kind_is_tried_here() -> None:
    assert set(MAKE) == set(BY_NAME)


@pytest.mark.parametrize("name", MAKE)
def test_what_is_too_old_goes_and_the_rest_stays(name: str, nothing: Topology, settings: Any) -> None:
    kind = BY_NAME[name]
    bound(settings, kind, Keep(3_600.0, 1_000))
    now = timezone.now()
    for _ in range(3):
        MAKE[name](now - timedelta(hours=2))
    young = [MAKE[name](now - timedelta(minutes=30)).pk for _ in range(2)]
    young += [MAKE[name](now).pk for _ in range(NEWEST.get(name, 0))]
    assert kind_trim(kind) == 3
    assert set(young) == set(kind.rows().values_list("pk", flat=True))
    assert kind_trim(kind) == 0


def test_sessions_of_users_stay_however_many_there_are(nothing: Topology, settings: Any) -> None:
    bound(settings, BY_NAME["sessions"], Keep(86_400.0, 2))
    for hours in range(5):
        MAKE["sessions"](timezone.now() + timedelta(hours=1 + hours))
    assert kind_trim(BY_NAME["sessions"]) == 0


@pytest.mark.parametrize("name", MAKE)
def test_of_too_many_the_oldest_go(name: str, nothing: Topology, settings: Any) -> None:
    kind = BY_NAME[name]
    bound(settings, kind, Keep(86_400.0, 2))
    start = timezone.now() - timedelta(hours=10)
    made = [MAKE[name](start + timedelta(minutes=minute)).pk for minute in range(5)]
    newest = [MAKE[name](timezone.now()).pk for _ in range(NEWEST.get(name, 0))]
    assert kind_trim(kind) == 3
    assert set(kind.rows().values_list("pk", flat=True)) == {*made[3:], *newest}


def test_steps_are_small_and_few(nothing: Topology, settings: Any) -> None:
    kind = BY_NAME["problems"]
    for _ in range(10):
        MAKE["problems"](timezone.now() - timedelta(days=100))
    assert kind_trim(kind, step=2, steps=3) == 6
    assert kind_trim(kind, step=2, steps=3) == 4


def test_more_goes_than_a_thousand_topologies_bring() -> None:
    """Each has one event and one sample of availability a second; `maintenance.trim` comes once a minute."""
    assert STEP * STEPS > 1_000 * TRIM_INTERVAL


def test_what_is_in_use_stays(nothing: Topology, settings: Any) -> None:
    old = timezone.now() - timedelta(days=2_000)
    for kind in KINDS:
        bound(settings, kind, Keep(0.0, 0))
    operation(old)
    Operation.objects.update(state="running")
    MAKE["deliveries"](old)
    Delivery.objects.update(state="pending", ended_at=None)
    alert(old)
    Alert.objects.update(state="firing", resolved_at=None)
    MAKE["silences"](old)
    Silence.objects.update(ended_at=None)
    for _ in range(CHECKPOINTS_SHOWN + 2):
        checkpoint(old)
    Checkpoint.objects.filter(epoch=1).update(stored=True)
    plan(old)
    RecoveryPlan.objects.update(incident=None, kind="deploy")
    for _ in range(PLANS_KEPT + 2):
        plan(old)
    token(timezone.now() + timedelta(days=1))
    attempt(timezone.now())
    retention_enforce(lambda action, of: action())
    assert Operation.objects.count() == Delivery.objects.count() == AuthToken.objects.count() == 1
    assert Alert.objects.count() == Silence.objects.count() == 1, "they have not ended"
    assert AccessAttempt.objects.count() == 1, "it locks a user out"
    assert Checkpoint.objects.count() == CHECKPOINTS_SHOWN + 1, "what can be restored, and what is shown"
    assert not Checkpoint.objects.filter(epoch=2).exists()
    assert RecoveryPlan.objects.count() == PLANS_KEPT + 1, "with the one that began the deployment"
    assert RecoveryPlan.objects.filter(kind="deploy").exists()


def test_long_buckets_stay_however_many_short_ones_there_are(nothing: Topology, settings: Any) -> None:
    kind = BY_NAME["measurements"]
    bound(settings, kind, Keep(86_400.0, 2))
    month = [measurement(timezone.now() - timedelta(hours=hours)).pk for hours in (2, 1)]
    for seconds in (10, 10, 10, 60):
        Measurement.objects.filter(pk=measurement(timezone.now()).pk).update(seconds=seconds)
    assert kind_trim(kind) == 0
    measurement(timezone.now())
    assert kind_trim(kind) == 1, "the bound is one of long buckets"
    assert not Measurement.objects.filter(pk=month[0]).exists()


def test_checkpoints_of_a_thousand_topologies_go(
    nothing: Topology, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite takes no more than a thousand conditions."""
    monkeypatch.setattr(kinds, "CHECKPOINTS_SHOWN", 1)
    bound(settings, BY_NAME["checkpoints"], Keep(3_600.0, 100_000))
    many = Topology.objects.bulk_create(Topology(name=f"many-{number}") for number in range(1_100))
    old = timezone.now() - timedelta(hours=2)
    Checkpoint.objects.bulk_create(
        Checkpoint(topology=one, epoch=epoch, state="completed", started_at=old)
        for one in many
        for epoch in (1, 2)
    )
    assert kind_trim(BY_NAME["checkpoints"]) == 1_100
    assert set(Checkpoint.objects.values_list("epoch", flat=True)) == {2}


@pytest.mark.skipif(connection.vendor != "sqlite", reason="it asks for SQLite's plan")
@pytest.mark.parametrize(
    "name", sorted(set(BY_NAME) - {"tentative", "tokens", "sign_ins", "checkpoints", "plans"})
)
def test_what_is_too_old_is_found_without_reading_the_rest(name: str, nothing: Topology) -> None:
    """No other process writes meanwhile. The kinds that are left out have few rows."""
    kind = BY_NAME[name]
    old = kind.removable_rows().filter(**{f"{kind.at}__lt": timezone.now() - kind.age})
    plan = old.order_by(kind.at, "pk").values_list("pk", flat=True)[:10].explain()
    assert " SEARCH " in plan
    assert " SCAN " not in plan


def test_clients_learn_that_events_are_gone(nothing: Topology, no_zookeeper: None) -> None:
    kept = MAKE["events"](timezone.now() - timedelta(hours=2))
    metrics = MAKE["metrics"](timezone.now() - timedelta(hours=2))
    young = MAKE["metrics"](timezone.now())
    tasks.trim()
    assert list(Event.objects.values_list("sequence", flat=True)) == [kept.sequence, young.sequence]
    assert event_position() == (young.sequence, metrics.sequence)


# ---- logs ----------------------------------------------------------------------------------------


def log(home: Path, name: str, size: int, age: float = 0.0) -> Path:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_logs_by_age_and_size(tmp_path: Path) -> None:
    old = log(tmp_path, "log/driver.gone.log", 9_000, age=7_200)
    worker = log(tmp_path, "log/node-1.log", 9_000)
    executor = log(tmp_path, "nodes/node-1/work/counts/app-1/0/stderr", 700_000, age=60)
    supervised = log(tmp_path, "log/web.log", 900_000, age=7_200)
    assert logs_trim(tmp_path, Keep(3_600.0, 10)) == 9_000
    assert [one.path for one in log_files(tmp_path)] == [executor, worker]
    assert not old.exists()
    assert supervised.exists()
    driver = log(tmp_path, "log/driver.counts.log", 600_000)
    assert logs_trim(tmp_path, Keep(3_600.0, 1)) == 700_000
    assert not executor.exists()
    with open(driver, "ab") as stream:
        assert logs_trim(tmp_path, Keep(3_600.0, 0)) == 609_000
        stream.write(b"after")
    assert driver.read_bytes() == b"after"
    assert not worker.exists()


def test_a_quiet_log_stays_while_its_process_lives(tmp_path: Path) -> None:
    quiet = log(tmp_path, "log/node-1.log", 9_000, age=7_200)
    with open(quiet, "ab") as stream:
        assert logs_trim(tmp_path, Keep(3_600.0, 10)) == 0
        stream.write(b"after")
    os.utime(quiet, (0, 0))
    assert logs_trim(tmp_path, Keep(3_600.0, 10)) == 9_005


def test_a_log_that_is_open_goes_on_after_it_was_rolled(tmp_path: Path) -> None:
    path = log(tmp_path, "log/node-1.log", 0)
    with open(path, "ab", buffering=0) as stream:
        for _ in range(3):
            stream.write(b"before" * 100)
            logs_trim(tmp_path, Keep(3_600.0, 10), longest=1_000)
        stream.write(b"after")
    assert path.read_bytes() == b"before" * 100 + b"after" or path.read_bytes().endswith(b"after")
    assert path.with_name("node-1.log.1").read_bytes() == b"before" * 200
    assert len(log_files(tmp_path)) == 2


def test_a_link_is_no_log(tmp_path: Path) -> None:
    target = log(tmp_path, "precious", 10, age=9_999_999)
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "node-1.log").symlink_to(target)
    assert logs_trim(tmp_path, Keep(60.0, 0)) == 0
    assert target.exists()


# ---- shown ---------------------------------------------------------------------------------------


def test_what_is_kept_is_shown(viewer: APIClient, nothing: Topology) -> None:
    at = timezone.now().replace(microsecond=0)
    MAKE["audit"](at)
    rows = {row["name"]: row for row in viewer.get("/api/v1/retention/").json()}
    assert set(rows) == {*MAKE, "logs", f"outputs.{nothing.name}"}
    assert rows["audit"]["bytes"] > 0
    assert {**rows["audit"], "bytes": 0} == {
        "name": "audit", "title": "Audit trail", "variable": "RESURGE_KEEP_AUDIT", "unit": "rows",
        "age": DEFAULTS.keep_audit.age, "size": DEFAULTS.keep_audit.size, "rows": 1, "bytes": 0,
        "oldest": at.isoformat().replace("+00:00", "Z"),
    }  # fmt: skip


@pytest.mark.parametrize("compact_s", [0.0, 300.0])
def test_outputs_are_shown_beside_the_bounds_of_their_sink(
    nothing: Topology, tmp_path: Path, settings: Any, compact_s: float
) -> None:
    """A sink that does not compact removes nothing."""
    settings.RESURGE = replace(settings.RESURGE, outputs=str(tmp_path))
    nothing.spec = {**nothing.spec, "sink": {"kind": "parquet", "compact_s": compact_s, "keep_gb": 2.5}}
    nothing.save()
    files = tmp_path / nothing.name / "deployed=1" / "O1"
    files.mkdir(parents=True)
    (files / "a.parquet").write_bytes(b"x" * 700)
    (files / "b.parquet").write_bytes(b"x" * 300)
    (kept,) = [one for one in retention_read() if one.name == f"outputs.{nothing.name}"]
    assert (kept.rows, kept.bytes, kept.held) == (2, 1000, "2 files")
    assert kept.bound == ("30d, 2,500 MB" if compact_s else "any age, any size")
    assert kept.oldest is not None


def test_the_installation_page_has_bounds_and_problems(nothing: Topology) -> None:
    from tests.unit.controlplane.conftest import user_of

    Problem.objects.create(at=timezone.now(), where="telemetry", what="A value cannot be used: <b>", count=7)
    client = Client()
    client.force_login(user_of("viewer"))
    page = client.get("/admin/installation/").content.decode()
    assert "A value cannot be used: &lt;b&gt;" in page
    assert "730d, 1,000,000 rows" in page
    assert "RESURGE_KEEP_LOGS" in page


def test_on_a_full_disk_logs_are_removed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copyfile(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes()[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", copyfile)
    long = log(tmp_path, "log/driver.counts.log", 9_000)
    second = log(tmp_path, "log/driver.counts.log.1", 5_000)
    oldest = log(tmp_path, "log/savepoint.counts.log", 700_000, age=60)
    assert logs_trim(tmp_path, Keep(3_600.0, 0), longest=1_000) == 5_000 + 700_000 + 9_000
    assert [path for path in (long, second, oldest) if path.exists()] == []
