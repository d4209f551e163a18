"""Steps of incidents, without ZooKeeper."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.utils import timezone

from controlplane.incidents.applying import Applied, StalePlan
from controlplane.incidents.models import Incident
from workers import reconciliation

pytestmark = pytest.mark.django_db


def test_a_plan_that_is_overtaken_again_and_again_is_made_while_nothing_else_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = timezone.now()
    Incident.objects.create(number=1, detected_at=at, opened_at=at)
    ahead_of: list[bool] = []

    def advance(*, ahead: bool, **_: Any) -> Applied:
        ahead_of.append(ahead)
        if ahead:
            raise StalePlan("a node was lost")
        return Applied()

    monkeypatch.setattr(reconciliation, "incident_advance", advance)
    coordination = SimpleNamespace(topology_facts=lambda names: {})
    reconciliation.incident_step(cast("Any", coordination), 1)
    assert ahead_of == [True, True, False]
