"""When a failed delivery is tried again, and when it no longer is."""

from __future__ import annotations

import random
from datetime import timedelta

FIRST_RETRY = 5.0
LONGEST_RETRY = 3600.0
MOST_TRIES = 15
"""Over about five and a half hours."""

DISABLED_AFTER = timedelta(hours=24)
"""A webhook that has only failed for so long, at least `MOST_TRIES` times, is disabled."""


def retry_delay(tries: int, *, asked: float | None = None, rng: random.Random | None = None) -> timedelta:
    """How long to wait after `tries` failed attempts: doubling from 5 s to an hour, 20 % more or less.

    asked: what the receiver wanted (``Retry-After``, seconds); waited for if it is longer, up to an hour.
    """
    draw = rng.uniform if rng is not None else random.uniform
    seconds = min(FIRST_RETRY * 2.0 ** (tries - 1), LONGEST_RETRY) * draw(0.8, 1.2)
    return timedelta(seconds=max(seconds, min(asked or 0.0, LONGEST_RETRY)))
