"""How values that are not to be shown are told: what stands for them, and texts without them. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

MASK: Final = "•••"
SHORT: Final = 3
"""Characters up to which a value is only looked for as a word of its own: any text has an `a`, or a `1`."""
_NUMBER: Final = re.compile(r"-?[\d.]+(e[-+]?\d+)?")


def row_masked(row: Mapping[str, Any], masked: Collection[str]) -> dict[str, Any]:
    return {name: MASK if name in masked and value is not None else value for name, value in row.items()}


def text_masked(text: str, values: Iterable[Any]) -> str:
    """A text without these values, as they are or as Python quotes them, the longest first."""
    found: set[str] = set()
    for value in values:
        if value is None or isinstance(value, bool):
            continue
        for form in (str(value), repr(value)[1:-1] if isinstance(value, str) else ""):
            if form.strip() and form in text:
                found.add(form)
    for form in sorted(found, key=len, reverse=True):
        whole = len(form) <= SHORT or _NUMBER.fullmatch(form)
        pattern = rf"(?<![\w.]){re.escape(form)}(?![\w.])" if whole else re.escape(form)
        text = re.sub(pattern, MASK, text)
    return text
