"""Offset pagination for lists, keyset pagination for numbered events."""

from __future__ import annotations

from rest_framework.pagination import LimitOffsetPagination


class OffsetPagination(LimitOffsetPagination):
    """``?limit=&offset=``; at most 1000 rows a page."""

    default_limit = 100
    max_limit = 1000
