"""CPU in texts: planning counts percent of one core, texts for operators count cores."""

from __future__ import annotations


def cores(percent: float) -> str:
    """CPU percent in words: `0.34 cores`, `1 core`, `12 cores`; rounded to what a reader needs."""
    number = cores_number(percent)
    return f"{number} core" if number == "1" else f"{number} cores"


def cores_number(percent: float) -> str:
    """The same without the unit."""
    value = percent / 100.0
    if 0.0 < value < 0.005:
        return "less than 0.01"
    digits = 0 if value >= 9.95 else 1 if value >= 0.995 else 2
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text
