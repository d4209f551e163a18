"""Making silences and ending them early (write side)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from controlplane.alerts.models import Alert, AlertRule, Silence
from controlplane.alerts.representation import alert_change, silence_change
from controlplane.alerts.selectors import (
    alerts_covered,
    alerts_going_on,
    silence_get,
    silence_terms,
    silences_lasting,
)
from controlplane.alerts.tags import silence_tag
from controlplane.errors import Conflict, Invalid
from controlplane.events.audit import audit_record
from controlplane.events.choices import Channel, EventKind
from controlplane.events.operations import reason_require
from controlplane.events.representation import Change, iso
from controlplane.events.services import event_publish, writing
from controlplane.preconditions import ANYTHING, Expected
from controlplane.topologies.models import Topology
from domain.alerting import silence_of

LONGEST = timedelta(days=30)
MOST_SILENCES = 200


@writing
def silence_create(
    *,
    rule: str = "",
    topology: str = "",
    until: datetime,
    actor: str,
    reason: str,
    channel: Channel,
) -> Silence:
    """Tell nothing of alerts of this rule, of this topology, or of both together, until then. Alerts go on
    and pages show them as silenced. Raises `Invalid` with the field's name, or `Conflict`."""
    reason_require(reason)
    now = timezone.now()
    if not rule and not topology:
        raise Invalid("", "name a rule, a topology, or both: a silence of everything would hide everything")
    if rule and not AlertRule.objects.filter(name=rule).exists():
        raise Invalid("rule", f"there is no alert rule {rule!r}")
    if topology and not Topology.objects.filter(name=topology).exists():
        raise Invalid("topology", f"there is no topology {topology!r}")
    if until <= now:
        raise Invalid("until", "is past; name a time that is still to come")
    if until - now > LONGEST:
        raise Invalid("until", f"is more than {LONGEST.days} days away; switch the rule off instead")
    if Silence.objects.filter(ended_at=None).count() >= MOST_SILENCES:
        raise Conflict(f"there are {MOST_SILENCES} silences already; end one that is not needed")
    silence = Silence.objects.create(rule=rule, topology=topology, until=until, author=actor, reason=reason)
    audit_record(
        actor=actor,
        channel=channel,
        action="silence.create",
        target=str(silence),
        after=_shown(silence),
        reason=reason,
    )
    event_publish(
        kind=EventKind.ALERT_SILENCED,
        topology=topology or None,
        changes=[silence_change(silence), *_alerts_mark(silence, now)],
        actor=actor,
        reason=reason,
    )
    return silence


@writing
def silence_end(
    *, silence_id: int, actor: str, reason: str, channel: Channel, expected: Expected = ANYTHING
) -> Silence:
    """End a silence before its time. Alerts that fire and that nothing was told of are told by the next look.

    Raises `Missing`, `Stale`, or `Conflict` where it has ended.
    """
    reason_require(reason)
    now = timezone.now()
    silence = silence_get(silence_id, lock=True)
    expected.require(silence_tag(silence), f"silence {silence_id}")
    if silence.ended_at is not None or silence.until <= now:
        raise Conflict(f"silence {silence_id} has ended already")
    silence.ended_at, silence.ended_by = now, actor
    silence.save(update_fields=["ended_at", "ended_by"])
    audit_record(
        actor=actor,
        channel=channel,
        action="silence.end",
        target=str(silence),
        before=_shown(silence),
        after={"ended_at": iso(now)},
        reason=reason,
    )
    event_publish(
        kind=EventKind.ALERT_UNSILENCED,
        topology=silence.topology or None,
        changes=[silence_change(silence), *_alerts_mark(silence, now)],
        actor=actor,
        reason=reason,
    )
    return silence


def _alerts_mark(silence: Silence, now: datetime) -> list[Change]:
    """Note on the alerts that it is for which silence covers them now."""
    terms = [silence_terms(one) for one in silences_lasting()]
    marked: list[Alert] = []
    for alert in alerts_going_on().filter(alerts_covered(silence)):
        covering = silence_of(terms, rule=alert.rule, topology=alert.topology, at=now)
        if alert.silence_id != covering:
            alert.silence_id = covering
            marked.append(alert)
    Alert.objects.bulk_update(marked, ["silence"], batch_size=500)
    return [alert_change(alert) for alert in marked]


def _shown(silence: Silence) -> dict[str, Any]:
    return {"rule": silence.rule, "topology": silence.topology, "until": iso(silence.until)}
