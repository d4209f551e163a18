"""Looking at all rules, again and again: values become alerts, and events tell of them (write side).

What is measured is read before the transaction, which is only begun where something has changed. Of two looks
at the same time one is stored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog
from django.utils import timezone

from controlplane.alerts.choices import AlertComparison, AlertState, MissingPolicy
from controlplane.alerts.measuring import Measured
from controlplane.alerts.models import Alert, AlertRule, Evaluation, Silence
from controlplane.alerts.representation import alert_change, silence_change
from controlplane.alerts.selectors import (
    EVALUATION,
    alerts_going_on,
    rule_list,
    silence_terms,
    silences_lasting,
)
from controlplane.events.choices import EventKind
from controlplane.events.representation import Change, removal
from controlplane.events.services import event_publish, writing
from controlplane.topologies.bulk import rows_update
from domain.alerting import Instance, Notice, Out, Rule, State, Value, silence_of, step

log = structlog.get_logger(__name__)

LONGEST_GAP = timedelta(seconds=30)
"""Between two looks. What was in a longer gap is not known, so conditions that must last begin again."""


@dataclass(slots=True)
class Work:
    """What a look has found. firing, resolved: what is told, by rule and topology."""

    kept: list[Alert] = field(default_factory=list)
    gone: list[Alert] = field(default_factory=list)
    firing: defaultdict[tuple[str, str], list[Alert]] = field(default_factory=lambda: defaultdict(list))
    resolved: defaultdict[tuple[str, str], list[Alert]] = field(default_factory=lambda: defaultdict(list))
    quiet: list[Alert] = field(default_factory=list)
    over: list[Silence] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.kept or self.gone or self.over)


def alerts_evaluate(at: datetime | None = None) -> None:
    """One look. A constant number of queries while nothing changes."""
    now = at or timezone.now()
    last = _last()
    rules = list(rule_list())
    measured = Measured(now)
    if _decide(rules, measured, now, last):
        _look_store(rules=rules, measured=measured, now=now, last=last)
    else:
        _note(now, last)


def _last() -> datetime | None:
    row, _ = Evaluation.objects.get_or_create(pk=EVALUATION)
    return row.at


def _note(now: datetime, last: datetime | None) -> bool:
    """Note this look; False if there was another one since `last`."""
    return bool(Evaluation.objects.filter(pk=EVALUATION, at=last).update(at=now))


@writing
def _look_store(*, rules: list[AlertRule], measured: Measured, now: datetime, last: datetime | None) -> None:
    """Keep what a look has found, and tell of it; nothing where a rule was changed meanwhile, or another look
    came first."""
    if [(one.pk, one.updated_at) for one in rule_list()] != [(one.pk, one.updated_at) for one in rules]:
        return
    if not _note(now, last):
        return
    work = _decide(rules, measured, now, last)
    for silence in work.over:
        silence.ended_at = silence.until
        silence.save(update_fields=["ended_at"])
    _write(work)


def alerts_end(rule: str, *, because: str) -> None:
    """End all alerts of a rule, in the caller's transaction."""
    work, now = Work(), timezone.now()
    for alert in alerts_going_on().filter(rule=rule):
        _end(work, alert, because, now)
    _write(work)


def _write(work: Work) -> None:
    Alert.objects.filter(pk__in=[alert.pk for alert in work.gone]).delete()
    removed = [removal("alert", alert.pk) for alert in work.gone if alert.pk is not None]
    stored = [alert for alert in work.kept if alert.pk is not None]  # before the others have a key, too
    Alert.objects.bulk_create([alert for alert in work.kept if alert.pk is None])
    rows_update(Alert, STORED, ((alert.pk, *_as_stored(alert)) for alert in stored))
    for silence in work.over:
        event_publish(
            kind=EventKind.ALERT_UNSILENCED,
            topology=silence.topology or None,
            changes=[silence_change(silence)],
            reason="the silence has ended",
        )
    _tell(EventKind.ALERT_FIRING, work.firing)
    _tell(EventKind.ALERT_RESOLVED, work.resolved)
    quiet: list[Change] = [*removed, *map(alert_change, work.quiet)]
    for first in range(0, len(quiet), QUIET):
        event_publish(kind=EventKind.ALERT_UPDATED, changes=quiet[first : first + QUIET])


def _tell(kind: EventKind, groups: Mapping[tuple[str, str], list[Alert]]) -> None:
    """One event for each rule and topology, however many of its queries are concerned."""
    for (rule, topology), alerts in sorted(groups.items()):
        reason = group_words(alerts)
        log.info(str(kind), rule=rule, topology=topology, alerts=len(alerts), what=reason)
        event_publish(
            kind=kind, topology=topology, changes=[alert_change(alert) for alert in alerts], reason=reason
        )


def group_words(alerts: list[Alert]) -> str:
    """`query-latency-high, warning: Relative latency of t/O9[0]: 2.40×, above 2.00×; and 3 more`."""
    first = min(alerts, key=_outstanding)
    text = str((alert_change(first)["fields"] or {})["text"])
    ended = first.state == AlertState.RESOLVED
    text += f"; ended: {first.because}" if first.because else "; it is over" if ended else ""
    more = f"; and {len(alerts) - 1} more" if len(alerts) > 1 else ""
    return f"{first.rule}, {first.severity}: {text}{more}"


