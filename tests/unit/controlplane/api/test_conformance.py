"""Whatever is sent to REST, the answer is one that the OpenAPI document knows: nothing else, and no 5xx.

Requests are made by schemathesis from the document, half of them wrong on purpose, with fixed seeds. Each one
meets the same installation in the middle of an incident and is undone afterwards. `EXAMPLES=500` looks
longer.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import schemathesis
from django.contrib.auth.models import User
from django.core.wsgi import get_wsgi_application
from django.db import transaction
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from knox.models import AuthToken
from schemathesis.generation.modes import GenerationMode
from schemathesis.specs.openapi import checks

from controlplane.events.audit import audit_record
from controlplane.events.models import AuditEntry, Operation
from controlplane.topologies.models import Problem
from tests.browser.seeding import seed as installation_seed
from tests.unit.controlplane.addresses import REST, addresses
from tests.unit.controlplane.filling import filled

EXAMPLES = int(os.environ.get("EXAMPLES", "8"))
HOW = settings(
    max_examples=EXAMPLES,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.missing_required_header,
    checks.unsupported_method,
]


@cache
def operations() -> dict[str, list[Any]]:
    """Every operation of the document, by its resource. Made with the first test: pytest loads this module in
    every worker."""
    generator: Any = SchemaGenerator()  # type: ignore[no-untyped-call]
    document = schemathesis.openapi.from_dict(generator.get_schema(request=None, public=True))
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for result in document.get_all_operations():
        operation: Any = result.ok()  # type: ignore[union-attr]
        found[operation.path.split("/")[3]].append(operation)
    return dict(found)


RESOURCES = sorted(
    {address.route.split("/")[2] for address in addresses() if address.route.startswith(REST)}
    - {"{anything}", "docs", "schema"}
)


def test_every_resource_is_documented() -> None:
    assert sorted(operations()) == RESOURCES


@pytest.fixture(scope="module")
def installation(django_db_setup: None, django_db_blocker: Any) -> Iterator[dict[str, list[str]]]:
    """A recovery that waits for an approval; path parameters that mean something in it, by name."""
    with filled(django_db_blocker):
        installation_seed("proposed")
        root = User.objects.create_superuser("root", password="secret-for-tests")
        _, text = AuthToken.objects.create(user=root)
        other, _ = AuthToken.objects.create(user=root)
        audit_record(actor="root", channel="cli", action="token.create", target="root", reason="x")
        operation = Operation.objects.create(kind="topology.pause", target="hashtags", requested_by="root")
        problem = Problem.objects.create(where="x", what="y", at=operation.created_at)
        yield {
            "authorization": [f"Bearer {text}"],
            "name": ["hashtags", "trending", "node-1", "node-2"],
            "topology": ["hashtags", "mentions"],
            "query": ["O0[0]", "O9[0]"],
            "operator": ["O0", "O9"],
            "rack": ["rack-a", "rack-9"],
            "number": ["1", "2"],
            "token_key": [other.token_key],
            "id": [str(operation.pk), str(problem.pk), str(AuditEntry.objects.latest("pk").pk)],
            "epoch": ["5310", "5220"],
            "webhook": ["1"],
            "pk": ["1"],
        }


@st.composite
def cases(draw: st.DrawFn, operation: Any, known: dict[str, list[str]]) -> Any:
    """A request, right or wrong, mostly for something that exists."""
    mode = draw(st.sampled_from((GenerationMode.POSITIVE, GenerationMode.NEGATIVE)))
    case = draw(operation.as_strategy(generation_mode=mode))
    if mode is GenerationMode.POSITIVE and draw(st.integers(0, 3)):
        for name in list(case.path_parameters or ()):
            case.path_parameters[name] = draw(st.sampled_from(known[name]))
    return case


# The mark has pytest-django make the test database where this file runs alone, too: it makes one only if some
# test says that it needs one, and the fixture of a module says nothing.
@pytest.mark.django_db
@pytest.mark.parametrize("resource", RESOURCES)
def test_every_answer_is_documented(resource: str, installation: dict[str, list[str]]) -> None:
    application = get_wsgi_application()
    # The client of these tests cannot undo a compression.
    headers = {"Authorization": installation["authorization"][0], "Accept-Encoding": "identity"}

    def answers(case: Any) -> None:
        with transaction.atomic():
            response = case.call(app=application, headers=headers)
            transaction.set_rollback(True)
        case.validate_response(response, checks=CHECKS, headers=headers)

    for operation in operations()[resource]:
        fuzz = given(cases(operation, installation))(answers)
        seed(20_260_000)(HOW(fuzz))()
