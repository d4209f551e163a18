"""Reading rules, alerts and silences (read side)."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q, QuerySet

from controlplane.alerts.choices import AlertState
from controlplane.alerts.models import Alert, AlertRule, Evaluation, Silence
from controlplane.errors import Missing
from domain.alerting import Silence as SilenceTerms

EVALUATION = 1


def rule_list() -> QuerySet[AlertRule]:
    return AlertRule.objects.order_by("name")


def rule_get(name: str, *, lock: bool = False) -> AlertRule:
    """Raises `Missing`."""
    rows = AlertRule.objects.select_for_update() if lock else AlertRule.objects.all()
    rule = rows.filter(name=name).first()
    if rule is None:
        raise Missing(f"there is no alert rule {name!r}")
    return rule


def alert_list() -> QuerySet[Alert]:
    return Alert.objects.order_by("-since", "-pk")


def alerts_going_on() -> QuerySet[Alert]:
    """All that have not ended."""
    return Alert.objects.exclude(state=AlertState.RESOLVED).order_by("pk")


def silence_list() -> QuerySet[Silence]:
    return Silence.objects.order_by("-created_at", "-pk")


def silence_get(silence_id: int, *, lock: bool = False) -> Silence:
    """Raises `Missing`."""
    rows = Silence.objects.select_for_update() if lock else Silence.objects.all()
    silence = rows.filter(pk=silence_id).first()
    if silence is None:
        raise Missing(f"there is no silence {silence_id}")
    return silence


def silences_lasting() -> list[Silence]:
    return list(Silence.objects.filter(ended_at=None).order_by("pk"))


def silence_terms(silence: Silence) -> SilenceTerms:
    return SilenceTerms(
        key=silence.pk,
        rule=silence.rule or None,
        topology=silence.topology or None,
        until=silence.until,
        ended=silence.ended_at is not None,
    )


def alerts_covered(silence: Silence) -> Q:
    """Those that a silence is for."""
    covered = Q()
    if silence.rule:
        covered &= Q(rule=silence.rule)
    if silence.topology:
        covered &= Q(topology=silence.topology)
    return covered


def evaluated_at() -> datetime | None:
    """When rules were looked at last; None before the first time."""
    at: datetime | None = Evaluation.objects.filter(pk=EVALUATION).values_list("at", flat=True).first()
    return at
