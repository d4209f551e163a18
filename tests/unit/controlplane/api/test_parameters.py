"""What every address takes in its query, enumerated from the OpenAPI document."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from django.urls import resolve
from drf_spectacular.generators import SchemaGenerator

from controlplane.api.pagination import OffsetPagination
from controlplane.api.schema import METHODS
from controlplane.topologies.models import Topology
from tests.unit.controlplane.addresses import REST
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
        path = path.replace("{id}", "{pk}").replace("{token_key}", "0" * 15)
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


def test_every_operation_refuses_what_it_does_not_know(address: Any) -> None:
    who, unknown = identity("administrator"), "surely_unknown=1"
    asked = [(path, method) for path, found in paths().items() for method in METHODS if method in found]
    assert len(asked) > 90
    for path, method in asked:
        answer = who.program.generic(method.upper(), f"{address(path)}?{unknown}")
        assert answer.status_code == 400, (method, path)
        told = [error["path"] for error in json.loads(answer.content)["errors"]]
        assert told == ["surely_unknown"], (method, path)
    assert who.program.get(f"/{REST}schema/?{unknown}").status_code == 400


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("POST", "tokens/?lifetime_hour=1", "lifetime_hour"),
        ("GET", "tokens/?ordering=x", "ordering"),
        ("POST", "topologies/validate/?rate=5", "rate"),
        ("POST", "topologies/?reason=because", "reason"),
        ("POST", "topologies/counts/deploy/?reason=because", "reason"),
        ("GET", "topologies/counts/continuation/?savepoint=", "savepoint"),
        ("GET", "topologies/counts/?format=json", "format"),
        ("GET", "topologies/counts/?format=pdf", "format"),
        ("GET", "incidents/1/plans/?open=true", "open"),
    ],
)
def test_a_parameter_of_another_operation_is_refused(address: Any, method: str, path: str, name: str) -> None:
    answer = identity("administrator").program.generic(method, f"/{REST}{path}")
    assert answer.status_code == 400
    assert [error["path"] for error in answer.json()["errors"]] == [name]


@pytest.mark.parametrize(
    "path",
    [
        "tokens/?limit=1",
        "incidents/1/plans/?limit=1&offset=1",
        "incidents/1/export/?format=md",
        "alert-rules/export/?format=grafana",
        "schema/?format=json",
        "audit/?search=x",
        "nodes/?state=lost&state=alive",
        "events/?kind=node.lost&kind=node.joined",
    ],
)
def test_a_parameter_that_is_known_is_taken(address: Any, path: str) -> None:
    assert identity("administrator").program.get(f"/{REST}{path}").status_code == 200


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("audit/?actor=kim&actor=ada", "actor"),
        ("nodes/?rack=rack-a&rack=rack-b", "rack"),
        ("tokens/?limit=1&limit=2", "limit"),
        ("events/?topology=counts&topology=other", "topology"),
        ("topologies/counts/measurements/?since=2026-01-01T00:00:00Z&since=2026-01-02T00:00:00Z", "since"),
    ],
)
def test_a_parameter_with_one_value_is_not_repeated(address: Any, path: str, name: str) -> None:
    """Only the last one would count."""
    answer = identity("administrator").program.get(f"/{REST}{path}")
    assert answer.status_code == 400
    assert answer.json()["errors"] == [{"path": name, "message": "give it once: it takes one value"}]


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("incidents/1/export/?format=pdf", "json, html, md"),
        ("alert-rules/export/?format=json", "prometheus, grafana"),
    ],
)
def test_a_form_that_does_not_exist_is_refused_with_those_that_do(
    address: Any, path: str, known: str
) -> None:
    answer = identity("viewer").program.get(f"/{REST}{path}")
    (error,) = answer.json()["errors"]
    assert (answer.status_code, error["path"]) == (400, "format")
    assert error["message"].endswith(f"is none of {known}")
