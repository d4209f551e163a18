"""What a user reads of the audit trail, wherever it is shown."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.accounts.services import token_create, token_revoke
from controlplane.accounts.users import user_create, user_password_set, user_update
from controlplane.events.models import AuditEntry
from controlplane.topologies.models import Topology
from controlplane.webhooks.services import webhook_create
from tests.unit.controlplane.identities import Identity, identity
from tests.unit.controlplane.specs import BY

SECRETS = ("zora-quill", "webhook.create", "account.", "drone-quill", "https://hooks")
"""Names and actions that stand in confidential entries only."""


@pytest.fixture
def keys(topology: Topology) -> list[str]:
    """An entry of each kind about an account, a token and a webhook; the keys of the tokens."""
    eve = user_create(username="zora-quill", password="a-Long-one-7", role="viewer", **BY)
    user_create(username="root", password="a-Long-one-7", role="administrator", **BY)
    user_update(user_id=eve.pk, changes={"role": "operator"}, **BY)
    user_password_set(user_id=eve.pk, password="another-Long-7", tokens_end=True, **BY)
    token, _ = token_create(user=eve, lifetime=None, **BY)
    robot = user_create(username="drone-quill", password="a-Long-one-7", role="viewer", **BY)
    other, _ = token_create(user=robot, lifetime=None, **BY)
    webhook_create(name="pager", url="https://hooks.example.org/T0/s3cret", kinds=["node.lost"], **BY)
    keys = [token.token_key, other.token_key]
    token_revoke(token=token, **BY)
    return keys


def shown(who: Identity) -> dict[str, str]:
    """Every page and answer that shows the trail."""
    rest, site = "/api/v1/audit/", "/admin/events/auditentry/"
    answers: dict[str, Any] = {
        "list": who.program.get(rest),
        "found": who.program.get(f"{rest}?search=token"),
        "choices": who.program.get(f"{rest}choices/"),
        "admin list": who.page.get(site),
        "admin search": who.page.get(f"{site}?q=zora-quill"),
        "admin index": who.page.get("/admin/"),
    }
    assert {answer.status_code for answer in answers.values()} == {200}
    return {name: answer.content.decode() for name, answer in answers.items()}


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_accounts_tokens_and_webhooks_are_for_administrators(keys: list[str], role: str) -> None:
    who = identity(role)
    for place, text in shown(who).items():
        text = text.replace('value="zora-quill"', "").replace('q=zora-quill"', "")  # the search itself
        assert not [secret for secret in (*SECRETS, *keys) if secret in text], place
    assert "topology.create" in shown(who)["list"]
    for entry in AuditEntry.objects.exclude(action__startswith="topology."):
        assert who.program.get(f"/api/v1/audit/{entry.pk}/").status_code == 404
        for page in ("change", "history"):
            answer = who.page.get(f"/admin/events/auditentry/{entry.pk}/{page}/")
            assert answer.status_code in (302, 404)


def test_an_administrator_reads_them(keys: list[str]) -> None:
    text = shown(identity("administrator"))
    assert all(secret in text["list"] for secret in (*SECRETS, *keys))
    assert "account.password" in text["choices"]
    assert "account.password" in text["admin list"]


def test_the_owner_of_a_token_reads_what_became_of_it(keys: list[str]) -> None:
    who = identity("viewer")
    mine, _ = token_create(user=who.user, lifetime=None, **BY)
    (entry,) = who.program.get("/api/v1/audit/?action=token.create").json()["results"]
    assert entry["after"]["key"] == mine.token_key
