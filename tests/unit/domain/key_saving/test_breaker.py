"""When a storage that does not answer is bypassed."""

from __future__ import annotations

from domain.key_saving.breaker import Breaker


def failed(breaker: Breaker, at: float) -> Breaker:
    return breaker.failed(at, most=3, bypass=60.0)


def test_it_is_bypassed_after_failures_in_a_row() -> None:
    breaker = Breaker()
    for at in range(2):
        breaker = failed(breaker, float(at))
        assert breaker.state(float(at)) == "closed"
    breaker = failed(breaker, 2.0)
    assert breaker.state(2.0) == breaker.state(61.9) == "open"
    assert breaker.state(62.0) == "trying"


def test_an_answer_begins_the_count_anew() -> None:
    breaker = failed(failed(Breaker(), 0.0), 1.0).succeeded()
    assert failed(failed(breaker, 2.0), 3.0).state(3.0) == "closed"


def test_after_a_bypass_one_failure_begins_the_next() -> None:
    breaker = failed(failed(failed(Breaker(), 0.0), 0.0), 0.0)
    again = failed(breaker, 60.0)
    assert again.state(60.0) == "open"
    assert again.until == 120.0
    assert breaker.succeeded().state(60.0) == "closed"
