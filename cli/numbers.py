"""Numbers as JSON can hold them: it has neither `nan` nor `inf`."""

from __future__ import annotations

import math
from typing import Any

import click


class Number(click.FloatRange):
    """A finite number, from `min` to `max` where these are given."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


def whole(text: str) -> bool:
    """Whether the text is a whole number of at most nine digits."""
    return text.isdecimal() and len(text) <= 9
