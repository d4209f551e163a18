"""The rules of a new installation."""

from __future__ import annotations

import pytest

from controlplane.alerts.defaults import RULES, rules_ensure
from controlplane.alerts.models import AlertRule, Evaluation
from controlplane.alerts.services import rule_create, rule_delete
from tests.unit.controlplane.specs import BY

pytestmark = pytest.mark.django_db


def names() -> set[str]:
    return set(AlertRule.objects.values_list("name", flat=True))


def test_they_are_made_once_and_one_that_was_deleted_does_not_come_back() -> None:
    assert names() == {fields["name"] for fields in RULES}
    assert not AlertRule.objects.get(name="fidelity-low").enabled
    rule_delete(name="lag-high", **BY)
    rules_ensure(using="default")
    assert "lag-high" not in names()


def test_they_are_there_again_after_a_flush() -> None:
    AlertRule.objects.all().delete()
    Evaluation.objects.all().delete()
    rules_ensure(using="default")
    assert names() == {fields["name"] for fields in RULES}


def test_the_service_would_accept_each_of_them() -> None:
    AlertRule.objects.all().delete()
    for fields in RULES:
        made = rule_create(**fields, **BY)
        assert made.runbook, "who is called should read what to do"
