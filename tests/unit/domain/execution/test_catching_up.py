"""The time that those behind still take."""

from __future__ import annotations

import pytest

from domain.execution.catching_up import LEAST, NEVER, SOON, UNKNOWN, WINDOW, CatchingUp

GROUP = frozenset({"A[0]", "A[1]"})


def tell(catching_up: CatchingUp, epochs: int, at: float, **others: int) -> None:
    """A job of the group has ended, and they lack so many epochs together."""
    mine = {"A[0]": epochs // 2, "A[1]": epochs - epochs // 2}
    catching_up.note(GROUP, {**{p: lack for p, lack in mine.items() if lack}, **others}, at)


def noted(*lacking: tuple[int, float]) -> CatchingUp:
    catching_up = CatchingUp(1.0)
    for epochs, at in lacking:
        tell(catching_up, epochs, at)
    return catching_up


def test_nothing_is_known_before_a_pace_is() -> None:
    assert CatchingUp(1.0).seconds(0.0) is None
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
    catching_up.begin(10.0)
    assert catching_up.seconds(10.0) is None


def test_it_gains_too_little_while_every_look_says_so() -> None:
    catching_up = noted((100, 0.0), (100, 10.0), (101, 20.0))
    assert catching_up.not_gaining(30.0) == pytest.approx(20.0)
    tell(catching_up, 60, 25.0)
    assert (catching_up.seconds(25.0) or 0.0) <= SOON
    assert catching_up.not_gaining(30.0) == 0.0
    tell(catching_up, 160, 35.0)
    assert catching_up.not_gaining(40.0) == pytest.approx(5.0)


def test_what_is_unknown_is_not_too_slow_and_a_plan_begins_anew() -> None:
    assert noted((100, 0.0), (100, LEAST / 2)).not_gaining(60.0) == 0.0
    catching_up = noted((100, 0.0), (100, 10.0))
    catching_up.begin(10.0)
    assert catching_up.not_gaining(20.0) == 0.0


def test_those_that_wait_count_when_it_is_their_turn() -> None:
    """They lack an epoch more with every second, which says nothing of the pace."""
    catching_up = CatchingUp(1.0)
    for at in (0.0, 10.0, 20.0, 30.0):
        tell(catching_up, int(200 - 4 * at), at, B=100 + int(at))
    # 2 epochs a second for each of the two: 80 / 4 s, then 130 + 20 epochs at 2 a second.
    assert catching_up.seconds(30.0) == pytest.approx(20.0 + 150.0 / 2.0)
    assert catching_up.not_gaining(30.0) == 0.0


def test_the_next_group_is_not_judged_by_the_one_before() -> None:
    catching_up = CatchingUp(1.0)
    tell(catching_up, 40, 0.0, B=300)
    tell(catching_up, 0, 10.0, B=310)
    assert catching_up.seconds(10.0) == pytest.approx(310.0 / 2.0)
    catching_up.note(frozenset({"B"}), {"B": 312}, 20.0)
    assert catching_up.seconds(20.0) is None, "its first job tells where it begins"
    catching_up.note(frozenset({"B"}), {"B": 292}, 30.0)
    assert catching_up.seconds(30.0) == pytest.approx(146.0)


def test_one_that_has_caught_up_is_still_of_its_group() -> None:
    catching_up = CatchingUp(1.0)
    catching_up.note(frozenset({"A", "B"}), {"A": 10, "B": 50}, 0.0)
    catching_up.note(frozenset({"B"}), {"B": 40}, 10.0)
    assert catching_up.seconds(10.0) == pytest.approx(20.0)


def test_a_pace_that_stays_unknown_is_too_slow_in_the_end() -> None:
    """Counted from the last job, or from when others began: not from the plan, which may be long ago."""
    catching_up = noted((40, 0.0), (20, 10.0), (0, 20.0))
    catching_up.note(frozenset({"B"}), {"B": 300}, 200.0)
    assert catching_up.not_gaining(200.0 + UNKNOWN) == 0.0
    assert catching_up.not_gaining(201.0 + UNKNOWN) == pytest.approx(1.0)
    catching_up.begin(300.0)
    assert catching_up.not_gaining(299.0 + UNKNOWN) == 0.0
    assert catching_up.not_gaining(305.0 + UNKNOWN) == pytest.approx(5.0)
    assert CatchingUp(1.0).not_gaining(1_000.0) == 0.0
