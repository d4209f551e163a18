"""One step of one alert: what it was, what is measured now, and what it is then. Pure.

| state | moved on by | to |
|---|---|---|
| (none) | the condition holds | pending |
| | there is no value | missing |
| pending | the condition has held for `held` | firing |
| | it does not hold | (none) |
| | there is no value | missing |
| missing | no value for `held`, and the rule fires then | firing |
| | a value | pending, or (none) |
| firing | the condition has not held for `calm` | resolved |
| | there is no value | firing: nothing shows that it is over |
| any | what is judged is not there any more, or is to give no results | resolved, or (none) |

After a time without looks (`resumed`), nothing is known of that time: what must last begins again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Literal

from domain.alerting.rules import Rule

State = Literal["missing", "pending", "firing", "resolved"]


class Notice(StrEnum):
    """What webhooks and pages are told of an alert."""

    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """What is measured of a subject that is to be judged; None where there is no measurement."""

    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Out:
    """The subject is not to be judged, and why: `the topology is paused`."""

    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """An alert. since: when its condition began to hold, or its value to be missing. calm_since: since when
    the condition of one that fires does not hold. told: whether it was told that it fires. because: why it
    has ended."""

    state: State
    since: datetime
    value: float | None
    fired_at: datetime | None = None
    calm_since: datetime | None = None
    told: bool = False
    resolved_at: datetime | None = None
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """instance: None if there is nothing to keep. notice: what is to be told of it now."""

    instance: Instance | None
    notice: Notice | None = None


def step(
    rule: Rule,
    before: Instance | None,
    reading: Value | Out,
    now: datetime,
    *,
    silenced: bool = False,
    resumed: bool = False,
) -> Outcome:
    """before: None, or one that has not been resolved."""
    if before is not None and before.state == "resolved":
        raise ValueError("an alert that has been resolved does not go on; the next one is another")
    firing = before if before is not None and before.state == "firing" else None
    after: Instance | None
    if isinstance(reading, Out):
        after = None if firing is None else _ended(firing, now, reading.because)
    elif firing is not None:
        after = _firing(rule, firing, reading.value, now, resumed=resumed)
    else:
        after = _waiting(rule, before, reading.value, now, resumed=resumed)
    return _told(after, silenced=silenced)


def _waiting(
    rule: Rule, before: Instance | None, value: float | None, now: datetime, *, resumed: bool
) -> Instance | None:
    holds = rule.holds(value)
    if holds is False:
        return None
    state: State = "missing" if holds is None else "pending"
    goes_on = before is not None and before.state == state and not resumed
    since = before.since if before is not None and goes_on else now
    waiting = Instance(state=state, since=since, value=value)
    if now - since < rule.held or (holds is None and rule.missing != "fire"):
        return waiting
    return replace(waiting, state="firing", fired_at=now)


def _firing(
    rule: Rule, before: Instance | None, value: float | None, now: datetime, *, resumed: bool
) -> Instance:
    assert before is not None  # noqa: S101
    if rule.holds(value) is not False:
        return replace(before, value=value, calm_since=None)
    calm_since = now if before.calm_since is None or resumed else before.calm_since
    calm = replace(before, value=value, calm_since=calm_since)
    if now - calm_since < rule.calm:
        return calm
    return _ended(calm, now, "")


def _ended(before: Instance, now: datetime, because: str) -> Instance:
    return replace(before, state="resolved", resolved_at=now, because=because)


def _told(after: Instance | None, *, silenced: bool) -> Outcome:
    """Firing is told once, as soon as no silence covers it. That it is over is told of what was told, also
    under a silence: who was called must learn that it is over."""
    if after is None:
        return Outcome(instance=None)
    if after.state == "firing" and not after.told and not silenced:
        return Outcome(instance=replace(after, told=True), notice=Notice.FIRING)
    if after.state == "resolved" and after.told:
        return Outcome(instance=after, notice=Notice.RESOLVED)
    return Outcome(instance=after)
