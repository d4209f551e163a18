"""Offset pagination for lists; numbered events have keyset pagination of their own."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import LimitOffsetPagination
from rest_framework.request import Request

MOST = 1000
FURTHEST = 1_000_000_000


class OffsetPagination(LimitOffsetPagination):
    """``?limit=&offset=``; what is no number, or beyond the bounds, is refused instead of ignored."""

    default_limit = 100
    max_limit = MOST

    def window(self, rows: QuerySet[Any], request: Request) -> QuerySet[Any]:
        """The page of `rows`, not read yet, so that the caller can still choose columns."""
        self.request = request
        self.limit, self.offset = self.get_limit(request), self.get_offset(request)
        self.count = self.get_count(rows)
        return rows[self.offset : self.offset + self.limit]

    def get_limit(self, request: Request) -> int:
        return _whole(request, self.limit_query_param, self.default_limit, 1, MOST)

    def get_offset(self, request: Request) -> int:
        return _whole(request, self.offset_query_param, 0, 0, FURTHEST)

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [
            _parameter(self.limit_query_param, "rows of a page", 1, MOST, self.default_limit),
            _parameter(self.offset_query_param, "rows before the page", 0, FURTHEST, 0),
        ]


def _whole(request: Request, name: str, default: int, low: int, high: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    # Longer ones are out of bounds anyway, and slow to convert.
    if text.isascii() and text.isdigit() and len(text) <= 12 and low <= int(text) <= high:
        return int(text)
    raise ValidationError({name: [f"{text!r:.60} is not a whole number from {low} to {high}"]})


def _parameter(name: str, description: str, low: int, high: int, default: int) -> dict[str, Any]:
    schema = {"type": "integer", "minimum": low, "maximum": high, "default": default}
    return {"name": name, "required": False, "in": "query", "description": description, "schema": schema}
