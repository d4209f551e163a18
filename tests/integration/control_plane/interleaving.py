"""Two services at the same moment, on PostgreSQL: SQLite runs one transaction that writes after another, so
that no test there shows what two at once do.

The first service stops before one of its statements that write. Then the second one
runs, until it has ended or waits for a lock that the first holds; then the first goes on. Both must succeed.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, connections, transaction

from controlplane.errors import ServiceError
from controlplane.events import tasks
from controlplane.events.models import Event, EventCounter
from controlplane.incidents.choices import INCIDENT_ACTIVE
from controlplane.incidents.models import Incident, RecoveryPlan
from harness.eventually import eventually
from host.environment import database_parse
from tests.integration.control_plane.postgresql import Filled, Server, database, server
from tests.integration.control_plane.writing_services import (
    BEFORE,
    EVERY,
    counts,
    installed,
)

NAME = "interleaving"
WRITES = ("INSERT", "UPDATE", "DELETE")


@contextmanager
def postgresql() -> Iterator[Server]:
    with server() as one:
        one.execute(f"CREATE DATABASE {NAME}")
        yield one


@contextmanager
def filled(running: Server) -> Iterator[Filled]:
    """A database with an installation."""
    with database(database_parse(running.url(NAME))), pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "task_send", lambda *_: None)
        call_command("migrate", verbosity=0)
        installed()
    yield Filled(running, NAME)


class Run(threading.Thread):
    """One service in a thread of its own, in one transaction, held before its statement number `hold` that
    writes. trace: note which functions were called."""

    def __init__(
        self, service: Callable[[], object], *, hold: int | None = None, trace: bool = False
    ) -> None:
        super().__init__(daemon=True)
        self._service = service
        self._hold = hold
        self._trace = trace
        self.called: set[tuple[str, str]] = set()
        """File and name of each function, with `trace`."""
        self.locks: list[str] = []
        """Statements that write or lock rows, in their order."""
        self.writes = 0
        self.holds = threading.Event()
        self.go_on = threading.Event()
        self.backend = 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                self.backend = cursor.fetchone()[0]
            with connection.execute_wrapper(self._watch), transaction.atomic():
                if self._trace:
                    sys.setprofile(self._note)
                self._service()
        except Exception as error:
            self.error = error
        finally:
            sys.setprofile(None)
            self.holds.set()
            connections.close_all()

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self.called.add((frame.f_code.co_filename, frame.f_code.co_name))

    def _watch(self, execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        if sql.startswith(WRITES) or " FOR UPDATE" in sql or " FOR NO KEY UPDATE" in sql:
            self.locks.append(sql)
        if sql.startswith(WRITES):
            if self.writes == self._hold:
                self._wait()
            self.writes += 1
        return execute(sql, parameters, many, context)

    def _wait(self) -> None:
        self.holds.set()
        assert self.go_on.wait(60)


def prepare(*names: str) -> None:
    for step in dict.fromkeys(BEFORE[name] for name in names if name in BEFORE):
        with transaction.atomic():
            step()


def alone(name: str) -> Run:
    """What a service does if no other one runs."""
    prepare(name)
    run = Run(EVERY[name], trace=True)
    run.start()
    run.join(60)
    assert not run.is_alive()
    return run


def waits_for_a_lock(backend: int) -> bool:
    if not backend:
        return False
    with connection.cursor() as cursor:
        cursor.execute("SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s", [backend])
        row = cursor.fetchone()
    return row is not None and row[0] == "Lock"


def interleave(first: str, second: str, hold: int = 0) -> tuple[Run, Run]:
    prepare(first, second)
    one, two = Run(EVERY[first], hold=hold), Run(EVERY[second])
    one.start()
    assert one.holds.wait(60)
    two.start()
    eventually(lambda: not two.is_alive() or waits_for_a_lock(two.backend), "the second one", pause=0.002)
    one.go_on.set()
    for run in (one, two):
        run.join(60)
        assert not run.is_alive()
    return one, two


def pairs(fresh: Filled, first: str, seconds: list[str]) -> None:
    """A service with each of the others, stopped before its first write."""
    for second in seconds:
        connections.close_all()
        fresh.put_back()
        one, two = interleave(first, second)
        check(f"{first} held, {second} meanwhile", one, two)


def check(told: str, one: Run, two: Run) -> None:
    for run in (one, two):
        # In words, one of two may be told that the other was first.
        assert run.error is None or isinstance(run.error, ServiceError), f"{told}: {run.error!r}"
    assert Incident.objects.filter(state__in=INCIDENT_ACTIVE).count() <= 1, told
    sequences = list(Event.objects.order_by("sequence").values_list("sequence", flat=True))
    assert sequences == list(range(1, len(sequences) + 1)), told
    assert EventCounter.objects.get().value == len(sequences), told
    newest = RecoveryPlan.objects.filter(topology__name="counts").order_by("-generation").first()
    assert newest is not None
    assert newest.generation == counts().generation, told
