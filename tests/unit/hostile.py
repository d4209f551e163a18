"""Bytes that a process should never write."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

HOSTILE = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"\xff\xfe",
    b'{"id":"\xff"}',
    b'{"kind":"problem","topology":"\xff"}',
    b'{"id":"\\ud800"}',
    b'{"z":' + b"[" * 100_000,
    b"9" * 5_000,
    b'{"at":1e999}',
]

_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([-1, 0, 10**6, 2**31, 2**63, 2**64, 10**400]),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.sampled_from(["\0", "/", "..", "x" * 300, "\ud800", "'; DROP TABLE"]),
)
JSON = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def altered(draw: st.DrawFn, valid: bytes) -> bytes:
    """A valid value in which a field has another value, or bytes have been changed."""
    if draw(st.booleans()):
        fields: dict[str, Any] = json.loads(valid)
        fields[draw(st.sampled_from(sorted(fields)))] = draw(JSON)
        return json.dumps(fields).encode()
    damaged = bytearray(valid)
    for _ in range(draw(st.integers(1, 3))):
        damaged[draw(st.integers(0, len(damaged) - 1))] = draw(st.integers(0, 255))
    return bytes(damaged[: draw(st.integers(0, len(damaged)))])
