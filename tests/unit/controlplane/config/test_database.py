"""Connections to the default database, a file."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

from django.db.utils import ConnectionHandler

from controlplane.config import settings


def test_what_looks_again_and_again_keeps_its_connection_for_some_seconds(
    tmp_path: Path, django_db_blocker: Any
) -> None:
    """As processes do between two looks. The launcher read the schema each time, half of its CPU time."""
    database = {**settings._database(), "NAME": str(tmp_path / "database.sqlite3")}
    made = ConnectionHandler({"default": database})["default"]
    with django_db_blocker.unblock(), closing(made) as connection:
        connection.ensure_connection()
        first = connection.connection
        connection.close_if_unusable_or_obsolete()
        assert connection.connection is first
        connection.close_at -= 10
        assert connection.close_at <= time.monotonic(), "it is kept longer"
        connection.close_if_unusable_or_obsolete()
        assert connection.connection is None
