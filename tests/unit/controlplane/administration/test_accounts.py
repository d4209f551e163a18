"""Users, roles and tokens in the admin site."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone
from knox.models import AuthToken
from rest_framework.test import APIClient

from controlplane.accounts.models import Token
from controlplane.accounts.roles import role_held
from controlplane.accounts.users import user_create, user_update
from controlplane.errors import Conflict, Invalid
from controlplane.events.models import AuditEntry
from tests.unit.controlplane.administration.conftest import errors_of
from tests.unit.controlplane.specs import BY

WHY = {"reason": "because"}
USERS = "/admin/accounts/user/"
TOKENS = "/admin/accounts/token/"
PASSWORD = "x9-Kf!quaint"
User = get_user_model()


@pytest.fixture
def client(browser: Callable[[str | None], Client]) -> Client:
    return browser("administrator")


def new(**fields: str) -> dict[str, str]:
    return {"username": "eve", "role": "operator", "password": PASSWORD, **WHY, **fields}


def sign_in(browser: Client, password: str) -> bool:
    return browser.post("/login/", {"username": "eve", "password": password}).status_code == 302


def test_a_user_is_created_with_a_role(client: Client) -> None:
    assert client.get(f"{USERS}add/").status_code == 200
    assert client.post(f"{USERS}add/", new()).status_code == 302
    user = User.objects.get(username="eve")
    assert user.check_password(PASSWORD)
    assert (role_held(user), user.is_staff, user.is_superuser) == ("operator", False, False)
    entry = AuditEntry.objects.get(action="account.create", target="eve")
    assert (entry.actor, entry.channel, entry.reason) == ("administrator", "admin", "because")
    assert entry.after == {"role": "operator", "active": True}
    signed_in = Client()
    assert sign_in(signed_in, PASSWORD)
    assert signed_in.get("/admin/").status_code == 200


def test_a_name_is_written_as_the_sign_in_page_reads_it(client: Client) -> None:
    """Letters of full width, as an input method for Japanese gives them."""
    assert client.post(f"{USERS}add/", new(username="ｅｖｅ")).status_code == 302
    assert User.objects.filter(username="eve").exists()
    assert sign_in(Client(), PASSWORD)
    assert Client().post("/login/", {"username": "ｅｖｅ", "password": PASSWORD}).status_code == 302


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"reason": ""}, "This field is required"),
        ({"username": ""}, "This field is required"),
        ({"username": "two words"}, "Enter a valid username"),
        ({"username": "x" * 151}, "at most 150"),
        ({"username": "System"}, "is reserved"),
        ({"username": "ADMINISTRATOR"}, "there is a user"),
        ({"password": ""}, "This field is required"),
        ({"password": "short"}, "too short"),
        ({"password": "password1234"}, "too common"),
        ({"role": "king"}, "Select a valid choice"),
    ],
)
def test_users_that_cannot_be(client: Client, fields: dict[str, str], message: str) -> None:
    answer = client.post(f"{USERS}add/", new(**fields))
    assert answer.status_code == 200
    assert message in errors_of(answer)
    assert PASSWORD not in answer.content.decode()
    assert User.objects.count() == 1
    assert not AuditEntry.objects.exists()


def test_roles_and_passwords_are_changed(client: Client) -> None:
    client.post(f"{USERS}add/", new())
    user = User.objects.get(username="eve")
    url = f"{USERS}{user.pk}/change/"
    session = Client()
    assert sign_in(session, PASSWORD)
    body = {"role": "viewer", "active": "on", "password": "", **WHY}
    assert client.post(url, body).status_code == 302
    entry = AuditEntry.objects.get(action="account.update")
    assert (entry.before, entry.after) == ({"role": "operator"}, {"role": "viewer"})
    assert session.get("/admin/").status_code == 200
    _, token = AuthToken.objects.create(user=user)
    program = Client(headers={"Authorization": f"Bearer {token}"})
    assert program.get("/api/v1/me/").status_code == 200
    assert client.post(url, {**body, "password": "another-Kf!9"}).status_code == 302
    assert AuditEntry.objects.get(action="account.password").target == "eve"
    assert session.get("/admin/").status_code == 302, "a new password ends sessions"
    assert program.get("/api/v1/me/").status_code == 401, "and tokens"
    ended = AuditEntry.objects.get(action="token.revoke")
    assert (ended.actor, ended.target, ended.reason) == ("administrator", "eve", "because")
    assert client.post(url, {**body, "active": ""}).status_code == 302
    user.refresh_from_db()
    assert (user.is_active, role_held(user)) == (False, "viewer")
    assert not sign_in(Client(), "another-Kf!9")
    assert client.post(url, {**body, "role": "", "active": "on"}).status_code == 302
    assert role_held(User.objects.get(pk=user.pk)) is None
    history = client.get(url.replace("change", "history")).content.decode()
    assert history.count("account.update") == 3
    assert "another-Kf" not in history


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"reason": ""}, "This field is required"),
        ({"role": "king"}, "Select a valid choice"),
        ({"password": "short"}, "too short"),
    ],
)
def test_edits_that_cannot_be_change_nothing(client: Client, fields: dict[str, str], message: str) -> None:
    user = user_create(username="eve", password=PASSWORD, role="operator", **BY)
    body = {"role": "viewer", "active": "on", "password": "", **WHY, **fields}
    answer = client.post(f"{USERS}{user.pk}/change/", body)
    assert answer.status_code == 200
    assert message in errors_of(answer)
    user = User.objects.get(pk=user.pk)
    assert role_held(user) == "operator"
    assert user.check_password(PASSWORD)
    assert not AuditEntry.objects.filter(actor="administrator").exists()


def test_there_is_always_an_administrator(client: Client) -> None:
    me = User.objects.get(username="administrator")
    url = f"{USERS}{me.pk}/change/"
    # One who cannot sign in is none.
    gone = user_create(username="gone", password=PASSWORD, role="administrator", **BY)
    user_update(user_id=gone.pk, changes={"active": False}, **BY)
    for body in ({"role": "viewer", "active": "on"}, {"role": "administrator"}):
        answer = client.post(url, {**body, "password": "", **WHY})
        assert answer.status_code == 200
        assert "the only active administrator" in errors_of(answer)
    root = User.objects.create_superuser("root", password=PASSWORD)
    assert client.post(url, {"role": "viewer", "active": "on", "password": "", **WHY}).status_code == 302
    assert client.get(USERS).status_code == 403, "the role is gone at once"
    with pytest.raises(Conflict):
        user_update(user_id=root.pk, changes={"role": "operator"}, **BY)
    root.refresh_from_db()
    assert root.is_superuser


def test_what_a_superuser_has_ends_with_the_role(client: Client) -> None:
    root = User.objects.create_superuser("root", password=PASSWORD)
    body = {"role": "viewer", "active": "on", "password": "", **WHY}
    assert client.post(f"{USERS}{root.pk}/change/", body).status_code == 302
    root = User.objects.get(pk=root.pk)
    assert (root.is_superuser, root.is_staff, role_held(root)) == (False, False, "viewer")
    assert AuditEntry.objects.get(action="account.update").before == {"role": "administrator"}
    with pytest.raises(Invalid, match="has no field"):
        user_update(user_id=root.pk, changes={"is_superuser": True}, **BY)


def test_users_and_roles_are_not_deleted_here(client: Client) -> None:
    user = user_create(username="eve", password=PASSWORD, role="operator", **BY)
    group = Group.objects.get(name="operator")
    assert client.post(f"{USERS}{user.pk}/delete/", WHY).status_code == 403
    assert client.post(f"/admin/accounts/role/{group.pk}/delete/", WHY).status_code == 403
    assert (
        client.post(f"/admin/accounts/role/{group.pk}/change/", {"name": "kings", **WHY}).status_code == 403
    )
    assert client.post("/admin/accounts/role/add/", {"name": "kings", **WHY}).status_code == 403
    page = client.get("/admin/accounts/role/").content.decode()
    assert "deploys, recovers, drains nodes" in page
    assert client.post(f"{USERS}{user.pk}/password/", {"password1": PASSWORD}).status_code in (302, 404)
    assert set(Group.objects.values_list("name", flat=True)) == {"viewer", "operator", "administrator"}


def test_a_token_is_made_shown_once_and_revoked(client: Client) -> None:
    user = user_create(username="robot", password=PASSWORD, role="viewer", **BY)
    answer = client.post(f"{TOKENS}add/", {"user": user.pk, "lifetime_hours": "2", **WHY})
    assert answer.status_code == 200
    (text,) = re.findall(r'readonly value="([^"]+)"', answer.content.decode())
    assert "no-store" in answer["Cache-Control"]
    assert "sessionid" not in str(answer.cookies)
    robot = APIClient(headers={"Authorization": f"Bearer {text}"})
    assert robot.get("/api/v1/me/").json() == {"username": "robot", "role": "viewer"}
    token = Token.objects.get()
    assert abs(token.expiry - timezone.now() - timedelta(hours=2)) < timedelta(minutes=1)
    for path in (TOKENS, f"{TOKENS}{token.pk}/change/", f"{TOKENS}{token.pk}/history/", "/admin/"):
        page = client.get(path)
        assert page.status_code == 200
        assert text not in page.content.decode()
    assert "token.create" in client.get(f"{TOKENS}{token.pk}/history/").content.decode()
    assert client.post(f"{TOKENS}{token.pk}/change/", {"user": 1, **WHY}).status_code == 403
    assert client.post(f"{TOKENS}{token.pk}/delete/", {"reason": ""}).status_code == 200
    assert client.post(f"{TOKENS}{token.pk}/delete/", WHY).status_code == 302
    assert robot.get("/api/v1/me/").status_code == 401
    entry = AuditEntry.objects.get(action="token.revoke")
    assert (entry.actor, entry.target, entry.before) == ("administrator", "robot", {"key": token.token_key})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"reason": ""}, "This field is required"),
        ({"user": ""}, "This field is required"),
        ({"user": "999"}, "Select a valid choice"),
        ({"lifetime_hours": "0"}, "greater than or equal to 0.01"),
        ({"lifetime_hours": "1e300"}, "less than or equal to 87600"),
        ({"lifetime_hours": "soon"}, "Enter a number"),
    ],
)
def test_tokens_that_cannot_be(client: Client, fields: dict[str, Any], message: str) -> None:
    user = user_create(username="robot", password=PASSWORD, role="viewer", **BY)
    answer = client.post(f"{TOKENS}add/", {"user": user.pk, "lifetime_hours": "", **WHY, **fields})
    assert answer.status_code == 200
    assert message in errors_of(answer)
    assert not Token.objects.exists()
