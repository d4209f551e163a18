"""What a partition remembers of event times: how many rows it left out because they came too late, and the
greatest time it has seen. Part of its state, so that a replay counts each row once."""

from __future__ import annotations

from typing import Final

from spark_jobs.state.tables import StateTables

LEFT_OUT: Final = "__left_out"
_GREATEST = "__event_time"


def leave_out(state: StateTables, rows: int) -> None:
    """Count rows that came behind the watermark."""
    if rows:
        state.values[LEFT_OUT] = left_out(state) + rows


def left_out(state: StateTables) -> int:
    """How many rows were left out since the topology started."""
    count = state.values.get(LEFT_OUT, 0)
    return count if isinstance(count, int) else 0


def event_time_note(state: StateTables, newest: int) -> None:
    """A source partition gave a row with this event time, in microseconds."""
    before = greatest_event_time(state)
    state.values[_GREATEST] = newest if before is None else max(before, newest)


def greatest_event_time(state: StateTables) -> int | None:
    """The greatest event time that a source partition has given; None before the first."""
    found = state.values.get(_GREATEST)
    return found if isinstance(found, int) else None
