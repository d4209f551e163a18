"""Alerts over random courses of values, silences and breaks, judged by what must be true of every course."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.alerting import Instance, Notice, Out, Rule, Value, step

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
PAUSED = Out(because="the topology is paused")


@dataclass(frozen=True, slots=True)
class Look:
    """One step of a course: seconds since the last one, what is there, whether a silence covers it, and
    whether there was no look for long."""

    after: int
    reading: Value | Out
    silenced: bool
    resumed: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of a look."""

    at: datetime
    look: Look
    before: Instance | None
    instance: Instance | None
    notice: Notice | None


readings = st.one_of(
    st.sampled_from([Value(value=value) for value in (0.0, 4.9, 5.0, 5.1, 9.0)]),
    st.sampled_from([Value(value=6.0), Value(value=8.0)]),
    st.just(Value(value=None)),
    st.just(PAUSED),
)
looks = st.builds(
    Look,
    after=st.integers(0, 12),
    reading=readings,
    silenced=st.sampled_from([False, False, False, True]),
    resumed=st.sampled_from([False] * 9 + [True]),
)
runs = st.lists(st.tuples(looks, st.integers(1, 6)), max_size=14).map(
    lambda parts: [look for look, count in parts for _ in range(count)]
)
"""Looks that say the same several times, so that conditions last."""
rules = st.builds(
    Rule,
    metric=st.just("lag"),
    comparison=st.sampled_from(["above", "below"]),
    threshold=st.just(5.0),
    held=st.sampled_from([0, 10, 30]).map(lambda s: timedelta(seconds=s)),
    calm=st.sampled_from([0, 10, 30]).map(lambda s: timedelta(seconds=s)),
    missing=st.sampled_from(["show", "fire"]),
)


def course(rule: Rule, given_looks: list[Look]) -> list[Seen]:
    now, kept, seen = BEGIN, None, []
    for look in given_looks:
        now += timedelta(seconds=look.after)
        outcome = step(rule, kept, look.reading, now, silenced=look.silenced, resumed=look.resumed)
        seen.append(Seen(now, look, kept, outcome.instance, outcome.notice))
        ended = outcome.instance is not None and outcome.instance.state == "resolved"
        kept = None if ended else outcome.instance
    return seen


def lasted(seen: list[Seen], index: int, judge: object) -> timedelta:
    """For how long, up to this look, every look without a break has found what `judge` wants."""
    begin = None
    for one in reversed(seen[: index + 1]):
        if not callable(judge) or not judge(one.look.reading):
            break
        begin = one.at
        if one.look.resumed:
            break
    return timedelta(seconds=-1) if begin is None else seen[index].at - begin


def is_value(reading: Value | Out, rule: Rule, wanted: bool | None) -> bool:
    return isinstance(reading, Value) and rule.holds(reading.value) is wanted


@settings(max_examples=300)
@given(rules, runs)
def test_an_alert_fires_only_after_its_condition_held_and_then_at_once(
    rule: Rule, given_looks: list[Look]
) -> None:
    seen = course(rule, given_looks)
    for index, one in enumerate(seen):
        if one.before is not None and one.before.state == "firing":
            continue
        true = lasted(seen, index, lambda reading: is_value(reading, rule, True)) >= rule.held
        away = lasted(seen, index, lambda reading: is_value(reading, rule, None)) >= rule.held
        due = true or (away and rule.missing == "fire")
        fires = one.instance is not None and one.instance.state == "firing"
        assert fires == due
        if fires and one.instance is not None:
            assert one.instance.fired_at == one.at


@settings(max_examples=300)
@given(rules, runs)
def test_an_alert_ends_only_after_its_condition_did_not_hold_for_its_time(
    rule: Rule, given_looks: list[Look]
) -> None:
    seen = course(rule, given_looks)
    for index, one in enumerate(seen):
        if one.before is None or one.before.state != "firing":
            assert one.instance is None or one.instance.state != "resolved"
            continue
        # Since it began to fire, not before: what was false earlier belongs to no alert.
        own = [n for n in range(index + 1) if seen[n].at >= (one.before.fired_at or BEGIN)]
        calm = lasted(seen[own[0] :], index - own[0], lambda reading: is_value(reading, rule, False))
        ends = one.instance is not None and one.instance.state == "resolved"
        assert ends == (one.look.reading == PAUSED or calm >= rule.calm)


