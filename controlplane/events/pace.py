"""How often numbers that change all the time are told.

Nobody reads a thousand numbers each second, and telling them to everybody who watches is most of what a
server has to do. So a large group of rows is told in rounds, the longer the more there are; what an operator
must know at once never waits for one.
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
