"""Texts without the values that are not to be shown."""

from __future__ import annotations

from typing import Any

import pytest

from domain.masking import row_masked, text_masked


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("no number: 'Ada Lovelace'", ["Ada Lovelace", "Ada"], "no number: '•••'"),
        ("base 10: 'a\\nb'", ["a\nb"], "base 10: '•••'"),
        ("row 17 of 1.7: 17 is too much", [17], "row ••• of 1.7: ••• is too much"),
        ("a bad value: a", ["a"], "••• bad value: •••"),
        ("nothing is in it", ["", " ", None, True, "other"], "nothing is in it"),
        ("x" * 10, ["xxxx", "xxxxxxxx"], "•••xx"),
        ("[a].*", ["[a].*"], "•••"),
    ],
)
def test_values_are_replaced(text: str, values: list[Any], expected: str) -> None:
    assert text_masked(text, values) == expected


def test_rows_keep_their_columns_and_what_is_not_known() -> None:
    assert row_masked({"a": 1, "b": None, "c": "x"}, ["a", "b"]) == {"a": "•••", "b": None, "c": "x"}
