"""What benchmarks count of other processes."""

from __future__ import annotations

import os

from benchmarks.others import Others, others


def test_cores_are_what_was_taken_in_the_time_between() -> None:
    earlier = Others(at=10.0, seconds=5.0)
    assert Others(at=14.0, seconds=7.0).cores_since(earlier) == 0.5
    assert Others(at=14.0, seconds=4.9).cores_since(earlier) == 0.0, "of a process that is gone"


def test_own_processes_are_left_out() -> None:
    everything, rest = others(()), others({os.getpid()})
    assert rest.seconds < everything.seconds
