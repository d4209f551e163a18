"""Alerts, rules and silences over REST: what is refused and why, who may what, and edits of what was seen."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.alerts.models import Alert, AlertRule, Silence
from controlplane.events.models import AuditEntry, Event
from controlplane.topologies.models import Topology
from tests.unit.controlplane.conftest import client_of

RULE: dict[str, Any] = {
    "name": "slow",
    "metric": "query_latency",
    "comparison": "above",
    "threshold": 2,
    "held": 60,
    "reason": "customers complain",
}
RULES, SILENCES = "/api/v1/alert-rules/", "/api/v1/silences/"


@pytest.fixture
def administrator(db: None) -> APIClient:
    return client_of("administrator")


def in_an_hour() -> str:
    return (timezone.now() + timedelta(hours=1)).isoformat()


def errors(response: Any) -> dict[str, str]:
    return {error["path"]: error["message"] for error in response.json()["errors"]}


def test_a_rule_is_made_changed_and_deleted_and_each_has_its_reason(administrator: APIClient) -> None:
    made = administrator.post(RULES, RULE, format="json")
    assert made.status_code == 201
    assert made.headers["Location"] == f"{RULES}slow/"
    assert (made.json()["calm"], made.json()["severity"], made.json()["enabled"]) == (30.0, "warning", True)
    changed = administrator.patch(f"{RULES}slow/", {"severity": "critical", "reason": "it is"}, format="json")
    assert changed.json()["severity"] == "critical"
    assert administrator.delete(f"{RULES}slow/?reason=not+needed").status_code == 204
    assert not AlertRule.objects.filter(name="slow").exists()
    entries = AuditEntry.objects.filter(target="slow").order_by("pk")
    assert [(one.action, one.reason, one.actor) for one in entries] == [
        ("rule.create", "customers complain", "administrator"),
        ("rule.update", "it is", "administrator"),
        ("rule.delete", "not needed", "administrator"),
    ]
    assert entries[1].before == {"severity": "warning"}
    assert entries[1].after == {"severity": "critical"}
    kinds = Event.objects.filter(kind="rule.updated").values_list("changes", flat=True)
    assert [changes[0]["fields"] is None for changes in kinds] == [False, False, True]


def test_a_rule_whose_topology_was_deleted_can_be_changed(administrator: APIClient) -> None:
    """The page sends all fields of its form."""
    assert administrator.post(RULES, RULE, format="json").status_code == 201
    AlertRule.objects.filter(name="slow").update(topology="gone")
    same = {"topology": "gone", "threshold": 3, "reason": "it comes back"}
    assert administrator.patch(f"{RULES}slow/", same, format="json").json()["threshold"] == 3
    other = administrator.patch(f"{RULES}slow/", {**same, "topology": "never"}, format="json")
    assert errors(other) == {"topology": "there is no topology 'never'"}


@pytest.mark.parametrize(
    ("change", "path", "word"),
    [
        ({"reason": ""}, "reason", "give a reason"),
        ({"name": "Slow Queries"}, "name", "required pattern"),
        ({"metric": "weather"}, "metric", "not a valid choice"),
        ({"threshold": -1}, "threshold", "greater than or equal"),
        ({"held": 1e9}, "held", "less than or equal"),
        ({"threshold": "much"}, "threshold", "number"),
        ({"metric": "availability", "threshold": 95, "comparison": "below"}, "threshold", "95 %"),
        ({"metric": "fidelity", "threshold": 1, "comparison": "above"}, "threshold", "never above"),
        ({"metric": "lag", "threshold": 0, "comparison": "below"}, "threshold", "never below 0"),
        ({"metric": "lag", "priority": 3}, "priority", "one value for all"),
        ({"priority": 11}, "priority", "less than or equal"),
        ({"topology": "nowhere"}, "topology", "there is no topology"),
        ({"runbook": "javascript:alert(1)"}, "runbook", "https://"),
        ({"runbook": "https://"}, "runbook", "name a host"),
        ({"runbook": "https://me:secret@example.org/"}, "runbook", "no user"),
        ({"runbook": "x" * 2001}, "runbook", "2000"),
        ({"treshold": 3}, "treshold", "no such field"),
    ],
)
def test_what_cannot_be_is_refused_with_its_field(
    administrator: APIClient, change: dict[str, Any], path: str, word: str
) -> None:
    refused = administrator.post(RULES, {**RULE, **change}, format="json")
    assert refused.status_code == 400
    assert word in errors(refused)[path]
    assert not AlertRule.objects.filter(name="slow").exists()


@pytest.mark.parametrize(
    "text", ["Note: look at the page.", "https://wiki.example.org/x?y=1#z", "see RFC 9110"]
)
def test_runbooks_are_texts_or_addresses(administrator: APIClient, text: str) -> None:
    assert administrator.post(RULES, {**RULE, "runbook": text}, format="json").json()["runbook"] == text


def test_a_name_is_used_once(administrator: APIClient) -> None:
    administrator.post(RULES, RULE, format="json")
    assert administrator.post(RULES, RULE, format="json").status_code == 409


def test_an_edit_holds_only_for_what_was_seen(administrator: APIClient) -> None:
    seen = administrator.get(f"{RULES}lag-high/").headers["ETag"]
    first = {"threshold": 60, "reason": "a"}
    assert (
        administrator.patch(f"{RULES}lag-high/", first, format="json", headers={"If-Match": seen}).status_code
        == 200
    )
    second = administrator.patch(
        f"{RULES}lag-high/", {"threshold": 90, "reason": "b"}, format="json", headers={"If-Match": seen}
    )
    assert second.status_code == 412
    assert AlertRule.objects.get(name="lag-high").threshold == 60
    gone = administrator.delete(f"{RULES}lag-high/?reason=c", headers={"If-Match": seen})
    assert gone.status_code == 412


def test_a_key_makes_one_rule_and_one_silence(administrator: APIClient, topology: Topology) -> None:
    silence = {"topology": "counts", "until": in_an_hour(), "reason": "moving racks"}
    for path, body in ((RULES, RULE), (SILENCES, silence)):
        answers = [
            administrator.post(path, body, format="json", headers={"Idempotency-Key": "k" + path})
            for _ in range(2)
        ]
        assert [answer.status_code for answer in answers] == [201, 201]
        assert answers[0].json()["id"] == answers[1].json()["id"]
    assert Silence.objects.count() == 1


def test_operators_silence_and_administrators_decide_rules(operator: APIClient, viewer: APIClient) -> None:
    body = {"rule": "lag-high", "until": in_an_hour(), "reason": "known"}
    assert viewer.post(SILENCES, body, format="json").status_code == 403
    made = operator.post(SILENCES, body, format="json")
    assert made.status_code == 201
    assert made.json()["author"] == "operator"
    assert operator.post(RULES, RULE, format="json").status_code == 403
    assert viewer.get(RULES).json()["count"] == 5
    ended = operator.post(f"{SILENCES}{made.json()['id']}/end/", {"reason": "over"}, format="json")
    assert ended.json()["ended_by"] == "operator"
    again = operator.post(f"{SILENCES}{made.json()['id']}/end/", {"reason": "over"}, format="json")
    assert again.status_code == 409


@pytest.mark.parametrize(
    ("body", "path", "word"),
    [
        ({}, "", "name a rule, a topology, or both"),
        ({"rule": "no-such"}, "rule", "no alert rule"),
        ({"topology": "nowhere"}, "topology", "no topology"),
        ({"rule": "lag-high", "until": "2020-01-01T00:00:00Z"}, "until", "past"),
        ({"rule": "lag-high", "until": "2199-01-01T00:00:00Z"}, "until", "30 days"),
        ({"rule": "lag-high", "seconds": 60}, "until", "either `until` or `seconds`"),
        ({"rule": "lag-high", "until": "2026-12-01T00:00:00"}, "until", "with an offset or Z"),
        ({"rule": "lag-high", "until": "2026-12-01"}, "until", "with an offset or Z"),
        ({"rule": "lag-high", "reason": " "}, "reason", "give a reason"),
    ],
)
def test_silences_that_cannot_be(operator: APIClient, body: dict[str, Any], path: str, word: str) -> None:
    refused = operator.post(SILENCES, {"until": in_an_hour(), "reason": "why", **body}, format="json")
    assert refused.status_code == 400
    assert word in errors(refused)[path]


def test_a_silence_lasts_for_some_seconds(operator: APIClient) -> None:
    body = {"rule": "lag-high", "reason": "known"}
    wrong = [
        operator.post(SILENCES, {**body, "seconds": seconds}, format="json") for seconds in (0, 2_592_001)
    ]
    assert [("seconds" in errors(answer), answer.status_code) for answer in wrong] == [(True, 400)] * 2
    assert errors(operator.post(SILENCES, body, format="json")) == {
        "until": "give either `until` or `seconds`"
    }
    before = timezone.now()
    made = operator.post(SILENCES, {**body, "seconds": 2_592_000}, format="json")
    assert made.status_code == 201
    assert before <= Silence.objects.get().until - timedelta(days=30) <= timezone.now()


def test_alerts_can_be_found_by_state_severity_and_silence(viewer: APIClient) -> None:
    now = timezone.now()
    silence = Silence.objects.create(rule="a", until=now, author="ada", reason="x")
    for rule, state, covered in (("a", "firing", silence), ("b", "firing", None), ("c", "resolved", None)):
        Alert.objects.create(
            rule=rule, metric="lag", comparison="above", threshold=30.0, severity="warning",
            topology="counts", state=state, value=45.0, since=now, silence=covered,
        )  # fmt: skip

    def found(query: str) -> list[str]:
        return sorted(row["rule"] for row in viewer.get(f"/api/v1/alerts/?{query}").json()["results"])

    assert found("state=firing") == ["a", "b"]
    assert found("silenced=true") == ["a"]
    assert found("state=firing&silenced=false") == ["b"]
    assert found("state=resolved&state=missing") == ["c"]
    assert viewer.get("/api/v1/alerts/?stat=firing").status_code == 400
    row = viewer.get(f"/api/v1/alerts/{Alert.objects.get(rule='a').pk}/").json()
    assert (row["text"], row["silence"]) == ("Lag of counts: 45 s, above 30 s", silence.pk)
