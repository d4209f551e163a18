"""Whether it is the database or the value that is at fault."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DataError, IntegrityError, InternalError, OperationalError, connection

from controlplane.events.models import EventCounter
from controlplane.events.services import COUNTER
from workers import database

pytestmark = pytest.mark.django_db


def test_the_value_is_at_fault_where_the_error_says_so_or_other_writes_succeed() -> None:
    assert database.refuses(DataError("out of range"))
    assert database.refuses(IntegrityError("CHECK constraint failed"))
    assert database.refuses(ValueError("a mistake"))
    assert database.refuses(OperationalError("too many SQL variables"))


def test_the_database_is_at_fault_where_it_is_busy_or_away(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not database.refuses(OperationalError("database is locked"))
    assert not database.refuses(OperationalError("deadlock detected"))

    def away(*_: Any) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(database, "numbering_try", away)
    assert not database.refuses(OperationalError("server closed the connection unexpectedly"))


@pytest.mark.parametrize(
    "error",
    [
        InternalError("cannot execute UPDATE in a read-only transaction"),
        OperationalError("attempt to write a readonly database"),
    ],
)
def test_the_database_is_at_fault_where_it_may_only_be_read(error: Exception) -> None:
    """As where a failover leads to a standby for some seconds: what was read meanwhile was thrown away."""
    EventCounter.objects.get_or_create(pk=COUNTER, defaults={"value": 0})
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only = ON")
        try:
            assert not database.refuses(error)
        finally:
            cursor.execute("PRAGMA query_only = OFF")


def test_the_database_is_at_fault_where_the_disk_is_full() -> None:
    assert not database.refuses(OperationalError("database or disk is full"))
    assert not database.refuses(OperationalError("could not extend file: No space left on device"))
