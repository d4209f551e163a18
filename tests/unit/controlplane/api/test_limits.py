"""Guessing passwords and sending too many requests: which clients have to wait, for how long, and which do
not."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client, RequestFactory
from rest_framework.test import APIClient

from controlplane.api import throttling
from controlplane.api.throttling import MOST_KEYS, Buckets
from controlplane.topologies.models import Topology
from dashboard.signing_in import SignInForm
from host.environment import InvalidEnvironment, Rate, read
from tests.unit.controlplane.identities import identity

PASSWORD = "a-long-secret-for-tests"


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`limited(rate_limit_page=Rate(3, 60))` sets limits; all buckets are full."""

    def limit(**rates: Rate) -> None:
        monkeypatch.setattr(settings, "RESURGE", replace(settings.RESURGE, **rates))

    throttling._buckets.cache_clear()
    yield limit
    throttling._buckets.cache_clear()


def soon(answer: Any, seconds: int) -> bool:
    """The wait is that of a bucket which was emptied just now; on a slow machine it is a little shorter."""
    return seconds - 15 <= int(answer["Retry-After"]) <= seconds


def sign_in(client: Client, password: str, user: str = "ann", **more: Any) -> Any:
    return client.post("/login/", {"username": user, "password": password}, **more)


@pytest.fixture
def ann(db: None) -> User:
    return User.objects.create_superuser("ann", password=PASSWORD)


