"""What every address takes in its query, enumerated from the OpenAPI document."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from django.urls import resolve
from drf_spectacular.generators import SchemaGenerator

from controlplane.api.pagination import OffsetPagination
from controlplane.topologies.models import Topology
from tests.unit.controlplane.identities import identity
from tests.unit.controlplane.writes import installation_fill


@cache
def paths() -> dict[str, Any]:
    generator: Any = SchemaGenerator()  # type: ignore[no-untyped-call]
    found: dict[str, Any] = generator.get_schema(request=None, public=True)["paths"]
    return found


def taken(operation: dict[str, Any]) -> set[str]:
    """The names in the query of an operation."""
    return {one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"}


@pytest.fixture
def address(topology: Topology) -> Any:
    values = installation_fill(topology)

    def of(path: str) -> str:
        for name, value in values(path.removeprefix("/")).items():
            path = path.replace(f"{{{name}}}", value)
        return path

    return of


def test_pages_of_every_list_have_an_order_without_ties(
    address: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else PostgreSQL has rows of equal values in another order for each page."""
    who, orders = identity("administrator"), []
    counted = OffsetPagination.get_count

    def count(self: OffsetPagination, rows: Any) -> int:
        orders.append(rows.query.order_by)
        return counted(self, rows)

    monkeypatch.setattr(OffsetPagination, "get_count", count)
    lists = [path for path, operations in paths().items() if "ordering" in taken(operations.get("get", {}))]
    assert len(lists) > 15
    for path in lists:
        fields = resolve(address(path)).func.cls.ordering_fields
        for asked in ({}, *({"ordering": field} for field in fields), {"ordering": f"-{fields[0]}"}):
            answer = who.program.get(address(path), asked)
            assert answer.status_code == 200, (path, asked)
            *order, last = orders.pop()
            assert (bool(order), last) == (True, "pk"), (path, asked)
