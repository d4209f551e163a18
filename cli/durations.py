"""Durations of options: `90`, `15m`, `1h`; in seconds."""

from __future__ import annotations

import re
from typing import Any

import click

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhd]?)")


class Duration(click.ParamType[float]):
    """Seconds, from a number of them or a number with a unit."""

    name = "duration"

    def __init__(self, least: float, most: float) -> None:
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = _DURATION.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r}: write seconds, or a duration such as 90s, 15m or 1h", param, ctx)
        seconds = float(found[1]) * UNITS[found[2] or "s"]
        if not self._least <= seconds <= self._most:
            self.fail(f"{value!r}: must be from {self._least:g} s to {self._most:g} s", param, ctx)
        return seconds
