"""When a storage that does not answer is bypassed (Apache S4, fault tolerance: tuning,
fetchingMaxConsecutiveFailuresBeforeDisabling and fetchingDisabledDurationMs). Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

BreakerState = Literal["closed", "open", "trying"]
"""closed: the storage is asked. open: it is bypassed. trying: the bypass is over, and the next answer
decides."""


class Breaker(msgspec.Struct, frozen=True):
    """failures: in a row. until: Unix time to which the storage is bypassed, 0 if it is not."""

    failures: int = 0
    until: float = 0.0

    def state(self, at: float, *, bypass: float) -> BreakerState:
        """bypass: seconds for which the storage is bypassed at most, also where the clock was put back."""
        if not self.until:
            return "closed"
        return "open" if 0 < self.until - at <= bypass else "trying"

    def succeeded(self) -> Breaker:
        return Breaker()

    def failed(self, at: float, *, most: int, bypass: float) -> Breaker:
        """most: failures in a row from which the storage is bypassed, for `bypass` seconds. What fails after
        a bypass is over begins the next one at once."""
        failures = self.failures + 1
        again = self.until > 0
        return Breaker(failures, at + bypass if again or failures >= most else 0.0)
