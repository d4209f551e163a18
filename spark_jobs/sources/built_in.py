"""Which readers come with the product. Loads nothing: web processes ask, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

FILE: Final = "file"
TRAFFIC: Final = "traffic"


def reader_of(params: Mapping[str, Any]) -> str:
    """The reader of a source: `file`, `traffic`, or the dotted path of one of the user's own."""
    return str(params.get("reader") or FILE)


def is_own(params: Mapping[str, Any]) -> bool:
    """Whether the reader is one of the user's own."""
    return reader_of(params) not in (FILE, TRAFFIC)
