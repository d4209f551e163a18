"""The row that caused a problem, as it is kept and shown: bounded, and masked like the rows of results."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec

from domain.masking import row_masked

LONGEST: Final = 1_000
"""Bytes of its JSON."""
_rows: Final = msgspec.json.Decoder(dict[str, str | int | float | bool | None])
"""Made here, before there are threads (docs/decisions/0013)."""


def row_read(text: str, masked: Collection[str]) -> dict[str, Any] | None:
    """The row that a driver told; None for none, and for what is no row of values in this size."""
    if not text or len(text.encode(errors="replace")) > LONGEST or "\\u0000" in text:
        return None
    try:
        row = _rows.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    return row_masked(row, masked)
