"""Times in which a source delivers more than its rate."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.sources.registry import source_problems
from spark_jobs.sources.surges import delivered


def test_input_arrives_by_the_clock_but_for_surges() -> None:
    surges = [[10.0, 20.0, 2.0], [20, 30, 0.5]]
    assert [delivered(second, surges) for second in (0.0, 10.0, 15.0, 20.0, 30.0, 40.0)] == [
        0.0, 10.0, 20.0, 30.0, 35.0, 45.0,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("surges", "message"),
    [
        (2, "must be a list"),
        ([1, 2, 3], "must be a list"),
        ([[1, 2]], "must be a list"),
        ([[1, 2, "3"]], "must be a list"),
        ([[1, 2, True]], "must be a list"),
        ([[5, 5, 2.0]], "must begin before it ends"),
        ([[1, 5, 2.0], [4, 6, 2.0]], "after the one before it has ended"),
        ([[-1, 5, 2.0]], "must begin before it ends"),
        ([[1, float("nan"), 2.0]], "must begin before it ends"),
        ([[1, 2, 0]], "more than 0"),
        ([[1, 2, 1e9]], "at most 100"),
        ([[i, i + 1, 2.0] for i in range(101)], "more than 100"),
    ],
)
def test_what_cannot_be(surges: Any, message: str) -> None:
    (problem,) = source_problems({"surges": surges}, [])
    assert message in problem


def test_what_can_be() -> None:
    assert source_problems({"surges": [[0, 5.5, 2], [5.5, 7, 0.25]]}, []) == []
    assert source_problems({"surges": None}, []) == []
