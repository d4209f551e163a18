"""Reading the audit trail: filters, time ranges, and the choices of a filter."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.events.audit import audit_record
from controlplane.events.choices import Channel
from controlplane.events.models import AuditEntry

API = "/api/v1/audit"


@pytest.fixture
def trail(db: None) -> list[AuditEntry]:
    """Five entries, an hour apart, the oldest first."""
    rows = [
        audit_record(
            actor=("ada", "kim")[i % 2],
            channel=(Channel.PAGE, Channel.REST)[i % 2],
            action=("topology.policy", "node.drain", "incident.approve")[i % 3],
            target=f"t{i}",
            before={"planner": "optimal"} if i == 0 else None,
            after={"planner": "look_ahead"} if i == 0 else None,
            reason=f"why {i}",
        )
        for i in range(5)
    ]
    now = timezone.now()
    for i, row in enumerate(rows):
        row.at = now - timedelta(hours=5 - i)
        row.save(update_fields=["at"])
    return rows


def targets(client: APIClient, query: str = "") -> list[str]:
    return [row["target"] for row in client.get(f"{API}/?{query}").json()["results"]]


def test_newest_first_in_pages(viewer: APIClient, trail: list[AuditEntry]) -> None:
    assert targets(viewer) == ["t4", "t3", "t2", "t1", "t0"]
    page = viewer.get(f"{API}/?limit=2&offset=2").json()
    assert (page["count"], [row["target"] for row in page["results"]]) == (5, ["t2", "t1"])


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("actor=kim", ["t3", "t1"]),
        ("channel=page&action=topology.policy", ["t0"]),
        ("target=t2", ["t2"]),
        ("search=why 4", ["t4"]),
        ("search=drain", ["t4", "t1"]),
        ("actor=unknown", []),
    ],
)
def test_filters(viewer: APIClient, trail: list[AuditEntry], query: str, expected: list[str]) -> None:
    assert targets(viewer, query) == expected


def test_a_span_of_time(viewer: APIClient, trail: list[AuditEntry]) -> None:
    def iso(row: AuditEntry) -> str:
        return row.at.isoformat().replace("+00:00", "Z")

    assert targets(viewer, f"since={iso(trail[1])}&until={iso(trail[3])}") == ["t2", "t1"]
    assert targets(viewer, f"since={trail[4].at.isoformat()}") == ["t4"], "a + that became a space"
    for wrong in ("since=yesterday", "until=2026-01-01T00:00:00", "since=2026-13-01T00:00:00Z"):
        answer = viewer.get(f"{API}/?{wrong}")
        assert answer.status_code == 400
        assert answer.json()["errors"][0]["path"] == wrong.partition("=")[0]


def test_one_entry_with_before_and_after(viewer: APIClient, trail: list[AuditEntry]) -> None:
    entry = viewer.get(f"{API}/{trail[0].pk}/").json()
    assert (entry["before"], entry["after"]) == ({"planner": "optimal"}, {"planner": "look_ahead"})
    assert viewer.get(f"{API}/{trail[4].pk + 1}/").status_code == 404


def test_what_a_filter_offers(
    viewer: APIClient, trail: list[AuditEntry], django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(3):  # the role, and one for each column
        offered = viewer.get(f"{API}/choices/").json()
    assert offered["actors"] == ["ada", "kim"]
    assert offered["actions"] == ["incident.approve", "node.drain", "topology.policy"]
    assert "cli" in offered["channels"]


def test_a_user_without_a_role_reads_nothing(roleless: APIClient, trail: list[AuditEntry]) -> None:
    for path in ("", "choices/", f"{trail[0].pk}/"):
        assert roleless.get(f"{API}/{path}").status_code == 403
