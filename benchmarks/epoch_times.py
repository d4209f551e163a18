"""When each partition had applied which epoch: the commits in the driver's epoch log, followed while it is
written.

A commit is written after every job, with its time; reports of jobs come once a second at most. A trim
replaces the file, so it is followed and not read at the end.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import msgspec

PAUSE = 0.1
"""Seconds between two looks at the file. Times are those in the log; a trim comes once per checkpoint."""


@dataclass(frozen=True, slots=True)
class Commit:
    """committed: the least epoch any partition has applied; ahead: those that applied more."""

    at: float
    committed: int
    ahead: Mapping[str, int]

    def of(self, partition: str) -> int:
        return self.ahead.get(partition, self.committed)


@dataclass(slots=True)
class EpochTimes:
    """commits: in order. due: epoch -> when its last tuple was due; it grows while it is read, so readers
    copy it. Unix seconds."""

    commits: list[Commit] = field(default_factory=list)
    due: dict[int, float] = field(default_factory=dict)

    def take(self, line: bytes) -> None:
        entry = msgspec.json.decode(line)
        if entry["t"] == "plan":
            self.due[entry["epoch"]] = entry["at"]
        elif entry["t"] == "commit":
            self.commits.append(Commit(entry["at"], entry["epoch"], entry.get("ahead", {})))

    def due_after(self, moment: float) -> int | None:
        """The first epoch that was not complete at a moment; None if none is known yet."""
        return min((epoch for epoch, at in self.due.copy().items() if at > moment), default=None)

    def output(self, partition: str, moment: float) -> float | None:
        """When a partition had first applied an epoch that was not complete at `moment`; None if it has
        not."""
        epoch = self.due_after(moment)
        if epoch is None:
            return None
        return next((one.at for one in self._after(moment) if one.of(partition) >= epoch), None)

    def news(self, partition: str, moment: float) -> float | None:
        """When it had first applied any epoch that it had not applied at `moment`; None if it has not."""
        known = max((one.of(partition) for one in self._until(moment)), default=0)
        return next((one.at for one in self._after(moment) if one.of(partition) > known), None)

    def longest_gap(self, partition: str, moment: float, until: float) -> float | None:
        """The longest time between two advances of a partition, from the last one before `moment` on. What
        is replayed is no advance. None if it did not advance before and after."""
        times: list[float] = []
        reached = 0
        for one in self._until(until):
            if one.of(partition) > reached:
                reached = one.of(partition)
                times.append(one.at)
        first = max(bisect_right(times, moment) - 1, 0)
        gaps = [later - before for before, later in zip(times[first:], times[first + 1 :], strict=False)]
        return max(gaps, default=None)

    def _until(self, moment: float) -> list[Commit]:
        return self.commits[: bisect_right(self.commits, moment, key=lambda one: one.at)]

    def _after(self, moment: float) -> list[Commit]:
        return self.commits[bisect_right(self.commits, moment, key=lambda one: one.at) :]


@contextmanager
def following(path: Path) -> Iterator[EpochTimes]:
    """Read the log from its present beginning on, in a thread, as long as the block runs."""
    times, stop = EpochTimes(), threading.Event()
    thread = threading.Thread(target=_follow, args=(path, times, stop), daemon=True)
    thread.start()
    try:
        yield times
    finally:
        stop.set()
        thread.join()


def _follow(path: Path, times: EpochTimes, stop: threading.Event) -> None:
    file = open(path, "rb")  # noqa: SIM115 - replaced by the next one
    rest = b""
    try:
        while not stop.wait(PAUSE):
            # Looked at first: what is written to the old file after this is still read from it below.
            replaced = path.stat().st_ino != _inode(file)
            rest = _read(file, rest, times)
            if replaced:
                file.close()
                file, rest = open(path, "rb"), b""  # noqa: SIM115 - as above
    finally:
        file.close()


def _inode(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_ino


def _read(file: BinaryIO, rest: bytes, times: EpochTimes) -> bytes:
    """Take in all complete lines; what is left of the last one."""
    *lines, rest = (rest + file.read()).split(b"\n")
    for line in lines:
        times.take(line)
    return rest
