"""Every change through REST leaves one row in the audit trail: who, what, before and after, and why."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings
from knox.models import AuthToken

from controlplane.events.choices import Channel
from controlplane.events.models import AuditEntry
from controlplane.topologies.models import Topology
from tests.unit.controlplane.addresses import REST, addresses
from tests.unit.controlplane.identities import identity
from tests.unit.controlplane.writes import WHY, WRITES, Write, installation_fill


@pytest.fixture
def values(topology: Topology, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(settings, "RESURGE", replace(settings.RESURGE))
    return installation_fill(topology)


def test_every_way_to_write_is_looked_at() -> None:
    found = {
        (method, address.route.removeprefix(REST))
        for address in addresses()
        if address.route.startswith(REST) and "{anything}" not in address.route
        for method in address.methods - {"GET", "HEAD"}
    }
    assert found == set(WRITES)


class Asking:
    """A user with the role and a token, and requests by this user."""

    def __init__(self, values: Any, write: Write) -> None:
        self.who = identity("administrator" if write.role == "administrator" else "operator")
        self.values = {"token_key": AuthToken.objects.create(user=self.who.user)[0].token_key}
        self.of_route = values

    def __call__(self, asked: tuple[str, str], body: dict[str, Any], write: Write, query: str = "") -> Any:
        method, route = asked
        path = REST + route
        for name, value in {**self.of_route(path), **self.values}.items():
            path = path.replace(f"{{{name}}}", value)
        return self.who.program.generic(
            method,
            f"/{path}?{query}",
            json.dumps(body),
            content_type="application/json",
            headers=write.headers,
        )


@pytest.mark.parametrize(("asked", "write"), WRITES.items(), ids=[" ".join(asked) for asked in WRITES])
def test_it_leaves_its_row(asked: tuple[str, str], write: Write, values: Any) -> None:
    ask = Asking(values, write)
    write.prepare()
    before = set(AuditEntry.objects.values_list("pk", flat=True))
    answer = ask(asked, write.data(), write, write.query)
    assert answer.status_code < 300, answer.content
    rows = list(AuditEntry.objects.exclude(pk__in=before))
    if write.leaves == "nothing":
        assert rows == []
        return
    (row,) = rows
    assert (row.actor, row.channel, row.reason) == (ask.who.name, Channel.REST, WHY)
    assert row.action
    assert row.target
    assert (row.before is None, row.after is None) == (write.leaves == "creates", write.leaves == "deletes")
    if write.leaves == "changes":
        assert row.before != row.after
    assert len(json.dumps([row.before, row.after])) > 10


REASONED = {asked: write for asked, write in WRITES.items() if write.reasoned}


@pytest.mark.parametrize(("asked", "write"), REASONED.items(), ids=[" ".join(asked) for asked in REASONED])
def test_without_a_reason_nothing_happens(asked: tuple[str, str], write: Write, values: Any) -> None:
    ask = Asking(values, write)
    write.prepare()
    count = AuditEntry.objects.count()
    for reason in ({}, {"reason": ""}, {"reason": "  "}, {"reason": None}, {"reason": 7}):
        answer = ask(asked, {**write.body, **reason}, write)
        assert answer.status_code == 400
        assert [error["path"] for error in answer.json()["errors"]] == ["reason"]
    assert AuditEntry.objects.count() == count
