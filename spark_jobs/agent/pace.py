"""How fast large uploads go on: spread out, so that epochs that run beside a checkpoint take hardly longer
than others.

A thread of the lowest priority slows down tasks on the other processors too, through memory and caches, so
priorities are not enough.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

SHARE = 0.125
"""Of the CPU of a node, that uploads take in the long run while they are on schedule."""
AT_ONCE = 0.02
"""CPU seconds that are taken without a pause: small checkpoints are not slowed down."""
USED = 0.8
"""Of the seconds over which an upload may be spread out: so much is planned."""
LATE = 0.2
"""Of these seconds: an upload that is later stores all that is left at once."""


class Bucket:
    """A token bucket of CPU seconds, shared by the threads that upload.

    cores: of the node, may be a fraction. clock: seconds that only rise.
    """

    def __init__(self, cores: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        if cores <= 0.0:
            raise ValueError(f"a node has some CPU, not {cores} cores")
        self._rate = cores * SHARE
        self._clock = clock
        self._lock = threading.Lock()
        self._taken = 0.0
        self._at = clock()

    def took(self, seconds: float) -> None:
        """A thread has taken so many CPU seconds, or so many less than it had reserved."""
        with self._lock:
            self._taken = max(0.0, self._left() + seconds)

    def reserve(self, seconds: float) -> float:
        """Reserve what a thread expects to take, so that another one waits for longer; returns the seconds
        until it may."""
        with self._lock:
            left = self._left()
            self._taken = left + seconds
            return max(0.0, (left - AT_ONCE) / self._rate)

    def _left(self) -> float:
        """CPU seconds taken that the share has not made up for yet."""
        now = self._clock()
        self._at, since = now, self._at
        return max(0.0, self._taken - (now - since) * self._rate)


@dataclass(frozen=True, slots=True)
class Slot:
    """When an upload may be under way: from `begin` on, for `seconds`; 0 if it must not wait."""

    begin: float
    seconds: float


def slot(*, taken_at: float, spread: float, place: int, of: int) -> Slot:
    """Of an upload that is the `place`th (0 is the first) of so many: those of a checkpoint share the seconds
    since its snapshots were taken."""
    return Slot(taken_at + spread * place / of, spread / of)


class Pace:
    """Of one upload, in its thread: waits until its schedule, or the bucket, has room for more.

    sleep: for so many seconds. clock: of the slot.
    """

    def __init__(
        self,
        bucket: Bucket,
        slot: Slot,
        *,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.time,
        processor: Callable[[], float] = time.thread_time,
    ) -> None:
        self._bucket = bucket
        self._slot = slot
        self._sleep = sleep
        self._clock = clock
        self._processor = processor
        self._told = processor()
        self._reserved = 0.0

    def __call__(self, stored: float) -> bool:
        """Wait before more is stored. stored: the share of the bytes, 0 to 1. Returns whether to go on in
        small groups; False where the upload is late."""
        took = self.tell()
        due = self._slot.begin + self._slot.seconds * USED * stored
        early = due - self._clock()
        if early < -LATE * self._slot.seconds or self._slot.seconds <= 0.0:
            return False
        self._reserved = took
        seconds = min(early, self._bucket.reserve(took))
        if seconds > 0.0:
            self._sleep(seconds)
        return True

    def tell(self) -> float:
        """Tell the bucket what this thread has taken since it was told last; returns it, in CPU seconds."""
        told, self._told = self._told, self._processor()
        self._bucket.took(self._told - told - self._reserved)
        self._reserved = 0.0
        return self._told - told
