"""Updating many rows with different values in one statement.

Django's ``bulk_update`` sends a batch for every hundred rows or so; metrics arrive
every second for every partition. Here the new values travel as one JSON
parameter, which both databases can read as a table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db import connection, models


def rows_update(model: type[models.Model], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Set `columns` (attribute names, foreign keys as ``<name>_id``) of the rows given as ``(pk, *values)``.

    Values must be what JSON can hold, or times. One statement, whatever the number of rows.
    """
    data = [list(row) for row in rows]
    if not data:
        return
    fields = [_field(model, column) for column in columns]
    quote = connection.ops.quote_name
    table = quote(model._meta.db_table)
    key = quote(str(model._meta.pk.column))
    names = [quote(str(field.column)) for field in fields]
    assignments = ", ".join(f"{name} = new.{name}" for name in names)
    source = _source_sqlite(names) if connection.vendor == "sqlite" else _source_postgresql(fields, names)
    # Only names of our own models are put into the statement; values are a parameter.
    statement = f"UPDATE {table} SET {assignments} FROM ({source}) AS new WHERE {table}.{key} = new.row_key"  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(statement, [json.dumps(data, default=_time)])


def _time(value: Any) -> str:
    """As both databases write a time of their own: in UTC, without saying so."""
    if isinstance(value, datetime):
        return str(value.astimezone(UTC).replace(tzinfo=None))
    raise TypeError(f"{value!r} is neither JSON nor a time")


def _field(model: type[models.Model], column: str) -> models.Field[Any, Any]:
    for field in model._meta.concrete_fields:
        if field.attname == column:
            return field
    raise ValueError(f"{model.__name__} has no column {column!r}")


def _source_sqlite(names: Sequence[str]) -> str:
    values = "".join(
        f", json_extract(value, '$[{position}]') AS {name}" for position, name in enumerate(names, 1)
    )
    return f"SELECT json_extract(value, '$[0]') AS row_key{values} FROM json_each(%s)"  # noqa: S608


def _source_postgresql(fields: Sequence[models.Field[Any, Any]], names: Sequence[str]) -> str:
    values = "".join(
        f", (value->>{position})::{_type(field)} AS {name}"
        for position, (field, name) in enumerate(zip(fields, names, strict=True), 1)
    )
    return f"SELECT (value->>0)::bigint AS row_key{values} FROM jsonb_array_elements(%s::jsonb)"  # noqa: S608


def _type(field: models.Field[Any, Any]) -> str:
    kind = field.rel_db_type(connection) if field.is_relation else field.db_type(connection)
    return str(kind)
