"""The role matrix: every address, every method, every identity. An address without an entry here fails."""

from __future__ import annotations

import json
from copy import copy
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from knox.models import AuthToken

from controlplane.topologies.models import Topology
from tests.unit.controlplane.addresses import ADMIN, METHODS, REST, Address, addresses
from tests.unit.controlplane.identities import RANK, Identity, identity
from tests.unit.controlplane.writes import WRITES, installation_fill

PUBLIC, REFUSED = 0, 9
"""Ranks for what needs no identity, and for what no identity may ask."""

READS = {
    "alert-rules/",
    "alert-rules/export/",
    "alert-rules/{name}/",
    "alerts/",
    "alerts/{pk}/",
    "audit/",
    "audit/choices/",
    "audit/{pk}/",
    "checkpoints/",
    "docs/",
    "events/",
    "incidents/",
    "incidents/{number}/",
    "incidents/{number}/export/",
    "incidents/{number}/plans/",
    "me/",
    "node-requests/",
    "nodes/",
    "nodes/{name}/",
    "nodes/{name}/measurements/",
    "nodes/{name}/samples/",
    "operations/",
    "operations/{pk}/",
    "pipelines/",
    "problems/",
    "problems/{pk}/",
    "racks/{rack}/",
    "savepoints/",
    "savepoints/{name}/",
    "schema/",
    "retention/",
    "settings/",
    "silences/",
    "silences/{pk}/",
    "snapshot/",
    "snapshot/recent/",
    "tokens/",
    "topologies/",
    "topologies/{name}/",
    "topologies/{name}/continuation/",
    "topologies/{topology}/availability/",
    "topologies/{topology}/checkpoints/",
    "topologies/{topology}/checkpoints/{epoch}/",
    "topologies/{topology}/measurements/",
    "topologies/{topology}/operators/{operator}/measurements/",
    "topologies/{topology}/operators/{operator}/",
    "topologies/{topology}/partitions/",
    "topologies/{topology}/plans/",
    "topologies/{topology}/policy/",
    "topologies/{topology}/problems/",
    "topologies/{topology}/queries/",
    "topologies/{topology}/queries/{query}/",
    "topologies/{topology}/queries/{query}/measurements/",
    "topologies/{topology}/queries/{query}/results/",
    "topologies/{topology}/replicas/",
    "topologies/{topology}/replication-plan/",
    "topologies/{topology}/specification/",
    "topologies/{topology}/tentative/",
    "topologies/{topology}/versions/",
}
"""Below ``/api/v1/``, for viewers and above. What else REST can be asked is in `WRITES`."""

GUARDED_READS = {
    "topologies/{topology}/operators/{operator}/log/": "operator",
    "topologies/{topology}/operators/{operator}/problems/": "operator",
    "topologies/{topology}/operators/{operator}/rows/": "operator",
    "webhooks/": "administrator",
    "webhooks/{pk}/": "administrator",
    "webhooks/{webhook}/deliveries/": "administrator",
    "webhooks/{webhook}/deliveries/{pk}/": "administrator",
}
"""The same, for this role and above."""

PAGES: dict[str, dict[str, int]] = {
    "healthz": dict.fromkeys(METHODS, PUBLIC),
    "readyz": dict.fromkeys(METHODS, PUBLIC),
    "metrics": {"GET": RANK["viewer"]},
    "login/": dict.fromkeys(METHODS, PUBLIC),
    "logout/": {"POST": PUBLIC},
    "": {"GET": RANK["viewer"]},
    "{path}": {"GET": RANK["viewer"]},
}
"""Outside of REST and the admin site: the least rank by method; a missing method is refused to all."""

