"""When a storage that does not answer is bypassed."""

from __future__ import annotations

from domain.key_saving.breaker import Breaker, BreakerState

BYPASS = 60.0


def failed(breaker: Breaker, at: float) -> Breaker:
    return breaker.failed(at, most=3, bypass=BYPASS)


def state(breaker: Breaker, at: float) -> BreakerState:
    return breaker.state(at, bypass=BYPASS)


def test_it_is_bypassed_after_failures_in_a_row() -> None:
    breaker = Breaker()
    for at in range(2):
        breaker = failed(breaker, float(at))
        assert state(breaker, float(at)) == "closed"
    breaker = failed(breaker, 2.0)
    assert state(breaker, 2.0) == state(breaker, 61.9) == "open"
    assert state(breaker, 62.0) == "trying"


def test_an_answer_begins_the_count_anew() -> None:
    breaker = failed(failed(Breaker(), 0.0), 1.0).succeeded()
    assert state(failed(failed(breaker, 2.0), 3.0), 3.0) == "closed"


def test_after_a_bypass_one_failure_begins_the_next() -> None:
    breaker = failed(failed(failed(Breaker(), 0.0), 0.0), 0.0)
    again = failed(breaker, 60.0)
    assert state(again, 60.0) == "open"
    assert again.until == 120.0
    assert state(breaker.succeeded(), 60.0) == "closed"


def test_a_clock_that_was_put_back_makes_no_bypass_longer() -> None:
    breaker = failed(failed(failed(Breaker(), 1e6), 1e6), 1e6)
    assert state(breaker, 1e6 - 3600.0) == "trying"
    assert state(failed(breaker, 1e6 - 3600.0), 1e6 - 3600.0 + 59.9) == "open"
