"""Whether it is the database or the value that is at fault."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DataError, IntegrityError, OperationalError

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

    monkeypatch.setattr(database, "numbering_lock", away)
    assert not database.refuses(OperationalError("server closed the connection unexpectedly"))