def _outstanding(alert: Alert) -> tuple[float, str]:
    """The worst value first."""
    sign = -1 if alert.comparison == AlertComparison.ABOVE else 1
    return (float("inf") if alert.value is None else sign * alert.value, alert.query)


# ---- deciding --------------------------------------------------------------------------------------

STORED = (
    *("comparison", "threshold", "severity", "runbook", "state", "value", "since", "fired_at"),
    *("calm_since", "resolved_at", "because", "told", "silence_id"),
)
"""What a look changes of an alert."""

QUIET = 500
"""Changes of one event that tells nothing new: where values stay away, there is one for each query."""


def _decide(rules: list[AlertRule], measured: Measured, now: datetime, last: datetime | None) -> Work:
    resumed = last is None or abs(now - last) > LONGEST_GAP
    silences = silences_lasting()
    terms = [silence_terms(one) for one in silences]
    present = {(one.rule, one.topology, one.query): one for one in alerts_going_on()}
    known = {rule.name: rule for rule in rules}
    work = Work(over=[one for one in silences if one.until <= now])
    for rule in rules:
        if not rule.enabled:
            continue
        condition = rule_terms(rule)
        for (topology, query), value in measured.values(rule).items():
            alert = present.pop((rule.name, topology, query), None)
            if alert is None and condition.holds(value) is False:
                continue
            fresh = alert or Alert(rule=rule.name, metric=rule.metric, topology=topology, query=query)
            silence = silence_of(terms, rule=rule.name, topology=topology, at=now)
            before = _as_stored(fresh)
            outcome = step(
                condition,
                instance_of(alert),
                Value(value=value),
                now,
                silenced=silence is not None,
                resumed=resumed,
            )
            _rule_copy(rule, fresh)
            _keep(work, fresh, outcome.instance, outcome.notice, silence=silence, before=before)
    for alert in present.values():
        _end(work, alert, _out(known.get(alert.rule), measured, alert), now)
    return work


def _end(work: Work, alert: Alert, because: str, now: datetime) -> None:
    before = _as_stored(alert)
    outcome = step(alert_terms(alert), instance_of(alert), Out(because=because), now)
    _keep(work, alert, outcome.instance, outcome.notice, silence=alert.silence_id, before=before)


def _out(rule: AlertRule | None, measured: Measured, alert: Alert) -> str:
    if rule is None:
        return "the rule was deleted"
    return measured.absent(rule, (alert.topology, alert.query)) if rule.enabled else "the rule is off"


def _keep(
    work: Work,
    alert: Alert,
    after: Instance | None,
    notice: Notice | None,
    *,
    silence: int | None,
    before: tuple[object, ...],
) -> None:
    if after is None:
        if alert.pk is not None:
            work.gone.append(alert)
        return
    for name in Instance.__dataclass_fields__:
        setattr(alert, name, getattr(after, name))
    alert.silence_id = silence
    if alert.pk is not None and _as_stored(alert) == before:
        return
    work.kept.append(alert)
    key = (alert.rule, alert.topology)
    match notice:
        case Notice.FIRING:
            work.firing[key].append(alert)
        case Notice.RESOLVED:
            work.resolved[key].append(alert)
        case None:
            work.quiet.append(alert)


def _as_stored(alert: Alert) -> tuple[object, ...]:
    return tuple(getattr(alert, name) for name in STORED)


def _rule_copy(rule: AlertRule, alert: Alert) -> None:
    for name in ("comparison", "threshold", "severity", "runbook"):
        setattr(alert, name, getattr(rule, name))


def instance_of(alert: Alert | None) -> Instance | None:
    if alert is None:
        return None
    state: State = "pending"
    match alert.state:
        case AlertState.FIRING:
            state = "firing"
        case AlertState.MISSING:
            state = "missing"
        case AlertState.RESOLVED:
            state = "resolved"
    return Instance(
        state=state,
        since=alert.since,
        value=alert.value,
        fired_at=alert.fired_at,
        calm_since=alert.calm_since,
        told=alert.told,
        resolved_at=alert.resolved_at,
        because=alert.because,
    )


def rule_terms(rule: AlertRule) -> Rule:
    return Rule(
        metric=rule.metric,
        comparison="above" if rule.comparison == AlertComparison.ABOVE else "below",
        threshold=rule.threshold,
        held=timedelta(seconds=rule.held),
        calm=timedelta(seconds=rule.calm),
        missing="fire" if rule.missing == MissingPolicy.FIRE else "show",
    )


def alert_terms(alert: Alert) -> Rule:
    """The rule as it was last seen, for one that is gone."""
    return Rule(
        metric=alert.metric,
        comparison="above" if alert.comparison == AlertComparison.ABOVE else "below",
        threshold=alert.threshold,
        held=timedelta(0),
        calm=timedelta(0),
    )
