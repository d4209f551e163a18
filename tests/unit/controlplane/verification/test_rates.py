"""When tuples arrive, as a query and one by one."""

from __future__ import annotations

import random

import duckdb
import pytest

from controlplane.verification.rates import Rates


def times_of(rates: Rates, number: int) -> list[int]:
    with duckdb.connect(":memory:") as database:
        rows = database.execute(rates.times(number)).fetchall()
    return [us for _, us in sorted(rows)]


@pytest.mark.parametrize("seed", range(8))
def test_the_query_gives_the_time_of_each_tuple(seed: int) -> None:
    chance = random.Random(seed)
    rates = Rates([chance.choice([0, 0, 1, 2, 5, 40]) for _ in range(30)] + [1], 1_000)
    for number in (0, 1, 2, 7, rates.total - 1, rates.total, rates.total + 9, 3 * rates.total):
        assert times_of(rates, number) == [rates.time(one) for one in range(number)], number


def test_the_query_names_no_step_that_no_tuple_has_reached() -> None:
    rates = Rates([0, 3] * 20_000, 1_000)
    assert len(rates.times(10)) < 1_000
    assert len(rates.times(0)) < 1_000
    assert len(rates.times(60_000)) > 100_000
