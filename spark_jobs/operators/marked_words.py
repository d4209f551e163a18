"""The words that follow a mark in text, such as hashtags, of a whole batch at once.

The meaning is that of `re.finditer(r"<mark>(\\w+)", text)`, for a mark of one character that is no word
character. Such a mark is in no word, so what follows a mark, up to the next one or the end of the row, begins
with its word or has none. Nearly all words are short and ASCII: these are found in a table of the bytes
behind each mark. For the others there is a regular expression: Python's or, if they are many, Arrow's. Its
tables of Unicode are newer than Python's, so the class `\\w` is spelt out as the ranges that Python means by
it, and Python lowers the two letters whose `str.lower()` is more than a letter-by-letter mapping (dotted
capital I, and capital sigma, which is written otherwise at the end of a word).
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

WIDTH: Final = 24
"""Bytes behind each mark that are looked at. A word of as many or more is not short."""
BLOCK: Final = 1 << 18
"""Bytes that are searched for marks at a time, so that what is made of them needs no new memory."""
MANY: Final = 1_000
"""From as many words on, setting Arrow's expression up (1.5 ms) is worth it."""
_WORD: Final = re.compile(r"\w+")
_LOWERED_IN_CONTEXT: Final = "[\u0130\u03a3]"

Ints = np.ndarray[Any, np.dtype[np.int64]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]


def marked_words(text: pa.StringArray, mark: str, *, lower: bool) -> tuple[Ints, pa.StringArray]:
    """The row of each word, and the word, in order. A row that is null has none. lower: each word as its
    `str.lower()`."""
    offsets, data = _content(text.fill_null("") if text.null_count else text)
    marks = _positions(data, mark.encode())
    rows = np.searchsorted(offsets, marks, side="right") - 1
    starts = marks + len(mark.encode())
    limits = np.minimum(offsets[rows + 1], np.append(marks[1:], len(data)))
    ends, others = _short_ends(data, starts, limits)
    if others.any():
        ends[others] += _word_sizes(_between(data, starts[others], limits[others]))
    found = ends > starts
    keys = _between(data, starts[found], ends[found])
    return rows[found], _lower(keys, others[found]) if lower else keys


def _content(text: pa.StringArray) -> tuple[Ints, Bytes]:
    """Where each row begins in the bytes of all rows, and where the last one ends; and these bytes."""
    _, offsets, data = text.buffers()
    if data is None or not len(text):
        return np.zeros(len(text) + 1, np.int64), np.zeros(0, np.uint8)
    begins = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1].astype(np.int64)
    return begins - begins[0], np.frombuffer(data, np.uint8)[begins[0] : begins[-1]]


def _positions(data: Bytes, mark: bytes) -> Ints:
    """Where the mark begins. In UTF-8 no character begins inside another."""
    blocks = range(0, len(data), BLOCK)
    found = np.concatenate(
        [np.zeros(0, np.int64)]
        + [np.flatnonzero(data[block : block + BLOCK] == mark[0]) + block for block in blocks]
    )
    for offset, byte in enumerate(mark[1:], start=1):
        found = found[data[found + offset] == byte]
    return found


def _short_ends(data: Bytes, starts: Ints, limits: Ints) -> tuple[Ints, Bools]:
    """Where the word that begins at each start ends: there, if there is none. And which words may be longer,
    or not ASCII alone: they end where they begin as well."""
    last = len(data) - WIDTH
    if last < 0:
        return starts.copy(), np.ones(len(starts), np.bool_)
    behind = np.lib.stride_tricks.sliding_window_view(data, WIDTH)[np.minimum(starts, last)]
    room = np.minimum(limits - starts, WIDTH).astype(np.uint8)[:, None]
    in_word = ((behind | 0x20) - ord("a") < 26) | (behind - ord("0") < 10) | (behind == ord("_"))
    in_word &= np.arange(WIDTH, dtype=np.uint8) < room
    sizes = np.argmin(in_word, axis=1)
    # Of those that begin too near to the end of all bytes, other bytes were looked at.
    others = (in_word[:, 0] & (sizes == 0)) | (starts > last)
    ends = np.where(others, limits, starts + sizes)
    others |= _may_go_on(data, ends, limits)
    return np.where(others, starts, ends), others


def _may_go_on(data: Bytes, at: Ints, limits: Ints) -> Bools:
    """Where a character that is not ASCII comes next, other than punctuation such as an ellipsis (U+2000 to
    U+203F)."""
    goes_on = (at < limits) & (data[np.minimum(at, len(data) - 1)] >= 0x80)
    wide = np.flatnonzero(goes_on)
    goes_on[wide] = (data[at[wide]] != 0xE2) | (data[at[wide] + 1] != 0x80)
    return goes_on


def _between(data: Bytes, starts: Ints, ends: Ints) -> pa.StringArray:
    """What is between each start and its end, which is not behind the next start."""
    if not len(starts):
        return pa.array([], pa.string())
    offsets = np.stack([starts, ends], axis=1).astype(np.int32).ravel()
    everything = pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))
    return everything.take(pa.array(np.arange(0, len(offsets), 2)))


def _word_sizes(texts: pa.StringArray) -> Ints:
    """Bytes of the word that each text begins with; 0 if there is none."""
    if len(texts) < MANY:
        matches = map(_WORD.match, texts.to_pylist())
        return np.array([len(match[0].encode()) if match else 0 for match in matches], np.int64)
    keys = pc.extract_regex(texts, f"^(?P<key>[{word_class()}]+)").field("key")
    return pc.fill_null(pc.binary_length(keys), 0).to_numpy().astype(np.int64)


@cache
def word_class() -> str:
    """Python's `\\w` as ranges for a bracket expression. Planes 4 to 13 are unassigned and the rest holds no
    word characters, so four planes are enough."""
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x40000)]))
    runs = (run[0] for run in re.finditer(r"\w+", every))
    return "".join(rf"\x{{{ord(run[0]):x}}}-\x{{{ord(run[-1]):x}}}" for run in runs)


def _lower(keys: pa.StringArray, wide: Bools) -> pa.StringArray:
    """`str.lower()` of each key, all of which are runs of Python's word characters. wide: which of them may
    have more than ASCII."""
    lowered = pc.ascii_lower(keys)
    if not wide.any():
        return lowered
    others = keys.filter(pa.array(wide))
    lowered_others = pc.utf8_lower(others)
    special = pc.match_substring_regex(others, _LOWERED_IN_CONTEXT)
    if pc.any(special).as_py():
        replacements = [key.lower() for key in others.filter(special).to_pylist()]
        lowered_others = pc.replace_with_mask(lowered_others, special, pa.array(replacements, pa.string()))
    return pc.replace_with_mask(lowered, pa.array(wide), lowered_others)
