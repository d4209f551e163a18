"""Data from outside is a tree of plain values of a bearable size, which JSON and the databases can hold."""

from __future__ import annotations

import math
import re
from typing import Any

MAX_VALUES = 200_000
MAX_DEPTH = 100

_LARGEST = 2**63 - 1
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

_Place = tuple[Any, int | str] | None
"""Where a value is: the place of what it is in, and its index or name there. None is the whole."""


class NotPlainError(ValueError):
    """What the data may not hold, and where (`operators[3].params`)."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


def plain_require(data: Any) -> None:
    """Raise `NotPlainError` for more than `MAX_VALUES` values (aliases may repeat them without end), for
    nesting below `MAX_DEPTH`, and for values that are not plain or cannot be stored.

    A path is put together only for the value that is refused: names may be long, and many values below them.
    """
    waiting: list[tuple[_Place, int, Any]] = [(None, 0, data)]
    for _ in range(MAX_VALUES):
        if not waiting:
            return
        place, depth, value = waiting.pop()
        if depth > MAX_DEPTH:
            raise NotPlainError(_path(place), f"nested more than {MAX_DEPTH} levels deep")
        if isinstance(value, dict):
            for name, inner in value.items():
                fault = _fault(name) if isinstance(name, str) else f"{name!r:.60} is not a text; quote it"
                if fault:
                    raise NotPlainError(_path(place), f"the key {fault}")
                waiting.append(((place, name), depth + 1, inner))
        elif isinstance(value, list):
            waiting.extend(((place, index), depth + 1, inner) for index, inner in enumerate(value))
        elif fault := _fault(value):
            raise NotPlainError(_path(place), fault)
    raise NotPlainError("", f"more than {MAX_VALUES} values")


def _fault(value: Any) -> str:
    match value:
        case str():
            # Nearly every text is printable, which is faster to see.
            plain = value.isprintable() or not _UNSTORABLE.search(value)
            what = "has characters that no text can have, NUL or half of a surrogate pair"
            return "" if plain else f"{value!r:.60} {what}"
        case float():
            return "" if math.isfinite(value) else f"{value} is no number that can be stored"
        case int():
            # Not shown: Python refuses to write thousands of digits.
            return "" if abs(value) <= _LARGEST else "a whole number beyond 64 bits cannot be stored"
        case None:
            return ""
        case _:
            return f"{value!r:.60} is not plain data; quote it to mean a text"


def _path(place: _Place) -> str:
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step:.60}")
    return "".join(reversed(steps)).lstrip(".")
