"""How often the state of a key is stored, as authors write it."""

from __future__ import annotations

import pytest

from domain.key_saving.bounds import Saving
from domain.key_saving.every import Every, every_problem, every_read


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("20s", Every(seconds=20.0)),
        ("0.5 s", Every(seconds=0.5)),
        ("5m", Every(seconds=300.0)),
        ("500 events", Every(events=500)),
        ("1 event", Every(events=1)),
        (" 7EVENTS ", Every(events=7)),
    ],
)
def test_a_duration_or_a_number_of_events(text: str, meant: Every) -> None:
    assert every_read(text) == meant
    assert every_problem(text) == ""


@pytest.mark.parametrize("text", ["", "0s", "0 events", "-3s", "8d", "events", "3 rows", "1.5 events", "∞"])
def test_anything_else_is_a_problem(text: str) -> None:
    assert every_read(text) is None
    assert repr(text) in every_problem(text)


def test_partitions_of_an_operator_store_at_different_times() -> None:
    every = Every(seconds=20.0)
    begun = [Saving(every, 0.0).begun(1000.0, index, 4) for index in range(4)]
    due = [next(at for at in range(1000, 1100) if one.due(float(at))) for one in begun]
    assert due == [1020, 1015, 1010, 1005]


def test_what_has_begun_keeps_its_time_and_events_have_none() -> None:
    assert Saving(Every(seconds=20.0), 990.0).begun(1000.0, 3, 4).at == 990.0
    assert not Saving(Every(events=5), 0.0).begun(1000.0, 3, 4).due(1e9)


def test_a_clock_that_was_put_back_stores_once_more() -> None:
    saving = Saving(Every(seconds=20.0), 5000.0)
    assert not saving.due(5019.9)
    assert saving.due(1400.0)
