"""How often the state of a key is stored: after a time, or after a number of events. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from domain.durations import FORMS, seconds_read

_EVENTS = re.compile(r"(\d{1,12}) ?events?")
LONGEST = 604_800.0
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Every:
    """One of the two is not None. seconds: all keys that have changed are stored so long after the time
    before. events: a key is stored when so many rows have come for it since."""

    seconds: float | None = None
    events: int | None = None


def every_read(text: str) -> Every | None:
    """`20s`, `5m` or `500 events`; None for a text that is neither."""
    found = _EVENTS.fullmatch(text.strip().lower())
    if found is not None:
        return Every(events=int(found[1])) if int(found[1]) else None
    seconds = seconds_read(text)
    return Every(seconds=seconds) if seconds is not None and 0.0 < seconds <= LONGEST else None


def every_problem(text: str) -> str:
    """What is wrong with such a text; empty if nothing is."""
    if every_read(text) is not None:
        return ""
    return (
        f"must be a duration of at most 7 d ({FORMS}), or a number of events, such as 500 events; "
        f"not {text!r}"
    )
