"""Work in the processor time that others leave: a replay must not make late what queries give now.

On a node that has little, its quota goes to the tasks of the present first. Linux has a scheduling class for
that, of threads: a thread of its own has it, so the process of the task stays as it was for the next one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

Item = TypeVar("Item")


def in_spare_time(work: Callable[[], Iterable[Item]]) -> list[Item]:
    """All items of `work`, which runs in a thread that gives way to every other on this machine; where the
    operating system has nothing of the kind, it runs like any other. Raises what `work` raises."""
    done: list[Item] = []
    problems: list[BaseException] = []

    def run() -> None:
        with suppress(AttributeError, OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        try:
            done.extend(work())
        except BaseException as error:  # the caller's thread raises it
            problems.append(error)

    thread = threading.Thread(target=run, name="spare-time")
    thread.start()
    thread.join()
    if problems:
        raise problems[0]
    return done
