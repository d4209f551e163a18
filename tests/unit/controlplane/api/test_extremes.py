"""Values at the edges of what their types hold, in every filter and body: refused or used, never a 500."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction
from drf_spectacular.generators import SchemaGenerator
from rest_framework.test import APIClient

from controlplane.nodes.models import Node
from controlplane.topologies.models import Topology
from spark_jobs.operators.catalogue import catalogue
from tests.unit.controlplane.addresses import REST
from tests.unit.controlplane.identities import Identity, identity
from tests.unit.controlplane.specs import spec_of
from tests.unit.controlplane.writes import WRITES, Write, installation_fill

TEXTS = (
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
    *(
        "-1",
        "9223372036854775808",
        "1" + "0" * 400,
        "1e400",
        "nan",
        "\N{ARABIC-INDIC DIGIT SEVEN}",
        "%",
        "\x00",
    ),
    "a " * 1_500,
)


def nested(levels: int, kind: type) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if kind is list else {"a": value}
    return value


VALUES: tuple[Any, ...] = (
    *(None, True, "", "x" * 100_000, [], {}, [None], {"": None}, {"x" * 5_000: 1}, [[]], -1, 0, 0.5),
    *(2**31, 2**63 - 1, -(2**63) + 1, 2**63, 2**64, 10**400, 1e308, -1e308, 5e-324, "\ud7ff\uffff"),
    *(nested(levels, kind) for levels in (90, 500, 20_000) for kind in (list, dict)),
    *TEXTS[:4],
)


@cache
def filters() -> list[tuple[str, tuple[str, ...]]]:
    """Every address that is read, and what its query takes."""
    generator: Any = SchemaGenerator()  # type: ignore[no-untyped-call]
    found = []
    for path, operations in generator.get_schema(request=None, public=True)["paths"].items():
        parameters = operations.get("get", {}).get("parameters", ())
        names = tuple(parameter["name"] for parameter in parameters if parameter["in"] == "query")
        if names:
            found.append((path, names))
    return found


@pytest.fixture
def address(topology: Topology) -> Any:
    values = installation_fill(topology)

    def of(path: str) -> str:
        for name, value in values(path.removeprefix("/")).items():
            path = path.replace(f"{{{name}}}", value)
        return path

    return of


def test_every_filter_takes_or_refuses_extremes(address: Any) -> None:
    who = identity("administrator")
    assert len(filters()) > 10
    for path, names in filters():
        for name in names:
            for text in TEXTS:
                answer = who.program.get(address(path), {name: text})
                assert answer.status_code in (200, 400, 404), (path, name, text[:50])


@pytest.mark.parametrize("path", ["audit", "operations", "incidents", "topologies/counts/checkpoints"])
@pytest.mark.parametrize("name", ["since", "until"])
def test_a_time_beyond_the_first_and_last_year_is_refused(address: Any, path: str, name: str) -> None:
    who = identity("viewer")
    for text in TEXTS[:2]:
        answer = who.program.get(address(f"/{REST}{path}/"), {name: text})
        assert answer.status_code == 400
        assert [error["path"] for error in answer.json()["errors"]] == [name]


@pytest.mark.parametrize(("asked", "write"), WRITES.items(), ids=[" ".join(asked) for asked in WRITES])
def test_every_body_takes_or_refuses_extremes(
    asked: tuple[str, str], write: Write, topology: Topology, address: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "RESURGE", replace(settings.RESURGE))  # one of `WRITES` changes it
    who = identity("administrator")
    write.prepare()
    method, route = asked
    path = address(f"/{REST}{route}").replace("{token_key}", "0" * 15)
    for body in bodies(write):
        status = sent(who, method, path, body, write)
        assert status < 500, f"{path} {body[:100]}"


@pytest.mark.parametrize(("levels", "status"), [(90, 201), (500, 400)])
def test_parameters_are_nested_within_bounds(
    operator: APIClient, nodes: list[Node], monkeypatch: pytest.MonkeyPatch, levels: int, status: int
) -> None:
    """A function's own arguments may hold anything; answers, events and the audit trail hold them too."""
    monkeypatch.setattr(catalogue, "_modules", ("tests.unit.spark_jobs.operators.test_user_code",))
    spec = spec_of()
    function = "tests.unit.spark_jobs.operators.test_user_code.shout"
    own = {"function": function, "arguments": {"mark": nested(levels, list)}}
    spec["operators"][1] |= {"kind": "map", "params": own}
    answer = operator.post(f"/{REST}topologies/", {"spec": spec, "reason": "because"})
    assert answer.status_code == status, answer.content[:200]
    if status == 201:
        kept = operator.get(f"/{REST}topologies/counts/").json()["spec"]
        assert kept["operators"][1]["params"] == own
        assert operator.get(f"/{REST}snapshot/").status_code == 200
        assert operator.get(f"/{REST}audit/").json()["count"] == 1


def sent(who: Identity, method: str, path: str, body: str, write: Write) -> int:
    with transaction.atomic():
        answer = who.program.generic(
            method,
            f"{path}?{write.query}",
            body,
            content_type="application/json",
            headers={**write.headers, "Idempotency-Key": "one"},
        )
        transaction.set_rollback(True)
    return int(answer.status_code)


def bodies(write: Write) -> Iterator[str]:
    """The valid body with one field exchanged, at the top and within a specification; and other bodies."""
    valid = {"reason": "because", **write.body}
    for value in VALUES:
        text = dumped(value)
        yield text
        for name in valid:
            rest = {other: inner for other, inner in valid.items() if other != name}
            yield with_field(rest, name, text)
        if "spec" in valid:
            spec = valid["spec"]
            first, *others = spec["operators"]
            for name in ("name", "kind", "parallelism", "inputs", "params", "priority"):
                rest = {other: inner for other, inner in first.items() if other != name}
                operators = f"[{with_field(rest, name, text)}, {', '.join(map(json.dumps, others))}]"
                inner = with_field({**spec, "operators": None}, "operators", operators)
                yield with_field({"reason": "because"}, "spec", inner)


def with_field(fields: dict[str, Any], name: str, text: str) -> str:
    """A JSON object whose last field is given as it is written."""
    return f"{json.dumps(fields)[:-1]}{', ' if fields else ''}{json.dumps(name)}: {text}}}"


def dumped(value: Any) -> str:
    """JSON, also of what is nested deeper than Python writes it."""
    opening, levels = [], 0
    while isinstance(value, list | dict) and len(value) == 1 and levels < 30_000:
        if isinstance(value, list):
            opening.append("[")
            (value,) = value
        else:
            ((name, value),) = value.items()
            opening.append(f"{{{json.dumps(name)}: ")
        levels += 1
    closing = "".join("]" if part == "[" else "}" for part in reversed(opening))
    return f"{''.join(opening)}{json.dumps(value)}{closing}"
