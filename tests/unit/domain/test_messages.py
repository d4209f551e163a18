"""What a report says of the pace of its topology."""

from __future__ import annotations

import pytest

from domain.messages import EpochReport


@pytest.mark.parametrize(
    ("first", "last", "head", "interval", "keeps_pace"),
    [
        (10, 10, 11, 1.0, True),
        (10, 12, 15, 1.0, True),  # a slow machine: three epochs in a job, three wait
        (10, 14, 14, 1.0, True),  # five seconds of input
        (10, 15, 15, 1.0, False),
        (10, 10, 20, 1.0, False),
        (10, 12, 12, 30.0, True),  # epochs of half a minute
        (10, 13, 13, 30.0, False),
        (10, 59, 100, 0.1, True),
    ],
)
def test_a_topology_keeps_pace_while_little_input_waits(
    first: int, last: int, head: int, interval: float, keeps_pace: bool
) -> None:
    report = EpochReport(
        topology="t", generation=1, first=first, last=last, head=head, committed=last, tuples=1,
        started_at=0.0, ended_at=1.0, input_rate=1.0, watermark=0.0, state="running", absent=[], queries={},
        partitions={}, epoch_interval=interval,
    )  # fmt: skip
    assert report.caught_up is keeps_pace
