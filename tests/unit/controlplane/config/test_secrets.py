"""No secret is in any answer, page or log: keys, passwords, tokens and their hashes, sessions."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.views.debug import ExceptionReporter
from knox.models import AuthToken

from controlplane.topologies.models import Topology
from host.environment import read
from tests.unit.controlplane.addresses import addresses
from tests.unit.controlplane.identities import identity
from tests.unit.controlplane.writes import installation_fill

SECRETS = {
    "secret_key": "canary-secret-key-5f1c",
    "database_url": "postgres://resurge:canary-database-77aa@db.example/resurge",
    "redis_url": "redis://:canary-redis-31b0@redis.example/0",
    "zookeeper_secret": "canary-zookeeper-c402",
    "spark_secret": "canary-spark-8d17",
}
PASSWORD = "canary-password-9d2e"


@pytest.fixture
def canaries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The secrets of this installation, as they would look in a leak."""
    monkeypatch.setattr(settings, "RESURGE", replace(settings.RESURGE, **SECRETS))
    monkeypatch.setattr(settings, "SECRET_KEY", SECRETS["secret_key"])
    return [
        "canary-secret-key",
        "canary-database",
        "canary-redis",
        "canary-zookeeper",
        "canary-spark",
        "canary-password",
    ]


def test_no_answer_holds_a_secret(
    topology: Topology, canaries: list[str], caplog: pytest.LogCaptureFixture, capsys: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    values = installation_fill(topology)
    User.objects.create_user("holder", password=PASSWORD)
    who = identity("administrator")
    made = who.program.post(
        "/api/v1/tokens/", {"reason": "x", "lifetime_hours": 1}, content_type="application/json"
    ).json()
    row = AuthToken.objects.get(token_key=made["token_key"])
    client = Client()
    assert client.post("/login/", {"username": "holder", "password": PASSWORD}).status_code == 302
    session = client.cookies["sessionid"].value
    password = User.objects.get(username="holder").password
    secrets = [*canaries, made["token"], who.token, session, who.page.cookies["sessionid"].value, password]
    places = {"object_id": "1", "content_type_id": "1", "app_label": "topologies", "url": "x", "id": "1"}
    looked = 0
    for address in addresses():
        if address.route in {"readyz", "logout/", "admin/logout/"}:
            continue
        path = address.path({**places, **values(address.route), "token_key": made["token_key"]})
        for answer in (who.page.get(path), who.program.get(path), who.program.get(f"{path}?nonsense=1")):
            looked += 1
            text = answer.content.decode(errors="replace") if not answer.streaming else ""
            # The admin site addresses a token by its hash, which is its key.
            hashes = [] if path.startswith("/admin/accounts/token/") else [row.digest]
            for secret in [*secrets, *hashes]:
                assert secret not in text, (path, secret[:20])
                assert secret not in str(answer.headers), (path, secret[:20])
    assert looked > 300
    printed = capsys.readouterr()
    for secret in [*secrets, row.digest]:
        assert secret not in caplog.text
        assert secret not in printed.out + printed.err


def test_the_admin_shows_of_a_password_only_that_there_is_one(topology: Topology) -> None:
    holder = User.objects.create_user("holder", password=PASSWORD)
    page = identity("administrator").page.get(f"/admin/accounts/user/{holder.pk}/change/")
    assert page.status_code == 200
    assert holder.password.split("$")[-1] not in page.content.decode()


def test_settings_do_not_print_their_secrets(canaries: list[str]) -> None:
    given = {"RESURGE_SECRET_KEY": SECRETS["secret_key"], "RESURGE_REDIS_URL": SECRETS["redis_url"]}
    for text in (repr(read(given)), repr(settings.RESURGE)):
        assert "canary" not in text


@pytest.mark.usefixtures("canaries")
def test_error_pages_do_not_either(monkeypatch: pytest.MonkeyPatch, rf: Any) -> None:
    monkeypatch.setattr(settings, "CELERY_BROKER_URL", SECRETS["redis_url"])
    try:
        raise RuntimeError("something broke")
    except RuntimeError as error:
        reporter: Any = ExceptionReporter(rf.get("/"), type(error), error, None)
    page = reporter.get_traceback_html()
    assert "something broke" in page
    assert "CELERY_BROKER_URL" in page
    assert "canary" not in page
