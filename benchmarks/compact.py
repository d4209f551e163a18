"""Reports as text for people to read and compare: short lines, few digits, no repeated measurements."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH = 110
DIGITS = 6
"""Significant digits of a number that was measured."""


def spread(values: Sequence[float]) -> dict[str, float]:
    """What a report keeps of repeated measurements."""
    ordered = sorted(values)
    return {
        "count": len(ordered),
        "least": ordered[0],
        "median": statistics.median(ordered),
        "p90": ordered[int(len(ordered) * 0.9)],
        "most": ordered[-1],
    }


def compact(value: Any, *, indent: int = 0, used: int = 0) -> str:
    """JSON in which each value that fits into a line stands on one line; larger values are broken into full
    lines. indent: columns before the line of the value. used: columns before the value in its line."""
    whole = json.dumps(_rounded(value), allow_nan=False)
    if indent + used + len(whole) < WIDTH or not isinstance(value, Mapping | list | tuple) or not value:
        return whole
    if isinstance(value, Mapping):
        names = [f"{json.dumps(str(name))}: " for name in value]
        brackets, parts = "{}", list(value.values())
    else:
        names, brackets, parts = [""] * len(value), "[]", list(value)
    lines: list[str] = []
    for name, part in zip(names, parts, strict=True):
        text = name + compact(part, indent=indent + 1, used=len(name) + 1)
        if lines and "\n" not in text + lines[-1] and indent + len(lines[-1]) + len(text) + 4 <= WIDTH:
            lines[-1] += f", {text}"
        else:
            lines.append(text)
    inner, outer = "\n" + " " * (indent + 1), "\n" + " " * indent
    return brackets[0] + inner + f",{inner}".join(lines) + outer + brackets[1]


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {str(name): _rounded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(part) for part in value]
    return value
