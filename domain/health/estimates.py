"""When those behind will have caught up, in words, from what the driver estimates. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from domain.execution.catching_up import NEVER
from domain.health.shape import seconds_words


def catch_up_words(seconds: float | None) -> str:
    """`available in about 40 s`; "" where nothing is behind or no pace is known yet. seconds: see
    `domain.messages.DriverStatus.catch_up`."""
    if seconds is None:
        return ""
    if seconds >= NEVER:
        return "does not catch up at its pace of the last half minute"
    return f"available in about {seconds_words(seconds)}"


def catch_up_longest(estimates: Iterable[float | None]) -> float | None:
    """Of several topologies: the last one decides. None if none of them has an estimate."""
    return max((one for one in estimates if one is not None), default=None)