def test_guessing_is_stopped_and_no_other_client_is(ann: User, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    guesser = Client(REMOTE_ADDR="192.0.2.7")
    for attempt in range(settings.AXES_FAILURE_LIMIT - 1):
        assert sign_in(guesser, f"wrong-guess-{attempt}").status_code == 200
    refused = sign_in(guesser, "wrong-guess-last")
    assert (refused.status_code, refused["Retry-After"]) == (429, "900")
    assert b"Too many wrong passwords" in refused.content
    assert b"15 minutes" in refused.content
    assert sign_in(guesser, PASSWORD).status_code == 429, "now the right password is refused too"
    assert sign_in(guesser, "x", user="bob").status_code == 200, "another user from there"
    elsewhere = Client(REMOTE_ADDR="192.0.2.8")
    assert sign_in(elsewhere, PASSWORD).status_code == 302, "the same user from elsewhere"
    assert PASSWORD not in caplog.text
    assert "wrong-guess" not in caplog.text
    stored = str(list(AccessAttempt.objects.values()))
    assert "wrong-guess" not in stored
    AccessAttempt.objects.all().delete()
    assert sign_in(guesser, PASSWORD).status_code == 302


def test_a_host_does_not_guess_on_from_other_addresses_of_its_network(ann: User) -> None:
    hosts = [Client(REMOTE_ADDR=f"2001:db8::{number}") for number in range(settings.AXES_FAILURE_LIMIT)]
    assert [sign_in(client, "wrong").status_code for client in hosts] == [*[200] * (len(hosts) - 1), 429]
    assert sign_in(Client(REMOTE_ADDR="2001:db8::ffff"), PASSWORD).status_code == 429
    assert sign_in(Client(REMOTE_ADDR="2001:db8:0:1::1"), PASSWORD).status_code == 302


def test_passwords_that_come_at_once_are_checked_one_after_the_other(
    rf: RequestFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once: list[int] = []
    checking: list[None] = []

    def authenticate(*_: Any, **__: Any) -> None:
        checking.append(None)
        time.sleep(0.005)
        at_once.append(len(checking))
        checking.pop()

    monkeypatch.setattr("django.contrib.auth.forms.authenticate", authenticate)
    given = {"username": "ann", "password": "wrong"}
    with ThreadPoolExecutor(5) as threads:
        list(threads.map(lambda _: SignInForm(rf.post("/login/"), given).is_valid(), range(5)))
    assert at_once == [1] * 5


def test_the_page_for_another_password_is_no_place_to_guess(ann: User) -> None:
    thief = Client(REMOTE_ADDR="192.0.2.7")
    thief.force_login(ann)

    def change(old: str) -> int:
        new = "another-long-secret"
        given = {"old_password": old, "new_password1": new, "new_password2": new}
        return thief.post("/admin/password_change/", given).status_code

    tried = [change(f"wrong-{number}") for number in range(settings.AXES_FAILURE_LIMIT)]
    assert tried == [*[200] * (settings.AXES_FAILURE_LIMIT - 1), 429]
    assert change(PASSWORD) == 429
    assert sign_in(Client(REMOTE_ADDR="192.0.2.8"), PASSWORD).status_code == 302


def test_the_admin_site_asks_for_no_password_itself(ann: User) -> None:
    client = Client()
    sent = client.get("/admin/", follow=True)
    assert sent.redirect_chain[-1][0] == "/login/?next=/admin/"
    posted = client.post("/admin/login/", {"username": "ann", "password": PASSWORD})
    assert (posted.status_code, posted["Location"]) == (302, "/login/?next=/admin/")
    assert sign_in(client, PASSWORD).status_code == 302
    assert client.get("/admin/").status_code == 200
    refused = identity("roleless").page.get("/admin/", follow=True)
    assert (refused.status_code, b"no role" in refused.content) == (403, True)


def test_an_address_may_try_so_often(ann: User, limited: Any) -> None:
    limited(rate_limit_anonymous=Rate(3, 60))
    client = Client()
    for user in ("a", "b", "c"):
        assert sign_in(client, "x", user=user).status_code == 200
    refused = sign_in(client, "x", user="d")
    assert (refused.status_code, soon(refused, 20)) == (429, True)
    assert sign_in(Client(REMOTE_ADDR="192.0.2.8"), PASSWORD).status_code == 302


def test_an_unknown_client_is_told_to_wait(db: None, limited: Any) -> None:
    limited(rate_limit_anonymous=Rate(2, 60), rate_limit_token=Rate(50, 60), rate_limit_page=Rate(50, 60))
    client = APIClient()
    wrong = APIClient(headers={"Authorization": "Bearer " + "0" * 64})
    assert client.get("/api/v1/topologies/").status_code == 401
    assert wrong.get("/api/v1/topologies/").status_code == 401
    refused = client.get("/api/v1/topologies/")
    assert (refused.status_code, soon(refused, 30)) == (429, True)
    assert refused.json()["errors"][0]["message"].startswith("Request was throttled")
    assert wrong.get("/api/v1/me/").status_code == 429
    who = identity("viewer")
    assert who.program.get("/api/v1/me/").status_code == 200, "the same address, with a valid token"
    assert who.page.get("/api/v1/me/").status_code == 200
    assert Client().get("/healthz").status_code == 200


def test_each_token_and_each_user_has_a_limit(topology: Topology, limited: Any) -> None:
    limited(rate_limit_token=Rate(2, 60), rate_limit_page=Rate(3, 60))
    one, two = identity("viewer"), identity("operator")
    codes = [one.program.get("/api/v1/topologies/").status_code for _ in range(3)]
    assert codes == [200, 200, 429]
    assert two.program.get("/api/v1/topologies/").status_code == 200
    codes = [one.page.get("/api/v1/topologies/").status_code for _ in range(4)]
    assert codes == [200, 200, 200, 429], "requests of a program do not count for the pages of the same user"
    throttled = two.program.post("/api/v1/topologies/counts/pause/", {}, content_type="application/json")
    assert throttled.status_code == 400
    throttled = two.program.post("/api/v1/topologies/counts/pause/", {}, content_type="application/json")
    assert (throttled.status_code, soon(throttled, 30)) == (429, True)


def test_a_bucket_refills_evenly_and_forgets_the_oldest() -> None:
    now = [0.0]
    buckets = Buckets(Rate(4, 8.0), clock=lambda: now[0])
    assert [buckets.take("a") for _ in range(5)] == [0, 0, 0, 0, 2]
    now[0] = 1.0
    assert buckets.take("a") == 1
    now[0] = 2.0
    assert [buckets.take("a"), buckets.take("a")] == [0, 2]
    now[0] = 1000.0
    assert [buckets.take("a") for _ in range(5)] == [0, 0, 0, 0, 2], "never more than a period's worth"
    for number in range(MOST_KEYS):
        buckets.take(str(number))
    assert buckets.take("a") == 0


def test_addresses_of_one_network_count_as_one(limited: Any) -> None:
    limited(rate_limit_anonymous=Rate(1, 60))
    assert throttling.anonymous_take("2001:db8::1") == 0
    assert throttling.anonymous_take("2001:db8::2") > 0
    assert throttling.anonymous_take("2001:db8:0:1::1") == 0
    assert throttling.anonymous_take("::ffff:192.0.2.1") == 0
    assert throttling.anonymous_take("192.0.2.1") > 0, "the same one"
    assert throttling.anonymous_take("::ffff:192.0.2.2") == 0
    assert throttling.anonymous_take("") == 0, "a Unix socket has no address"


@pytest.mark.parametrize(
    "text", ["fast", "10", "0/minute", "-1/minute", "1.5/second", "10/day", "10/", "²/hour"]
)
def test_a_rate_that_is_none_is_named(text: str) -> None:
    with pytest.raises(InvalidEnvironment, match="RESURGE_RATE_LIMIT_TOKEN"):
        read({"RESURGE_RATE_LIMIT_TOKEN": text})


def test_rates_are_read() -> None:
    environment = read({"RESURGE_RATE_LIMIT_TOKEN": "5/second", "RESURGE_RATE_LIMIT_PAGE": "off"})
    assert environment.rate_limit_token == Rate(5, 1.0)
    assert environment.rate_limit_page is None
    assert environment.rate_limit_anonymous == Rate(120, 60.0)
