"""Rows as named tuples: a tenth of the cost of models, where thousands are read only to be shown."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec
from django.db.models import Func, QuerySet, TextField
from django.db.models.functions import Cast

Key = TypeVar("Key")
Value = TypeVar("Value")
Reader = Callable[[str], Any]

# What to make of the text of a JSON column. RAW goes into an answer as it is, PARTS is split into its
# members, none of which is looked into.
RAW: Reader = msgspec.Raw
PARTS: Reader = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
NAMES: Reader = msgspec.json.Decoder(list[str]).decode
LABELS: Reader = msgspec.json.Decoder(dict[str, str]).decode


def tuple_rows(
    rows: QuerySet[Any], *names: str, json: Mapping[str, Reader] | None = None, **lookups: Any
) -> Iterator[Any]:
    """The columns `names`, those of `lookups` (attribute=lookup or expression), and JSON columns, each read
    by its reader; NULL is None."""
    columns = dict(zip(names, names, strict=True)) | lookups
    readers = dict(json or {})
    make = _row((*columns, *readers))
    found = rows.values_list(*columns.values(), *(Cast(name, TextField()) for name in readers))
    if not readers:
        return map(make, found)
    read, first = tuple(readers.values()), len(columns)
    return (
        make(
            (
                *row[:first],
                *(None if text is None else one(text) for one, text in zip(read, row[first:], strict=True)),
            )
        )
        for row in found
    )


@cache
def _row(names: tuple[str, ...]) -> Callable[[Iterable[Any]], Any]:
    row: Any = namedtuple("Row", names)  # type: ignore[misc]
    make: Callable[[Iterable[Any]], Any] = row._make
    return make


class IsoText(Func):
    """A time as JSON has it, written by the database: making one in Python costs as much as reading ten
    columns."""

    output_field = TextField()

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Any:
        return self.as_sql(compiler, connection, template="replace(%(expressions)s, ' ', 'T') || 'Z'")

    def as_postgresql(self, compiler: Any, connection: Any, **_: Any) -> Any:
        shape = """to_char(%(expressions)s AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
        return self.as_sql(compiler, connection, template=shape)


class Unchanging(Generic[Key, Value]):
    """What was read of rows that are never changed, for as long as they are asked for."""

    def __init__(self, read: Callable[[Collection[Key]], Mapping[Key, Value]]) -> None:
        self._read = read
        self._known: Mapping[Key, Value] = {}

    def of(self, keys: Collection[Key]) -> Mapping[Key, Value]:
        known = self._known
        missing = [key for key in keys if key not in known]
        fresh = self._read(missing) if missing else {}
        found = {key: known[key] if key in known else fresh[key] for key in keys}
        self._known = found
        return found
