"""Lists whose rows are columns: read as tuples instead of models, with the names their serializer gives them.

A page of a thousand models costs a hundred milliseconds, most of it to make objects that are shown and thrown
away. The serializer stays what describes a row; here only its names and sources are taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.tuple_rows import RAW, IsoText, tuple_rows

Rows = list[dict[str, Any]]
Lookups = Mapping[str, Any]


def rows_shown(
    rows: QuerySet[Any],
    serializer: Any,
    lookups: Lookups | None = None,
    *,
    without: tuple[str, ...] = (),
) -> Rows:
    """`rows` as the class `serializer` shows them. `lookups` has an expression for each field that is no
    column."""
    plain, json = _columns(serializer)
    names = [name for name in serializer.Meta.fields if name not in without]
    wanted = plain | dict(lookups or {})
    read = tuple_rows(
        rows,
        json={name: RAW for name in names if name in json},
        **{name: wanted[name] for name in names if name not in json},
    )
    return [{name: getattr(row, name) for name in names} for row in read]


@cache
def _columns(serializer: Any) -> tuple[dict[str, Any], set[str]]:
    """Field to column, or to the time in it as JSON has it; and those fields whose column holds JSON."""
    plain: dict[str, Any] = {}
    json: set[str] = set()
    for name, field in serializer().fields.items():
        if isinstance(field, serializers.DictField | serializers.ListField):
            json.add(name)
        else:
            column = field.source.replace(".", "__")
            plain[name] = IsoText(column) if isinstance(field, serializers.DateTimeField) else column
    return plain, json


class TupleListMixin:
    """`list` for a viewset whose serializer has columns only, apart from what `tuple_lookups` names."""

    tuple_lookups: ClassVar[Lookups] = {}

    def list(self: Any, request: Request, *args: Any, **kwargs: Any) -> Response:
        return self.tuple_page(self.filter_queryset(self.get_queryset()))

    def tuple_page(self: Any, rows: QuerySet[Any]) -> Response:
        """The page of `rows` that was asked for."""
        page = self.paginator.window(rows, self.request)
        return self.paginator.get_paginated_response(self.tuple_rows(page))

    def tuple_rows(self: Any, rows: QuerySet[Any]) -> Rows:
        return rows_shown(rows, self.get_serializer_class(), self.tuple_lookups)
