"""Rules and silences in the admin site: the services decide, and their refusals are the form's errors."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.alerts.models import AlertRule, Silence
from controlplane.events.models import AuditEntry
from controlplane.topologies.models import Topology
from tests.unit.controlplane.administration.conftest import errors_of

RULES, SILENCES = "/admin/alerts/alertrule/", "/admin/alerts/silence/"


@pytest.fixture
def client(browser: Callable[[str | None], Client]) -> Client:
    return browser("administrator")


def rule_form(**fields: Any) -> dict[str, Any]:
    return {
        "name": "slow", "metric": "query_latency", "comparison": "above", "threshold": "2", "held": "60",
        "calm": "30", "missing": "show", "severity": "warning", "topology": "", "priority": "1",
        "enabled": "on", "runbook": "", "reason": "because", **fields,
    }  # fmt: skip


def test_a_rule_is_made_changed_and_deleted(client: Client, topology: Topology) -> None:
    assert client.get(f"{RULES}add/").status_code == 200
    assert client.post(f"{RULES}add/", rule_form(topology="counts")).status_code == 302
    rule = AlertRule.objects.get(name="slow")
    assert (rule.topology, rule.created_by) == ("counts", "administrator")
    page = f"{RULES}{rule.pk}/change/"
    assert client.post(page, rule_form(topology="counts", threshold="3")).status_code == 302
    rule.refresh_from_db()
    assert rule.threshold == 3.0
    changed = AuditEntry.objects.get(action="rule.update")
    assert (changed.before, changed.after) == ({"threshold": 2.0}, {"threshold": 3.0})
    assert "because" in client.get(f"{RULES}{rule.pk}/history/").content.decode()
    assert client.post(f"{RULES}{rule.pk}/delete/", {"reason": "because"}).status_code == 302
    assert not AlertRule.objects.filter(name="slow").exists()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"reason": ""}, "This field is required"),
        ({"metric": "availability", "threshold": "95", "comparison": "below"}, "95 %"),
        ({"runbook": "javascript:x"}, "https://"),
        ({"name": "lag-high"}, "there is a rule"),
        ({"topology": "missing"}, "Select a valid choice"),
    ],
)
def test_what_cannot_be_keeps_the_form(client: Client, fields: dict[str, Any], message: str) -> None:
    answer = client.post(f"{RULES}add/", rule_form(**fields))
    assert answer.status_code == 200
    assert message in errors_of(answer)
    assert not AlertRule.objects.filter(name="slow").exists()


def test_a_silence_is_made_and_ended_by_operators(
    browser: Callable[[str | None], Client], topology: Topology
) -> None:
    client = browser("operator")
    until = timezone.now() + timedelta(hours=2)
    given = {"rule": "", "topology": "counts", "until_0": f"{until:%Y-%m-%d}", "until_1": f"{until:%H:%M:%S}"}
    refused = client.post(f"{SILENCES}add/", {**given, "topology": "", "reason": "moving"})
    assert "name a rule" in errors_of(refused)
    assert client.post(f"{SILENCES}add/", {**given, "reason": "moving"}).status_code == 302
    silence = Silence.objects.get()
    assert (silence.author, silence.reason) == ("operator", "moving")
    action = {"action": "end", "_selected_action": [str(silence.pk)], "reason": "moved"}
    assert client.post(SILENCES, action).status_code == 302
    silence.refresh_from_db()
    assert silence.ended_by == "operator"
    assert client.post(f"{RULES}add/", rule_form()).status_code == 403
