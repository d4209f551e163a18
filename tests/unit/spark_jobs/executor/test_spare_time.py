"""Work in spare time gives way to other work, and leaves its process as it was."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from spark_jobs.executor.spare_time import in_spare_time


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="only Linux has this scheduling class")
def test_only_the_thread_of_the_work_gives_way() -> None:
    before = os.sched_getscheduler(0)

    def work() -> Iterator[tuple[int, int]]:
        for number in range(3):
            yield number, os.sched_getscheduler(0)

    assert in_spare_time(work) == [(number, os.SCHED_IDLE) for number in range(3)]
    assert os.sched_getscheduler(0) == before
    assert "spare-time" not in {thread.name for thread in threading.enumerate()}


def test_an_error_of_the_work_is_raised() -> None:
    def work() -> Iterator[int]:
        yield 1
        raise ValueError("no such partition")

    with pytest.raises(ValueError, match="no such partition"):
        in_spare_time(work)


def test_without_such_a_class_it_works_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError("not here")

    monkeypatch.setattr(os, "sched_setscheduler", refused, raising=False)
    assert in_spare_time(lambda: [1, 2]) == [1, 2]
