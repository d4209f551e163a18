"""Two users have the same page open: the second one does not put back what the first one has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from controlplane.accounts.models import User
from controlplane.accounts.users import user_create, user_update
from controlplane.alerts.models import AlertRule
from controlplane.alerts.services import rule_update
from controlplane.events.models import AuditEntry
from controlplane.lifecycle.recovery_terms import query_priorities_set, topology_policy_set
from controlplane.topologies.models import Query, Topology
from controlplane.topologies.services import topology_update
from controlplane.webhooks.models import Webhook
from controlplane.webhooks.services import webhook_create, webhook_update
from tests.unit.controlplane.administration.conftest import errors_of
from tests.unit.controlplane.specs import BY, spec_of


def opened(client: Client, page: str) -> dict[str, Any]:
    """What a browser sends of a page on which only the reason was written. No page has a password."""
    form = client.get(page).context["adminform"].form
    values = {field.name: field.value() for field in form}
    return {name: value for name, value in values.items() if value is not None and value is not False} | {
        "reason": "because",
        "password": "",
    }


@pytest.fixture
def pages(topology: Topology) -> dict[str, str]:
    webhook, _ = webhook_create(name="pager", url="https://example.org/", kinds=["node.lost"], **BY)
    user = user_create(username="eve", password="x9-Kf!quaint", role="operator", **BY)
    return {
        "rule": f"/admin/alerts/alertrule/{AlertRule.objects.get(name='lag-high').pk}/change/",
        "webhook": f"/admin/webhooks/webhook/{webhook.pk}/change/",
        "topology": f"/admin/topologies/topology/{topology.pk}/change/",
        "query": f"/admin/topologies/query/{Query.objects.get(partition__operator='O1').pk}/change/",
        "user": f"/admin/accounts/user/{user.pk}/change/",
    }


@pytest.mark.parametrize(
    ("page", "other", "mine", "now"),
    [
        (
            "rule",
            lambda: rule_update(name="lag-high", changes={"threshold": 60.0}, **BY),
            {"runbook": "call them"},
            lambda: (
                AlertRule.objects.values_list("threshold", "runbook").get(name="lag-high")
                == (60.0, "call them")
            ),
        ),
        (
            "webhook",
            lambda: webhook_update(webhook_id=Webhook.objects.get().pk, changes={"enabled": False}, **BY),
            {"kinds": ["node.joined"]},
            lambda: Webhook.objects.values_list("enabled", "kinds").get() == (False, ["node.joined"]),
        ),
        (
            "topology",
            lambda: topology_update(name="counts", spec=spec_of(parallelism=4), **BY),
            {"approval": "approve"},
            lambda: Topology.objects.values_list("version", "approval").get() == (2, "approve"),
        ),
        (
            "topology",
            lambda: topology_policy_set(name="counts", changes={"planner": "optimal"}, **BY),
            {"approval": "approve"},
            lambda: Topology.objects.values_list("planner", "approval").get() == ("optimal", "approve"),
        ),
        (
            "query",
            lambda: query_priorities_set(topology="counts", priorities={"O1[0]": 7}, **BY),
            {"priority": "9"},
            lambda: Query.objects.get(partition__operator="O1").priority == 9,
        ),
        (
            "user",
            lambda: user_update(user_id=User.objects.get(username="eve").pk, changes={"active": False}, **BY),
            {"role": "viewer"},
            lambda: not User.objects.get(username="eve").is_active,
        ),
    ],
)
def test_the_second_one_is_refused_and_reads_it_again(
    browser: Callable[[str | None], Client],
    pages: dict[str, str],
    page: str,
    other: Callable[[], object],
    mine: dict[str, Any],
    now: Callable[[], bool],
) -> None:
    client = browser("administrator")
    sent = opened(client, pages[page]) | mine
    other()
    refused = client.post(pages[page], sent)
    assert refused.status_code == 200
    assert "changed meanwhile" in errors_of(refused)
    assert not AuditEntry.objects.filter(actor="administrator").exists()
    assert client.post(pages[page], opened(client, pages[page]) | mine).status_code == 302
    assert now()


def test_a_page_that_no_other_user_has_changed_is_saved(
    browser: Callable[[str | None], Client], pages: dict[str, str]
) -> None:
    client = browser("administrator")
    for page in pages.values():
        assert 'type="hidden" name="seen"' in client.get(page).content.decode()
        assert client.post(page, opened(client, page)).status_code == 302
    assert not AuditEntry.objects.filter(actor="administrator").exists()
