"""Durations as people write them: a number with a unit."""

from __future__ import annotations

import re

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
FORMS = "a number of seconds, or a number with ms, s, m, h, d or w, such as 90s, 15m or 1h"

_DURATION = re.compile(r"(\d{1,15}(?:\.\d{1,9})?) ?([a-z]+)?")


def seconds_read(text: str) -> float | None:
    """Seconds of `90`, `0.5 s`, `15m`, `1h` or `2d`; None for a text that is no duration."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        return None
    unit = UNITS.get(found[2] or "s")
    return None if unit is None else float(found[1]) * unit
