"""The time that those behind still take."""

from __future__ import annotations

import pytest

from domain.execution.catching_up import LEAST, NEVER, SOON, WINDOW, CatchingUp


def noted(*lacking: tuple[int, float]) -> CatchingUp:
    catching_up = CatchingUp()
    for epochs, at in lacking:
        catching_up.note(epochs, at)
    return catching_up


def test_nothing_is_known_before_a_pace_is() -> None:
    assert CatchingUp().seconds(0.0) is None
    assert noted((90, 0.0)).seconds(0.0) is None
    assert noted((90, 0.0), (80, LEAST / 2)).seconds(LEAST / 2) is None


def test_what_is_left_takes_as_long_at_the_same_pace() -> None:
    assert noted((90, 0.0), (60, 10.0)).seconds(10.0) == pytest.approx(20.0)
    assert noted((90, 0.0), (0, 10.0)).seconds(10.0) == 0.0


def test_who_comes_no_nearer_never_arrives() -> None:
    assert noted((90, 0.0), (95, 10.0)).seconds(10.0) == NEVER
    assert noted((90_000, 0.0), (89_999, 10.0)).seconds(10.0) == NEVER


def test_only_the_last_half_minute_counts() -> None:
    stuck = [(100, float(at)) for at in range(0, 60, 10)]
    assert noted(*stuck, (90, 60.0), (80, 70.0), (70, 80.0)).seconds(80.0) == pytest.approx(70.0)


def test_an_old_pace_says_nothing() -> None:
    """No replay has ended since."""
    assert noted((90, 0.0), (60, 10.0)).seconds(10.0 + WINDOW) is not None
    assert noted((90, 0.0), (60, 10.0)).seconds(10.1 + WINDOW) is None


def test_it_begins_anew() -> None:
    catching_up = noted((90, 0.0), (60, 10.0))
    catching_up.begin()
    assert catching_up.seconds(10.0) is None


def test_it_gains_too_little_while_every_look_says_so() -> None:
    catching_up = noted((100, 0.0), (100, 10.0), (101, 20.0))
    assert catching_up.not_gaining(30.0) == pytest.approx(20.0)
    catching_up.note(60, 25.0)
    assert (catching_up.seconds(25.0) or 0.0) <= SOON
    assert catching_up.not_gaining(30.0) == 0.0
    catching_up.note(160, 35.0)
    assert catching_up.not_gaining(40.0) == pytest.approx(5.0)


def test_what_is_unknown_is_not_too_slow_and_a_plan_begins_anew() -> None:
    assert noted((100, 0.0), (100, LEAST / 2)).not_gaining(60.0) == 0.0
    catching_up = noted((100, 0.0), (100, 10.0))
    catching_up.begin()
    assert catching_up.not_gaining(20.0) == 0.0
