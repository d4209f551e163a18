"""The bounds of data from outside."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from domain.plain_data import MAX_DEPTH, MAX_VALUES, NotPlainError, plain_require


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "data", [None, 1, 2**63 - 1, -(2**63) + 1, "\U0010ffff", [1.5, {"a": [True]}], nested(MAX_DEPTH)]
)
def test_what_is_plain_passes(data: Any) -> None:
    plain_require(data)


@pytest.mark.parametrize(
    ("data", "path", "message"),
    [
        (nested(MAX_DEPTH + 1), "[0]" * (MAX_DEPTH + 1), "nested more than 100 levels"),
        ([0] * MAX_VALUES, "", "more than 200000 values"),
        ({"a": [1, {"b": "x\0"}]}, "a[1].b", "NUL"),
        ({"a": {"\ud800": 1}}, "a", "half of a surrogate pair"),
        ({"a": float("inf")}, "a", "no number"),
        ({"a": 2**63}, "a", "beyond 64 bits"),
        ({"a": 10**5000}, "a", "beyond 64 bits"),
        ({"a": {1: 2}}, "a", "the key 1 is not a text"),
        ({"a": b"x"}, "a", "not plain data"),
    ],
)
def test_what_is_not_is_refused_with_its_place(data: Any, path: str, message: str) -> None:
    with pytest.raises(NotPlainError, match=message) as caught:
        plain_require(data)
    assert caught.value.path == path


def test_many_values_below_a_long_name_take_no_paths() -> None:
    """One path for each of them would take 10 GB."""
    data = {"x" * 100_000: list(range(100_000))}
    tracemalloc.start()
    try:
        plain_require(data)
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()
