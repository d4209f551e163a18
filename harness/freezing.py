"""Stopping processes without ending them: nothing answers, and no connection is closed."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import dataclass

from harness.eventually import eventually
from host.processes import facts, send, start_time


@dataclass(frozen=True, slots=True)
class Frozen:
    """Process -> its start, by which it is known again."""

    started: dict[int, int]

    @property
    def stopped(self) -> int:
        """How many are in state T at this moment."""
        return sum(_state(pid, started) == "T" for pid, started in self.started.items())

    @property
    def ended(self) -> int:
        """How many have been killed meanwhile."""
        return sum(_state(pid, started) == "" for pid, started in self.started.items())

    def go_on(self) -> None:
        for pid, started in self.started.items():
            if start_time(pid) == started:
                send(pid, signal.SIGCONT)


def freeze(pids: Iterable[int]) -> Frozen:
    """Returns when every one of them is in state T, or has ended."""
    begun = {pid: start_time(pid) for pid in pids}
    frozen = Frozen({pid: started for pid, started in begun.items() if started is not None})
    for pid in frozen.started:
        send(pid, signal.SIGSTOP)
    try:
        eventually(
            lambda: frozen.stopped + frozen.ended == len(frozen.started), "processes in state T", timeout=30
        )
    except BaseException:
        frozen.go_on()
        raise
    return frozen


def _state(pid: int, started: int) -> str:
    """Empty if the process has ended. T is also that of a single thread, so all threads have stopped once the
    leader has."""
    found = facts(pid)
    if found is None or found.started != started or found.state in "ZX":
        return ""
    return found.state
