"""Every page of the admin site, for each role."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.test import Client
from django.test.client import RequestFactory

from controlplane.accounts.models import Role, Token, User
from controlplane.accounts.roles import has_role
from controlplane.administration.pages import ServiceAdmin, SystemOwnedAdmin
from controlplane.events.models import AuditEntry, EventCounter
from controlplane.topologies.models import Topology
from controlplane.webhooks.models import DeliveryAttempt, WebhookSecret
from tests.unit.controlplane.administration.conftest import ROLES
from tests.unit.controlplane.conftest import user_of

OURS = (
    "topologies",
    "checkpoints",
    "events",
    "nodes",
    "incidents",
    "measurements",
    "replication",
    "alerts",
    "webhooks",
)
PARTS = {DeliveryAttempt, WebhookSecret}
"""Models that are shown with another one, or not at all."""

admin.autodiscover()
PAGES = sorted(admin.site._registry.items(), key=lambda item: item[0].__name__)
by_model = pytest.mark.parametrize(("model", "page"), PAGES, ids=[model.__name__ for model, _ in PAGES])
Browser = Callable[[str | None], Client]


def base(model: Any) -> str:
    return f"/admin/{model._meta.app_label}/{model._meta.model_name}/"


def test_every_model_has_a_page_and_there_are_no_others() -> None:
    ours = {model for app in OURS for model in apps.get_app_config(app).get_models()} - PARTS
    assert {model for model, _ in PAGES} == ours | {User, Role, Token}


@by_model
def test_nothing_is_changed_past_a_service(rf: RequestFactory, db: None, model: Any, page: Any) -> None:
    request = rf.get("/")
    request.user = get_user_model().objects.create_superuser("root", password="secret-for-tests")
    assert isinstance(page, SystemOwnedAdmin)
    assert page.list_editable == ()
    assert "delete_selected" not in page.get_actions(request)
    for inline in page.get_inline_instances(request):
        assert not inline.has_add_permission(request, None)
        assert not inline.has_change_permission(request, None)
        assert not inline.can_delete
    may_change = (
        page.has_add_permission(request),
        page.has_change_permission(request),
        page.has_delete_permission(request),
    )
    if not isinstance(page, ServiceAdmin):
        assert may_change == (False, False, False)
        return
    assert any(may_change)
    for method in ("save_model", "save_related", "delete_view", "get_form"):
        assert getattr(type(page), method) is getattr(ServiceAdmin, method)


@by_model
def test_pages_by_role(browser: Browser, everything: Topology, model: Any, page: Any) -> None:
    if model is EventCounter:
        assert EventCounter.objects.exists()
    # The first audit entry is about a topology; later ones about accounts are not for every role.
    row = model.objects.order_by("pk").first()
    assert row is not None, "the page of a row that is there is opened"
    paths = [
        base(model),
        f"{base(model)}?q=counts",
        f"{base(model)}{row.pk}/change/",
        f"{base(model)}{row.pk}/history/",
    ]
    for role in (None, *ROLES):
        client = browser(role)
        permitted = role is not None and has_role(get_user_model().objects.get(username=role), page.read_role)
        for path in paths:
            answer = client.get(path)
            if role is None:
                assert answer.status_code == 302, "to the sign-in page, which says why"
            else:
                assert answer.status_code == (200 if permitted else 403), (role, path)
            assert "s3cret" not in answer.content.decode() or role == "administrator"
    for path in paths:
        assert Client().get(path).url.startswith("/admin/login/")


@by_model
def test_a_role_that_may_not_change_cannot(
    browser: Browser, everything: Topology, model: Any, page: Any
) -> None:
    row = model.objects.first()
    audited, rows = AuditEntry.objects.count(), model.objects.count()
    for role in (None, *ROLES):
        client = browser(role)
        if (
            isinstance(page, ServiceAdmin)
            and role is not None
            and has_role(user_named(role), page.write_role)
        ):
            continue
        for path in (
            f"{base(model)}add/",
            f"{base(model)}{row.pk}/change/",
            f"{base(model)}{row.pk}/delete/",
        ):
            assert client.post(path, {"reason": "because"}).status_code in (302, 403, 404), (role, path)
    assert model.objects.count() >= rows
    assert AuditEntry.objects.count() == audited


def user_named(name: str) -> Any:
    return get_user_model().objects.get(username=name)


def test_the_index_shows_what_each_role_may_see(browser: Browser, everything: Topology) -> None:
    def models(role: str) -> set[str]:
        answer = browser(role).get("/admin/")
        assert answer.status_code == 200
        assert "topology.create counts" in answer.content.decode(), (
            "recent changes are those of the audit trail"
        )
        return {model["object_name"] for app in answer.context["app_list"] for model in app["models"]}

    seen = {role: models(role) for role in ROLES}
    assert {"Topology", "Node", "AuditEntry", "Installation"} <= seen["viewer"]
    assert seen["viewer"] == seen["operator"]
    assert seen["administrator"] - seen["operator"] == {"User", "Role", "Token", "Webhook", "Delivery"}


def test_signing_in_is_done_in_one_place(browser: Browser, db: None) -> None:
    answer = Client().get("/admin/topologies/topology/", follow=True)
    assert answer.redirect_chain[-1][0] == "/login/?next=/admin/topologies/topology/"
    assert "Sign in" in answer.content.decode()
    refused = browser(None).get("/admin/", follow=True)
    assert refused.status_code == 403
    assert browser("viewer").get("/admin/login/").status_code == 302


def test_django_s_second_log_stays_empty(browser: Browser, everything: Topology) -> None:
    query = everything.queries.first()
    path = f"/admin/topologies/query/{query.pk}/change/"
    assert browser("operator").post(path, {"priority": 9, "reason": "because"}).status_code == 302
    assert not LogEntry.objects.exists()


def test_a_change_of_the_own_password_is_audited(db: None) -> None:
    user = user_of("viewer")
    client = Client()
    client.force_login(user)
    body = {
        "old_password": "secret-for-tests",
        "new_password1": "x9-Kf!quaint",
        "new_password2": "x9-Kf!quaint",
    }
    assert client.get("/admin/password_change/").status_code == 200
    assert client.post("/admin/password_change/", {**body, "old_password": "no"}).status_code == 200
    assert (
        client.post(
            "/admin/password_change/", {**body, "new_password1": "short", "new_password2": "short"}
        ).status_code
        == 200
    )
    assert not AuditEntry.objects.exists()
    assert client.post("/admin/password_change/", body, follow=True).status_code == 200
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.channel, entry.action, entry.target) == (
        "viewer",
        "admin",
        "account.password",
        "viewer",
    )
    assert "quaint" not in str([entry.before, entry.after, entry.reason])
    assert client.get("/admin/").status_code == 200, "this session goes on"
    user.refresh_from_db()
    assert user.check_password("x9-Kf!quaint")


def test_a_row_that_is_not_there(browser: Browser, everything: Topology) -> None:
    client = browser("administrator")
    for path in ("999/history/", "999/delete/", "nonsense/history/"):
        assert client.get(f"/admin/topologies/topology/{path}").status_code == 404
    assert client.get("/admin/topologies/topology/999/change/").status_code == 302
    assert client.get("/admin/no/such/").status_code == 404
