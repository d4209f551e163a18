"""When a failed delivery is tried again, and when it is given up."""

from __future__ import annotations

import random
from datetime import timedelta

FIRST_RETRY = 5.0
LONGEST_RETRY = 3600.0
MOST_TRIES = 15
"""Over about five and a half hours."""

LONGEST_WAIT = timedelta(seconds=1.2 * LONGEST_RETRY)
"""Between two tries."""

DISABLED_AFTER = timedelta(hours=24)
"""A webhook without a success for this long, and with at least `MOST_TRIES` failures, is disabled."""


def retry_delay(tries: int, *, asked: float | None = None, rng: random.Random | None = None) -> timedelta:
    """How long to wait after `tries` failed attempts: doubling from 5 s to an hour, 20 % more or less.

    asked: the receiver's ``Retry-After`` in seconds; used if it is longer, up to an hour.
    """
    draw = rng.uniform if rng is not None else random.uniform
    seconds = min(FIRST_RETRY * 2.0 ** (tries - 1), LONGEST_RETRY) * draw(0.8, 1.2)
    return timedelta(seconds=max(seconds, min(asked or 0.0, LONGEST_RETRY)))
