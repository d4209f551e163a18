"""How many epochs a job runs: of the present, and of the replay beside it. Pure.

A job that replays runs beside those of the present, in the processor time that they leave. What it may cost
them is therefore not planned here; what is planned is how long it takes, since a new plan waits for its end,
and what is to be done where those behind come no nearer.
"""

from __future__ import annotations

from dataclasses import dataclass

SLOWLY = 0.05
SMOOTHING = 0.3
KEPT, LOOK_EVERY = 60.0, 20.0
"""Seconds after a plan was applied in which queries that give output come first. Then it is looked at again
and again whether those behind come nearer; where they do not, replay is hurried, or it would never arrive."""
AHEAD = 0.5
"""Epochs of the present for each replayed one, at most, while replay comes first: it must be faster, or it
never arrives."""
ENOUGH = 2.0
"""Seconds of epochs worked off in a second: at this speed all partitions arrive soon."""
WORTHWHILE = 1.2
"""Times faster that larger jobs must be to be worth their memory."""
LONG = 6.0
"""Seconds of a job of the present. None grows that took long, because a new plan waits for its end."""
REPLAY, BESIDE_PRESENT = 8.0, 0.8
"""Seconds that a job which replays is to take; or this share of the job of the present beside it, if that is
longer. What a job costs by itself is much of a short one; a longer one loses more where it is ended."""
JOINT = 2.0
"""Seconds that epochs may take which those behind lack and run together with the present, which waits for
them once. In the first `KEPT` seconds of a plan it is one epoch: queries that give output would be so late
that they count as unavailable."""
QUICKEST = 0.0005


@dataclass(slots=True)
class JobSizes:
    """Learns from jobs how large the next may be. `interval`: seconds between epochs; `together`: epochs of a
    job while no query gives output; `most`: epochs a job may replay.

    overhead: seconds of a job in which no partition works. load: seconds that the present takes for each
    second of input, over some twenty epochs. at_once: `together`, or more where what a job costs by itself
    would eat up the time. replay: epochs of the next job that replays.
    """

    interval: float
    together: int
    most: int
    overhead: float = 0.2
    load: float = 0.0
    at_once: int = 0
    replay: int = 0
    _speed: float = 0.0

    def __post_init__(self) -> None:
        self.at_once = self.together
        self.unfamiliar()

    def unfamiliar(self) -> None:
        """Other nodes work than before: what an epoch costs there is tried with few."""
        self.replay = min(self.together, self.most)

    @property
    def join(self) -> int:
        """Epochs that partitions may lack to run with those furthest ahead, and be with them from then on. A
        replay of few epochs would take about as long as the present takes for as many, and never arrive."""
        return max(1, min(int(self.replay * JOINT / REPLAY), self.together // 2))

    def replayed(self, *, epochs: int, seconds: float, beside: float = 0.0) -> None:
        """A job replayed so many epochs. beside: seconds from its start until its result was taken, because a
        job of the present ran beside it: until then no other is started. The next one has as many as take the
        time that it should, at most twice as many as this one had, and at least half of them."""
        fitting = int(epochs * max(REPLAY, BESIDE_PRESENT * beside) / max(seconds, QUICKEST))
        if fitting < epochs:
            self.replay = max(1, fitting, epochs // 2)
        elif epochs >= self.replay:
            self.replay = min(self.most, fitting, 2 * epochs)

    def worked(self, *, seconds: float, working: float, epochs: int) -> None:
        """A job ran so many epochs of the present. In its stages, one after the other, the tasks that took
        longest worked for `working` of its `seconds`."""
        self.overhead += SMOOTHING * (max(0.0, seconds - working) - self.overhead)
        took = min(seconds, working + self.overhead) / (epochs * self.interval)
        weight = 1.0 if not self.load else 1.0 - (1.0 - SLOWLY) ** epochs
        self.load += weight * (took - self.load)

    def advanced(self, *, epochs: int, seconds: float) -> None:
        """A job took the partitions furthest ahead `epochs` further. On a machine so busy that this is slower
        than epochs fall due, jobs grow as long as that helps; otherwise they would never arrive. They do not
        grow beyond `LONG`, because a new plan waits for the end of a job."""
        if epochs < self.at_once:
            self.at_once, self._speed = self.together, 0.0
            return
        speed = epochs * self.interval / max(seconds, QUICKEST)
        if seconds <= LONG and speed < ENOUGH and speed > WORTHWHILE * self._speed:
            self._speed = speed
            self.at_once = min(2 * self.at_once, max(self.most, self.together))


@dataclass(slots=True)
class Hurry:
    """Whether replay comes first. missing: epochs that those behind lacked when it was looked at last."""

    now: bool = False
    _kept_until: float = float("-inf")
    _look_at: float = float("-inf")
    _missing: float = float("inf")

    def begin(self, at: float) -> None:
        """A plan was applied: queries that give output come first for a while."""
        self.now, self._kept_until, self._look_at, self._missing = False, at + KEPT, at + KEPT, float("inf")

    def keeps(self, at: float) -> bool:
        """Whether queries that give output still come first without question."""
        return at < self._kept_until

    def look(self, missing: int, at: float) -> bool:
        """Whether replay is hurried now. missing: epochs that those behind lack."""
        if at >= self._look_at:
            self.now = missing >= self._missing
            self._missing, self._look_at = missing, at + LOOK_EVERY
        return self.now