OURS = [address for address in addresses() if not address.route.startswith(ADMIN)]
SITE = [address for address in addresses() if address.route.startswith(ADMIN)]


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readiness without checks of servers, and settings that the preparation of a request may change."""
    monkeypatch.setattr("controlplane.config.probes.CHECKS", {})
    monkeypatch.setattr(settings, "RESURGE", replace(settings.RESURGE))


@pytest.fixture
def values(topology: Topology) -> Any:
    return installation_fill(topology)


@pytest.fixture
def identities(values: Any) -> list[Identity]:
    return [identity(name) for name in RANK]


def needed(address: Address, method: str) -> int:
    """The least rank that may send this request."""
    if not address.route.startswith(REST):
        return PAGES[address.route].get(method, REFUSED)
    route = address.route.removeprefix(REST)
    if route == "{anything}":
        return RANK["viewer"]
    if method == "GET" and route in READS:
        return RANK["viewer"]
    if method == "GET" and route in GUARDED_READS:
        return RANK[GUARDED_READS[route]]
    write = WRITES.get((method, route))
    return REFUSED if write is None else RANK[write.role]


def test_every_address_has_its_entry() -> None:
    below = READS | set(GUARDED_READS) | {route for _, route in WRITES}
    known = {REST + route for route in below} | set(PAGES)
    found = {address.route for address in OURS}
    assert found - {REST + "{anything}"} == known
    for address in OURS:
        if address.route.startswith(REST) and address.route != REST + "{anything}":
            entered = {method for method in METHODS if needed(address, method) != REFUSED}
            assert entered == address.methods, address.route


def ask(
    who: Identity, address: Address, method: str, values: Any, *, program: bool, allowed: bool
) -> tuple[Any, list[str]]:
    """Send a request that would succeed, and roll its changes back."""
    write = WRITES.get((method, address.route.removeprefix(REST)))
    client = who.program if program else who.page
    cookies = copy(client.cookies)  # signing out takes them away
    path = address.path({**values(address.route), "token_key": own_token(who)})
    with transaction.atomic():
        if write is not None and allowed:
            write.prepare()
        with CaptureQueriesContext(connection) as queries:
            response = client.generic(
                method,
                f"{path}?{write.query}" if write else path,
                json.dumps(write.data()) if write else "",
                content_type="application/json",
                headers=write.headers if write else {},
            )
        transaction.set_rollback(True)
    client.cookies = cookies
    return response, changed_by(queries)


def own_token(who: Identity) -> str:
    row = AuthToken.objects.filter(user=who.user).first() if who.user else None
    return row.token_key if row else "0" * 15


def changed_by(queries: CaptureQueriesContext) -> list[str]:
    """Statements that changed rows, apart from sessions and expired tokens."""
    return [
        query["sql"]
        for query in queries.captured_queries
        if query["sql"].startswith(("INSERT", "UPDATE", "DELETE"))
        and not query["sql"].startswith('DELETE FROM "knox_authtoken"')
        and "django_session" not in query["sql"]
    ]


def resource(address: Address) -> str:
    """The part of the addresses that one test covers."""
    return address.route.removeprefix(REST).partition("/")[0] if address.route.startswith(REST) else "pages"


NOTHING_THERE = {REST + "{anything}", REST + "topologies/{topology}/queries/{query}/results/"}
"""An identity that may read is told that there is nothing: no query has results here."""


@pytest.mark.parametrize("part", sorted({resource(address) for address in OURS}))
def test_no_identity_gets_beyond_its_role(part: str, identities: list[Identity], values: Any) -> None:
    wrong = []
    for address in OURS:
        if resource(address) != part:
            continue
        for method in METHODS:
            least = needed(address, method)
            for who in identities if least != REFUSED else (identities[0], identities[-1]):
                for program in (True, False):
                    response, changed = ask(
                        who, address, method, values, program=program, allowed=who.rank >= least
                    )
                    if not verdict(address, least, who, response, changed, program=program):
                        by = "token" if program else "session"
                        wrong.append((method, address.route, who.name, by, response.status_code, changed))
    assert not wrong


def verdict(
    address: Address, least: int, who: Identity, response: Any, changed: list[str], *, program: bool
) -> bool:
    """Whether the answer is right."""
    status: int = response.status_code
    rest = address.route.startswith(REST) or address.route == "metrics"
    if least == PUBLIC:
        return status < 500
    if who.rank >= least and (rest or not program):
        return status < 300 or (address.route in NOTHING_THERE and status == 404)
    if changed:
        return False
    if status == 405 and least == REFUSED:
        return True
    sent_to_sign_in = status == 302 and response["Location"].startswith("/login/?next=")
    if not rest:
        return sent_to_sign_in or status == 403
    if who.rank == 0:
        return status == 401 or (sent_to_sign_in and address.route == REST + "docs/")
    return status == 403


def test_the_admin_site_needs_a_role(identities: list[Identity], values: Any) -> None:
    places = {"object_id": "1", "content_type_id": "1", "app_label": "topologies", "url": "x", "id": "1"}
    wrong = []
    for address in SITE:
        path = address.path({**places, "token_key": "x"})
        for method in ("GET", "POST"):
            for who in identities:
                with transaction.atomic(), CaptureQueriesContext(connection) as queries:
                    response = who.page.generic(method, path, b"{}", content_type="application/json")
                    transaction.set_rollback(True)
                status = response.status_code
                right = status < 500
                if who.rank < RANK["viewer"]:
                    away = status == 302 and response["Location"].startswith(("/admin/", "/login/"))
                    right = not changed_by(queries) and (away or status in {403, 404, 405})
                elif who.rank == RANK["viewer"]:
                    right = right and not changed_by(queries)
                if not right:
                    wrong.append((method, path, who.name, status))
    with_token = identities[-1].program.get("/admin/")
    assert with_token.status_code == 302, "a token is not for the admin site"
    assert not wrong
