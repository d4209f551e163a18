"""A hash of strings that is the same in every process, on every machine and in every version.

It decides which partition has a key and its state, so it must not change. It is what
`pandas.util.hash_array` gives (SipHash-2-4, then mixed), computed for all keys at once with numpy: pandas
takes a third of the processor time in which a Python worker starts, and nothing else here needs it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

Words = np.ndarray[Any, np.dtype[np.uint64]]

KEY = np.frombuffer(b"0123456789123456", dtype="<u8")
START = np.frombuffer(b"uespemosmodnarodarenegylsetybdet", dtype="<u8")
WORD = 8
TURNS = {bits: (np.uint64(bits), np.uint64(64 - bits)) for bits in (13, 16, 17, 21, 32)}


def hash_strings(strings: pa.StringArray) -> Words:
    """One number for each of the strings, none of which may be null."""
    bounds = np.frombuffer(strings.buffers()[1], dtype=np.int32)[strings.offset :][: len(strings) + 1]
    data = strings.buffers()[2]
    content = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, np.uint8)
    return _mixed(_sip_hash(content, bounds.astype(np.int64)))


def _sip_hash(content: np.ndarray[Any, np.dtype[np.uint8]], bounds: np.ndarray[Any, Any]) -> Words:
    """SipHash-2-4 of each string `content[bounds[i]:bounds[i + 1]]`."""
    begins, lengths = bounds[:-1], np.diff(bounds)
    whole = lengths // WORD
    padded = np.concatenate([content, np.zeros(2 * WORD, np.uint8)])
    state = [np.full(len(begins), start ^ KEY[i % 2], np.uint64) for i, start in enumerate(START)]
    for word in range(int(whole.max(initial=0))):
        longer = np.flatnonzero(whole > word)
        part = [lane[longer] for lane in state]
        _absorb(part, _words(padded, begins[longer] + word * WORD))
        for lane, new in zip(state, part, strict=True):
            lane[longer] = new
    _absorb(state, _last_words(padded, begins + whole * WORD, lengths))
    state[2] ^= np.uint64(0xFF)
    for _ in range(4):
        _round(state)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _words(padded: np.ndarray[Any, np.dtype[np.uint8]], at: np.ndarray[Any, Any]) -> Words:
    """The eight bytes from each position on, the first being the least."""
    found: Words = padded[at[:, None] + np.arange(WORD)].view("<u8").ravel()
    return found


def _last_words(
    padded: np.ndarray[Any, np.dtype[np.uint8]], at: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]
) -> Words:
    """What is left of each string, and its length in the highest byte."""
    bits = (8 * (lengths % WORD)).astype(np.uint64)
    mask = (np.uint64(1) << bits) - np.uint64(1)
    return (_words(padded, at) & mask) | (lengths.astype(np.uint64) << np.uint64(56))


def _absorb(state: list[Words], words: Words) -> None:
    state[3] ^= words
    _round(state)
    _round(state)
    state[0] ^= words


def _round(state: list[Words]) -> None:
    a, b, c, d = state
    a = a + b
    b = _rotated(b, 13)
    b ^= a
    a = _rotated(a, 32)
    c = c + d
    d = _rotated(d, 16)
    d ^= c
    a += d
    d = _rotated(d, 21)
    d ^= a
    c += b
    b = _rotated(b, 17)
    b ^= c
    c = _rotated(c, 32)
    state[:] = a, b, c, d


def _rotated(words: Words, bits: int) -> Words:
    left, right = TURNS[bits]
    turned: Words = words << left
    turned |= words >> right
    return turned


def _mixed(hashes: Words) -> Words:
    hashes ^= hashes >> np.uint64(30)
    hashes *= np.uint64(0xBF58476D1CE4E5B9)
    hashes ^= hashes >> np.uint64(27)
    hashes *= np.uint64(0x94D049BB133111EB)
    hashes ^= hashes >> np.uint64(31)
    return hashes
