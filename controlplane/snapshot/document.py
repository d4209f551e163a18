"""The state of everything at one sequence number: what a client loads before it follows events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec
from django.db import connection, transaction
from django.utils import timezone

from controlplane.events.models import EventCounter
from controlplane.events.representation import Change, iso
from controlplane.health.marks import healths_shown
from controlplane.health.reading import Reading
from controlplane.snapshot.entities import KINDS

PART = 200_000
"""Bytes that are handed on at a time."""

_encoder = msgspec.json.Encoder()


def snapshot_parts() -> Iterator[bytes]:
    """``{"sequence", "entities": {kind: {key: fields}}, `` in JSON, from one consistent read; `snapshot_end`
    ends it.

    A constant number of queries. Histories are limited to their newest part.
    """
    with _consistent_read():
        counter = EventCounter.objects.filter(pk=1).first()
        reading = Reading()
        before = b'{"sequence":%d,"entities":{' % (counter.value if counter else 0)
        for kind, changes in KINDS.items():
            yield from _written(before + b'"%b":' % kind.encode(), _healthy(kind, changes(), reading))
            before = b","
        yield b"},"


def snapshot_end() -> bytes:
    """``"server_time"}``: when it is handed out. Nothing has changed since it was read."""
    return b'"server_time":"%b"}' % str(iso(timezone.now())).encode()


def _healthy(kind: str, rows: Iterable[Change], reading: Reading) -> Iterable[Change]:
    """Rows with their health, where they have one."""
    match kind:
        case "topology":
            shown = healths_shown(kind, reading.topologies)
        case "query":
            shown = healths_shown(kind, reading.queries)
        case "node":
            shown = healths_shown(kind, reading.nodes())
        case "incident":
            rows = [*rows]
            shown = healths_shown(kind, reading.incidents([int(row["key"]) for row in rows]))
        case _:
            return rows
    return ({**row, "fields": {**(row["fields"] or {}), "health": shown[row["key"]]}} for row in rows)


def _written(head: bytes, changes: Iterable[Change]) -> Iterator[bytes]:
    """One entity after the other: ten thousand dictionaries alive together would set the garbage collector
    to work."""
    text = bytearray(head)
    before = b"{"
    for change in changes:
        text += before
        before = b","
        _encoder.encode_into(change["key"], text, -1)
        text += b":"
        _encoder.encode_into(change["fields"], text, -1)
        if len(text) > PART:
            yield bytes(text)
            text.clear()
    yield bytes(text) + (b"}" if before == b"," else b"{}")


@contextmanager
def _consistent_read() -> Iterator[None]:
    """All reads inside see one state of the database, and no writer waits for them."""
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "sqlite":
        # Transactions of Django are IMMEDIATE here, so they would take the one write lock.
        with connection.cursor() as cursor:
            cursor.execute("BEGIN DEFERRED")
            try:
                yield
            finally:
                cursor.execute("ROLLBACK")
    else:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield
