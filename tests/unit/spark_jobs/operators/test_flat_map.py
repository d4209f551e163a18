from __future__ import annotations

import re
import sys
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.operators.flat_map import VECTORISED_FROM, FlatMapRegex
from tests.data import shared_data

HASHTAGS = {"pattern": r"#(\w+)", "fold": "lower"}


def rows(params: Mapping[str, object], texts: list[str | None], *, vectorised: bool) -> list[tuple[int, str]]:
    """(row, key) pairs. Rows without a match make the batch large enough for the vectorised method."""
    padding = VECTORISED_FROM if vectorised else 0
    text = pa.chunked_array([pa.array(texts + [""] * padding, pa.string())])
    table = pa.table({"ts": pa.array(np.arange(len(text))), "text": text})
    found = FlatMapRegex(params, ["Source"]).matches(table)
    return list(zip(found.column("ts").to_pylist(), found.column("key").to_pylist(), strict=True))


def reference(texts: list[str | None]) -> list[tuple[int, str]]:
    expression = re.compile(r"#(\w+)")
    return [(row, tag.lower()) for row, text in enumerate(texts) for tag in expression.findall(text or "")]


def test_real_tweets_give_the_rows_of_pythons_engine() -> None:
    table = pq.read_table(shared_data("tweets.parquet"), columns=["text"])
    texts = table.column("text").to_pylist()
    stamped = pa.table(
        {"ts": pa.array(np.arange(len(texts))), "text": table.column("text").cast(pa.string())}
    )
    found = FlatMapRegex(HASHTAGS, ["Source"]).matches(stamped)
    expected = reference(texts)
    assert len(expected) == 276_513
    assert found.column("ts").to_pylist() == [row for row, _ in expected]
    assert found.column("key").to_pylist() == [key for _, key in expected]


TRICKY = [
    "#a#b##c # d", "no tags", None, "", "#", "##", "#_x #1", "x#İstanbul #ΟΔΟΣ#Σ #ΣΑΣ", "#naïve#ÉTÉ",
    "#日本語！ #สวัสดี #नमस्ते", "#a\u0301b", "＃wide", "#tag\n#next", "#x²½Ⅷ", "#🙂 #a🙂", "#\u00aa\u00b5",
]  # fmt: skip


@pytest.mark.parametrize("vectorised", [False, True])
def test_tricky_texts(vectorised: bool) -> None:
    assert rows(HASHTAGS, list(TRICKY), vectorised=vectorised) == reference(list(TRICKY))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(alphabet="#aİΣσß_0 é日\n🙂\u0301", max_size=12), max_size=6))
def test_both_ways_agree_with_the_reference(texts: list[str | None]) -> None:
    assert (
        rows(HASHTAGS, texts, vectorised=True) == rows(HASHTAGS, texts, vectorised=False) == reference(texts)
    )


def test_every_word_character_that_python_knows_and_no_other() -> None:
    every = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    texts: list[str | None] = [f"#{character}" for character in every]
    assert rows(HASHTAGS, texts, vectorised=True) == reference(texts)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"pattern": r"@(\w+)"}, [(0, "Bob"), (1, "amy")]),
        ({"pattern": r"(?P<user>@\w+)", "group": "user", "fold": "lower"}, [(0, "@bob"), (1, "@amy")]),
        ({"pattern": r"@(\w)(\w+)", "group": 2}, [(0, "ob"), (1, "my")]),
        ({"pattern": r"@(x)?\w+", "group": 1}, []),
        ({"pattern": r"\b[a-z]{3}\b"}, [(1, "amy"), (2, "the"), (2, "end")]),
    ],
)
def test_other_patterns_mean_what_they_mean_in_python(
    params: dict[str, object], expected: list[object]
) -> None:
    texts: list[str | None] = ["hi @Bob!", "@amy.", "the end"]
    assert rows(params, texts, vectorised=False) == rows(params, texts, vectorised=True) == expected


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "pattern must be a regular expression"),
        ({"pattern": "("}, "is no regular expression: missing )"),
        ({"pattern": "a", "group": 1}, "has 0 groups, there is no group 1"),
        ({"pattern": "(a)", "group": "b"}, "has no group named 'b'"),
        ({"pattern": "a", "fold": "upper"}, "fold must be `lower` or `none`"),
        ({"pattern": "a", "flags": "i"}, "unknown parameter 'flags'"),
    ],
)
def test_bad_parameters_are_named(params: dict[str, object], message: str) -> None:
    (problem,) = FlatMapRegex.problems(params)
    assert message in problem


def test_good_parameters_have_no_problems() -> None:
    assert FlatMapRegex.problems({**HASHTAGS, "field": "text", "group": 1}) == []


def test_missing_column_is_named() -> None:
    operator = FlatMapRegex({"pattern": "a", "field": "body"}, ["Source"])
    with pytest.raises(ValueError, match="flat_map_regex needs a column 'body', but its input has ts, text"):
        operator.matches(pa.table({"ts": [1], "text": ["a"]}))
