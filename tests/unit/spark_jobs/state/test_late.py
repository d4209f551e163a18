"""What a partition remembers of event times."""

from __future__ import annotations

from spark_jobs.state.late import event_time_note, greatest_event_time, leave_out, left_out
from spark_jobs.state.tables import StateTables


def test_rows_are_added_up_and_the_greatest_time_only_grows() -> None:
    state = StateTables({}, {}, {})
    assert (left_out(state), greatest_event_time(state)) == (0, None)
    leave_out(state, 0)
    assert state.values == {}, "nothing to remember"
    for rows, newest in ((2, -5), (3, 7), (0, 4)):
        leave_out(state, rows)
        event_time_note(state, newest)
    assert (left_out(state), greatest_event_time(state)) == (5, 7)


def test_values_that_an_operator_put_there_itself_are_not_trusted() -> None:
    state = StateTables({"__left_out": "many", "__event_time": [1]}, {}, {})
    assert (left_out(state), greatest_event_time(state)) == (0, None)
