"""Marks of what is no more go, however many they are."""

from __future__ import annotations

import pytest
from django.utils import timezone

from controlplane.events.representation import EntityKind
from controlplane.health.marks import marks_remove
from controlplane.health.models import HealthMark

pytestmark = pytest.mark.django_db


def test_more_go_at_once_than_sqlite_takes_conditions() -> None:
    queries: list[tuple[EntityKind, str]] = [("query", f"counts/O0[{index}]") for index in range(1_100)]
    kept: tuple[EntityKind, str] = ("node", "counts/O0[7]")
    HealthMark.objects.bulk_create(
        HealthMark(entity=entity, key=key, state="available", since=timezone.now())
        for entity, key in (*queries, kept)
    )
    marks_remove(queries)
    assert list(HealthMark.objects.values_list("entity", "key")) == [kept]
