"""How often numbers that change all the time are told.

No user reads a thousand numbers each second, and sending them to all browsers is most of a server's work. So
the numbers of a large group of rows are published in rounds; the more rows, the longer a round. What an
operator must know at once is published at once.
"""

from __future__ import annotations

from datetime import datetime

ROWS_A_SECOND = 100


def round_begins(*, rows: int, last: datetime | None, now: datetime, offset: int = 0) -> bool:
    """Whether it is time to tell all the numbers of `rows` rows, something about them having been told at
    `last`. Groups with different offsets (seconds) are not all told at the same moment."""
    every = rows / ROWS_A_SECOND
    if every <= 1 or last is None:
        return True
    return (last.timestamp() + offset) // every != (now.timestamp() + offset) // every
