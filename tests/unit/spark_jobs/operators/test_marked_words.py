"""Words behind a mark: always those that Python's engine finds, in its order."""

from __future__ import annotations

import re
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.operators import marked_words as module
from spark_jobs.operators.marked_words import WIDTH, marked_words, word_class

Found = list[tuple[int, str]]


def found(texts: pa.StringArray, mark: str = "#", *, lower: bool = False, many: int = module.MANY) -> Found:
    with patch.object(module, "MANY", many):
        rows, keys = marked_words(texts, mark, lower=lower)
    assert keys.type == pa.string()
    assert keys.null_count == 0
    keys.validate(full=True)
    return list(zip(rows.tolist(), keys.to_pylist(), strict=True))


def reference(texts: list[str | None], mark: str = "#", *, lower: bool = False) -> Found:
    expression = re.compile(re.escape(mark) + r"(\w+)")
    words = [(row, word) for row, text in enumerate(texts) for word in expression.findall(text or "")]
    return [(row, word.lower()) for row, word in words] if lower else words


WORDS = st.text(alphabet="aZ_09éİΣσß日𝒳", min_size=0, max_size=4)
LONG = st.integers(WIDTH - 3, 3 * WIDTH).map(lambda size: "aB_3" * (size // 4) + "x" * (size % 4))
PIECES = st.one_of(
    WORDS, LONG, st.sampled_from(["#", "##", "§", " ", "…", "‿", "\u2040", "\u0301", "🙂", ".", ""])
)
TEXTS = st.lists(st.one_of(st.none(), st.lists(PIECES, max_size=8).map("".join)), max_size=8)


@pytest.mark.parametrize("many", [0, 1_000_000], ids=["arrow", "python"])
@pytest.mark.parametrize("mark", ["#", "§", "🙂"])
@settings(max_examples=150, deadline=None)
@given(texts=TEXTS, lower=st.booleans(), padded=st.booleans())
def test_they_are_those_of_pythons_engine(
    many: int, mark: str, texts: list[str | None], lower: bool, padded: bool
) -> None:
    """padded: all marks are far enough from the end of the bytes."""
    texts = [*texts, "." * WIDTH] if padded else texts
    given_texts = [text and text.replace("#", mark) for text in texts]
    array = pa.array(given_texts, pa.string())
    assert found(array, mark, lower=lower, many=many) == reference(given_texts, mark, lower=lower)


@pytest.mark.parametrize("size", [1, WIDTH - 1, WIDTH, WIDTH + 1, 2 * WIDTH, 100_000])
@pytest.mark.parametrize("behind", ["", " ", "#", "…", "é", "\u0301", "日"])
def test_words_of_every_length(size: int, behind: str) -> None:
    texts: list[str | None] = [f"#{'x' * size}{behind}", f"{'x' * size}#", "next row", " " * WIDTH]
    assert found(pa.array(texts)) == reference(texts)


@pytest.mark.parametrize("end", ["é", "日", "a日", "日日", "𝒳", "…", "a…", "é "])
def test_marks_near_the_end_of_all_bytes(end: str) -> None:
    """What is looked at for them is not behind them: it may be anything."""
    for before in range(2 * WIDTH):
        for word in range(WIDTH):
            texts: list[str | None] = [f"{'.' * before}{'x' * word}{'.' * (WIDTH - word)}#{end}"]
            assert found(pa.array(texts)) == reference(texts)


def test_a_word_ends_with_its_row() -> None:
    texts: list[str | None] = ["#a", "b#", "c", None, "#d", "", "é#e", "f" * 50]
    assert found(pa.array(texts)) == [(0, "a"), (4, "d"), (6, "e")]


def test_of_a_part_of_an_array() -> None:
    texts = pa.array(["#gone", None, "x#a", "", "y#b#c", "#gone"])
    assert found(texts.slice(1, 4)) == [(1, "a"), (3, "b"), (3, "c")]
    assert found(texts.slice(3, 1)) == found(texts.slice(6)) == found(pa.array([], pa.string())) == []


def test_bytes_of_a_row_that_is_null_do_not_count() -> None:
    offsets, data = pa.array([0, 2, 4], pa.int32()).buffers()[1], pa.py_buffer(b"#a#b")
    texts = pa.StringArray.from_buffers(2, offsets, data, pa.py_buffer(bytes([0b10])), 1)
    assert found(texts) == [(1, "b")]


def test_marks_in_every_block() -> None:
    texts: list[str | None] = [f"{'.' * (row % 40)}#k{row}" for row in range(40_000)]
    assert sum(len(text or "") for text in texts) > 3 * module.BLOCK
    assert found(pa.array(texts)) == reference(texts)


def test_what_is_skipped_as_punctuation_is_in_no_word() -> None:
    assert not [code for code in range(0x2000, 0x2040) if re.match(r"\w", chr(code))]


def test_the_class_of_word_characters_begins_with_ascii() -> None:
    assert word_class().startswith(r"\x{30}-\x{39}\x{41}-\x{5a}\x{5f}-\x{5f}")
