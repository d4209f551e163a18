"""When the nodes that were asked for are expected, from a provider's estimate or observed delays."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

# A request that has waited longer than any known delay is expected after this share of its wait again.
OVERDUE_SHARE = 0.1
_BISECTIONS = 60


@dataclass(frozen=True, slots=True, order=True)
class Arrival:
    """Free capacity that is expected, in CPU percent (the node's bound applied), `at` seconds from now."""

    at: float
    capacity: float


class DelayDistribution(Protocol):
    """Distribution of the time from the request of a node to its arrival."""

    def share(self, seconds: float) -> float:
        """Probability that the delay is at most this."""

    @property
    def longest(self) -> float:
        """A delay that is not exceeded."""


@dataclass(frozen=True, slots=True)
class UniformDelay:
    """Any delay between two is equally likely; the papers saw 120 to 360 seconds on EC2."""

    shortest: float
    longest: float

    def __post_init__(self) -> None:
        if not 0 <= self.shortest <= self.longest:
            raise ValueError(f"delays run from low to high, not from {self.shortest} to {self.longest}")

    def share(self, seconds: float) -> float:
        if seconds >= self.longest:
            return 1.0
        if seconds <= self.shortest:
            return 0.0
        return (seconds - self.shortest) / (self.longest - self.shortest)


class ObservedDelay:
    """Delays as they were measured, with straight lines between them."""

    def __init__(self, samples: Sequence[float]) -> None:
        if not samples:
            raise ValueError("an observed distribution needs at least one delay")
        self.samples = sorted(samples)

    @property
    def longest(self) -> float:
        return self.samples[-1]

    def share(self, seconds: float) -> float:
        count = len(self.samples)
        above = bisect_right(self.samples, seconds)
        if above == count:
            return 1.0
        low = self.samples[above - 1] if above else 0.0
        high = self.samples[above]
        return (above + (seconds - low) / (high - low)) / count if high > low else above / count


def parse_delay(text: str) -> UniformDelay:
    """`uniform:120:360`, in seconds; one number is a constant delay."""
    parts = text.split(":")
    try:
        if len(parts) == 1:
            return UniformDelay(float(parts[0]), float(parts[0]))
        if len(parts) == 3 and parts[0] == "uniform":
            return UniformDelay(float(parts[1]), float(parts[2]))
    except ValueError as error:
        raise ValueError(f"delay {text!r}: {error}") from error
    raise ValueError(f"delay {text!r} is neither `uniform:<seconds>:<seconds>` nor a number of seconds")


def expected_arrivals(
    delay: DelayDistribution, *, waited: Sequence[float], capacity: float | Sequence[float]
) -> tuple[Arrival, ...]:
    """Expected arrival times of requests that are still open.

    waited: seconds since each request. capacity: what each will offer, or one number for all.

    The k-th of n arrivals is put where k n / (n + 1) are expected to have come, given how long each has
    waited. For equal requests and a uniform delay that is the exact mean of the k-th order statistic.
    """
    offers = list(capacity) if not isinstance(capacity, int | float) else [float(capacity)] * len(waited)
    if len(offers) != len(waited):
        raise ValueError(f"{len(waited)} requests but {len(offers)} capacities")
    ranked = sorted(zip(waited, offers, strict=True), key=lambda request: -request[0])
    overdue = [(age, offer) for age, offer in ranked if delay.share(age) >= 1.0]
    pending = [(age, offer) for age, offer in ranked if delay.share(age) < 1.0]
    arrivals = [Arrival(max(1e-3, OVERDUE_SHARE * age), offer) for age, offer in overdue]
    ages = [age for age, _ in pending]
    # Requests are mostly made together: hundreds of lost nodes have few different ages.
    groups = [(age, count, delay.share(age)) for age, count in Counter(ages).items()]
    arrivals += [
        Arrival(_when(delay, groups, (k + 1) * len(pending) / (len(pending) + 1)), offer)
        for k, (_, offer) in enumerate(pending)
    ]
    return tuple(sorted(arrivals))


def _when(delay: DelayDistribution, groups: Sequence[tuple[float, int, float]], expected: float) -> float:
    """Seconds from now until this many of the pending requests are expected to have arrived.

    groups: age, number and share of the delays up to that age, of requests of equal age.
    """

    def come(after: float) -> float:
        total = 0.0
        for age, count, before in groups:
            total += count * (delay.share(age + after) - before) / (1.0 - before)
        return total

    low, high = 0.0, max(0.0, delay.longest - min(age for age, _, _ in groups))
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if come(middle) >= expected else (middle, high)
    return high
