"""Users on the segments of roads, what their phones report, and the incidents that hold some of them up.

Everything follows from the numbers of tuples and incidents by whole-number arithmetic: the same epoch gives
the same rows in every process. `manage.py verify` does the same in SQL (`controlplane.verification.traffic`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from spark_jobs.sources.arrivals import Arrivals

Numbers = npt.NDArray[np.int64]
CYCLE: Final = 43_200
"""Incidents after which they repeat: a day of them, at one every two seconds."""
JAM_US: Final = 60_000_000
"""How long the traffic is held up, where an incident does so."""
FREE, JAMMED, VICTIM, HOLDS_UP, JITTER = range(1, 6)
"""What a number is drawn for."""
_BITS: Final = 0x7FFFFFFF


def drawn(numbers: Numbers, seed: int, purpose: int) -> Numbers:
    """A number from 0 to 2**31 - 1 for each, without a visible pattern."""
    x = (numbers ^ (numbers >> 31)) & _BITS
    x = x ^ ((seed * 8 + purpose) * 0x9E3779B1 & _BITS)
    x = ((x ^ (x >> 15)) * 0x2C1B3C6D) & _BITS
    x = ((x ^ (x >> 12)) * 0x297A2D39) & _BITS
    return x ^ (x >> 15)


class Roads:
    """Users are on segments by a Zipf law: the first segment has the first users. Every `every_us` there is
    an incident on the segment of some user, so that more users mean more incidents; all users there report
    it. Half of the incidents hold the traffic up for `JAM_US`."""

    def __init__(self, users: int, segments: int, zipf: float, seed: int, every_us: int) -> None:
        weights = [round(10**9 / number**zipf) for number in range(1, segments + 1)]
        sums = [0, *accumulate(weights)]
        self.users = users
        self.seed = seed
        self.every_us = every_us
        self.firsts: Numbers = np.array([users * part // sums[-1] for part in sums], dtype=np.int64)
        incidents = np.arange(CYCLE, dtype=np.int64)
        self.places = self.segment_of(drawn(incidents, seed, VICTIM) % users)
        self.holds_up = drawn(incidents, seed, HOLDS_UP) % 2 == 1
        self.reports = Arrivals((self.firsts[self.places + 1] - self.firsts[self.places]).tolist(), every_us)
        # Users report in turn, and neighbours of a segment not one after the other.
        self._stride = max(1, users * 618 // 1_000)
        while math.gcd(self._stride, users) > 1:
            self._stride += 1

    def segment_of(self, users: Numbers) -> Numbers:
        return np.searchsorted(self.firsts, users, side="right") - 1

    def user_of(self, numbers: Numbers) -> Numbers:
        """Whose location tuple n is: all users in turn."""
        return numbers % self.users * self._stride % self.users

    def jammed(self, segments: Numbers, times: Numbers) -> npt.NDArray[np.bool_]:
        """Whether the traffic is held up there and then. times: microseconds since the start, ascending."""
        if not len(times):
            return np.zeros(0, dtype=bool)
        first = max(0, (int(times[0]) - JAM_US) // self.every_us)
        incidents = np.arange(first, int(times[-1]) // self.every_us + 1, dtype=np.int64)
        incidents = incidents[self.holds_up[incidents % CYCLE]]
        # By segment, then by time: the last one that is not later is the only one that can still count.
        span = int(times[-1]) + 1
        begun = np.sort(self.places[incidents % CYCLE] * span + incidents * self.every_us)
        if not len(begun):
            return np.zeros(len(times), dtype=bool)
        wanted = segments * span + times
        at = np.searchsorted(begun, wanted, side="right") - 1
        last = begun[np.maximum(at, 0)]
        return (at >= 0) & (last >= segments * span) & (wanted - last < JAM_US)

    def speeds(self, segments: Numbers, times: Numbers) -> Numbers:
        """How fast the traffic moves, in miles per hour."""
        free = 45 + drawn(segments, self.seed, FREE) % 26
        slow = 5 + drawn(segments, self.seed, JAMMED) % 10
        return np.where(self.jammed(segments, times), slow, free)


@lru_cache(maxsize=8)
def roads_of(users: int, segments: int, zipf: float, seed: int, every_us: int) -> Roads:
    """Shared by the readers of this process."""
    return Roads(users, segments, zipf, seed, every_us)


def jittered(speeds: Numbers, numbers: Numbers, seed: int) -> Any:
    """What single users report: up to three miles per hour more or less."""
    return np.maximum(0, speeds + drawn(numbers, seed, JITTER) % 7 - 3)