@settings(max_examples=300)
@given(rules, runs)
def test_what_is_not_judged_has_no_alert_that_goes_on(rule: Rule, given_looks: list[Look]) -> None:
    for one in course(rule, given_looks):
        if one.look.reading == PAUSED:
            assert one.instance is None or (one.instance.state, one.instance.because) == (
                "resolved",
                PAUSED.because,
            )


@settings(max_examples=300)
@given(rules, runs)
def test_missing_data_is_said_and_neither_begins_nor_ends_an_alert_by_itself(
    rule: Rule, given_looks: list[Look]
) -> None:
    for one in course(rule, given_looks):
        if one.look.reading != Value(value=None):
            continue
        assert one.instance is not None, "silently fine"
        assert one.instance.value is None
        if one.before is not None and one.before.state == "firing":
            assert one.instance.state == "firing"
        elif rule.missing == "show":
            assert one.instance.state == "missing"


@settings(max_examples=300)
@given(rules, runs)
def test_a_silence_changes_what_is_told_and_no_state(rule: Rule, given_looks: list[Look]) -> None:
    silent = course(rule, given_looks)
    loud = course(rule, [replace(look, silenced=False) for look in given_looks])

    def without_told(instance: Instance | None) -> Instance | None:
        return None if instance is None else replace(instance, told=False)

    assert [without_told(one.instance) for one in silent] == [without_told(one.instance) for one in loud]
    assert not any(one.notice is Notice.FIRING for one in silent if one.look.silenced)


@settings(max_examples=300)
@given(rules, runs)
def test_each_alert_is_told_at_most_once_and_ends_for_those_who_were_told(
    rule: Rule, given_looks: list[Look]
) -> None:
    told = [one.notice for one in course(rule, given_looks) if one.notice is not None]
    assert told == [Notice.FIRING, Notice.RESOLVED] * (len(told) // 2) + [Notice.FIRING] * (len(told) % 2)
    for one in course(rule, given_looks):
        if one.instance is not None and one.instance.state == "firing" and not one.look.silenced:
            assert one.instance.told
        if one.instance is not None and one.instance.state == "resolved":
            assert (one.notice is Notice.RESOLVED) == one.instance.told


RULE = Rule(
    metric="lag",
    comparison="above",
    threshold=5.0,
    held=timedelta(seconds=60),
    calm=timedelta(seconds=30),
)


def test_a_value_that_swings_around_the_threshold_is_one_alert() -> None:
    values = [9.0] * 13 + [4.0, 9.0] * 20 + [4.0] * 7
    seen = course(RULE, [Look(5, Value(value=value), False, False) for value in values])
    assert [one.notice for one in seen if one.notice] == [Notice.FIRING, Notice.RESOLVED]
    assert seen[-1].instance is not None
    assert seen[-1].instance.since == BEGIN + timedelta(seconds=5)


def test_a_break_in_looking_is_not_time_in_which_the_condition_held() -> None:
    seen = course(RULE, [Look(5, Value(value=9.0), False, False), Look(300, Value(value=9.0), False, True)])
    assert seen[-1].instance is not None
    assert seen[-1].instance.state == "pending"


def test_an_alert_that_has_ended_does_not_go_on() -> None:
    ended = Instance(state="resolved", since=BEGIN, value=9.0, resolved_at=BEGIN)
    with pytest.raises(ValueError, match="another"):
        step(RULE, ended, Value(value=9.0), BEGIN)


def test_time_without_looks_is_not_time_in_which_all_was_well() -> None:
    looks_before = [Look(5, Value(value=9.0), False, False)] * 13 + [Look(5, Value(value=4.0), False, False)]
    seen = course(RULE, [*looks_before, Look(300, Value(value=4.0), False, True)])
    assert seen[-1].instance is not None
    assert seen[-1].instance.state == "firing"


def test_an_alert_that_fires_under_a_silence_is_told_when_the_silence_ends_or_never() -> None:
    begun = [Look(5, Value(value=9.0), True, False)] * 14
    later = course(RULE, [*begun, Look(5, Value(value=9.0), False, False)])
    assert [one.notice for one in later] == [None] * 14 + [Notice.FIRING]
    never = course(RULE, [*begun, Look(5, PAUSED, False, False)])
    assert never[-1].instance is not None
    assert (never[-1].instance.state, [one.notice for one in never]) == ("resolved", [None] * 15)
