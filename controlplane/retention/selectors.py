"""What is kept now, beside its bounds (read side)."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import connection
from django.db.models import Count, Min

from controlplane.retention.kinds import KINDS, Kind
from controlplane.retention.logs import log_files
from controlplane.retention.outputs import output_files
from host.environment import Keep

REMEMBERED = 30.0
"""Seconds for which an answer is kept: it counts all rows, and the pages that they take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """`age`: the bound in seconds. `size`: the bound in rows, of files in megabytes. 0: no such bound.
    `rows`: rows, or files. `bytes`: of the table with its indexes, which kinds of one table share; None where
    the database does not say."""

    name: str
    title: str
    variable: str
    unit: str
    age: float
    size: int
    rows: int
    bytes: int | None
    oldest: datetime | None

    @property
    def bound(self) -> str:
        age = f"{Keep(self.age, 0)}".partition("/")[0] if self.age else "any age"
        return f"{age}, " + (f"{self.size:,} {self.unit}" if self.size else "any size")

    @property
    def held(self) -> str:
        one = "file" if self.unit == "MB" else "row"
        return f"{self.rows:,} {one}" if self.rows == 1 else f"{self.rows:,} {one}s"


_lock = threading.Lock()
_remembered: tuple[float, list[Kept]] | None = None


def retention_state() -> list[Kept]:
    """Every kind; at most half a minute old."""
    global _remembered
    with _lock:
        if _remembered is None or time.monotonic() - _remembered[0] > REMEMBERED:
            _remembered = (time.monotonic(), retention_read())
        return _remembered[1]


def retention_read() -> list[Kept]:
    sizes = tables_bytes({kind.model for kind in KINDS})
    return [*(_rows(kind, sizes.get(kind.model)) for kind in KINDS), _logs(), *_outputs()]


def _outputs() -> Iterator[Kept]:
    for one in output_files(Path(settings.RESURGE.outputs)):
        yield Kept(
            name=f"outputs.{one.topology}",
            title=f"Outputs of {one.topology} on this host",
            variable="sink of the topology",
            unit="MB",
            age=one.keep_s,
            size=one.keep_mb,
            rows=one.files,
            bytes=one.bytes,
            oldest=datetime.fromtimestamp(one.oldest, tz=UTC) if one.oldest is not None else None,
        )


def _rows(kind: Kind, size: int | None) -> Kept:
    found = kind.removable_rows().aggregate(rows=Count("pk"), oldest=Min(kind.at))
    return Kept(
        name=kind.name,
        title=kind.title,
        variable=f"RESURGE_{kind.field.upper()}",
        unit="rows",
        age=kind.keep.age,
        size=kind.keep.size,
        rows=found["rows"],
        bytes=size,
        oldest=found["oldest"],
    )


def _logs() -> Kept:
    files = log_files(settings.RESURGE.home)
    keep = settings.RESURGE.keep_logs
    return Kept(
        name="logs",
        title="Logs of drivers, nodes and executors on this host",
        variable="RESURGE_KEEP_LOGS",
        unit="MB",
        age=keep.age,
        size=keep.size,
        rows=len(files),
        bytes=sum(one.bytes for one in files),
        oldest=datetime.fromtimestamp(files[0].at, tz=UTC) if files else None,
    )


def tables_bytes(models: Collection[str]) -> dict[str, int]:
    """What the table of each model takes, with its indexes; without those of which the database does not say
    it."""
    tables = {apps.get_model(model)._meta.db_table: model for model in models}
    if connection.vendor == "postgresql":
        query = "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE oid = ANY(%s::regclass[])"
        parameters: list[Any] = [list(tables)]
    elif _has_dbstat():
        query = (
            "SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_schema USING (name) "
            "WHERE aggregate = TRUE GROUP BY tbl_name"
        )
        parameters = []
    else:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return {tables[table]: int(size) for table, size in cursor.fetchall() if table in tables}


@cache
def _has_dbstat() -> bool:
    """SQLite may be built without it."""
    asked = "SELECT count(*) FROM pragma_module_list WHERE name = 'dbstat'"
    with closing(sqlite3.connect(":memory:")) as one:
        return bool(one.execute(asked).fetchone()[0])
