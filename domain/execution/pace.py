"""How many epochs of replay a job may carry, so that queries not behind keep their latency. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

SMOOTHING = 0.3
SLOWLY = 0.05
SHARE = 0.15
"""Of the latency of queries that give output: how much longer a job may take for the sake of those behind.
Beyond 0.2 they would no longer count as available. Where fewer queries run than before the failure, jobs are
shorter than they were then, and what they were shorter by is for those behind, too."""
LEAST = 1.25
"""Epochs of replay for each epoch of the present, at least: replay must be faster, or it never arrives. With
2, on nodes with little CPU, jobs grew to fifty seconds: more epochs fell due during a job than before."""
KEPT, LOOK_EVERY = 60.0, 20.0
"""Seconds after a plan was applied in which queries that give output come first: replay takes `SHARE` of
their latency on average and no more. Then it is looked at again and again whether those behind come nearer;
where they do not, replay is hurried, or on busy nodes it would never arrive."""
SAVED = 4
"""Jobs for which a share that was not enough for an epoch is saved up."""
CAUTION = 0.9
QUICKEST = 0.0005
ENOUGH = 2.0
"""Seconds of epochs worked off in a second: at this speed all partitions arrive soon."""
WORTHWHILE = 1.2
"""Times faster that larger jobs must be to be worth their memory."""


@dataclass(slots=True)
class ReplayPace:
    """Learns what an epoch costs. `interval`: seconds between epochs; `together`: epochs of a job while
    no query gives output; `most`: epochs a job may replay.

    base: seconds of a job without replay. normal: the same while nothing was behind; None until it is known.
    each: seconds by which one replayed epoch makes a job longer; what runs on other nodes meanwhile makes it
    no longer. overhead: seconds of a job in which no lane works. load: seconds that the present takes for
    each second of input, over some twenty jobs. at_once: `together`, or more where what a job costs by itself
    would eat up the time.
    """

    interval: float
    together: int
    most: int
    base: float = 0.4
    normal: float | None = None
    each: float = 0.02
    overhead: float = 0.2
    load: float = 0.0
    at_once: int = 0
    _speed: float = 0.0
    _credit: float = 0.0
    _allowed: int = 0
    _granted: float = 0.0

    def __post_init__(self) -> None:
        self.at_once = self.together
        self._allowed = self.most

    def beside(self, present: int, *, kept: bool = False) -> int:
        """Epochs to replay in a job that also runs `present` epochs for queries that give output. kept: these
        come first, whether or not replay arrives."""
        wait = self.interval / 2  # of a tuple, before the job
        takes = self.load * self.interval or self.base
        usual = max(takes, self.normal or 0.0)
        share = (1 + SHARE) * (wait + usual) - (wait + takes)
        if not kept:
            return self._within(share, max(present + 1, math.ceil(LEAST * present)))
        self._credit = min(self._credit + share, max(self.each, SAVED * share))
        epochs = self._within(self._credit, 0)
        self._credit -= epochs * self.each
        return epochs

    def alone(self, slack: float) -> int:
        """Epochs to replay in a job of their own that ends within `slack` seconds; 0 if none would."""
        return self._within(slack * CAUTION - self.base, 0)

    def unfamiliar(self) -> None:
        """Other nodes work than before: what an epoch costs there is tried with one."""
        self._allowed = 1

    def _within(self, seconds: float, least: int) -> int:
        self._granted = max(0.0, seconds)
        epochs = int(min(float(self.most), self._granted / self.each))
        return max(least, min(epochs, self._allowed))

    def observe(self, *, seconds: float, working: float, replayed: int, calm: bool = False) -> None:
        """A job took `seconds`. In its stages, one after the other, the tasks that took longest worked for
        the present `working` seconds; it replayed so many epochs besides. calm: all partitions ran in it, and
        none was behind."""
        if calm:
            self.normal = seconds if self.normal is None else self.normal + SLOWLY * (seconds - self.normal)
        if not replayed:
            self.overhead += SMOOTHING * (max(0.0, seconds - working) - self.overhead)
            self.base += SMOOTHING * (seconds - self.base)
            # Or an epoch that once took long would never be tried again.
            self.each = max(QUICKEST, self.each * (1 - SLOWLY))
            return
        without = min(seconds, working + self.overhead)
        added = seconds - without
        self.base += SMOOTHING * (without - self.base)
        self.each += SMOOTHING * (max(added / replayed, QUICKEST) - self.each)
        # What one epoch costs says little of many, or of nodes that are new to the work: twelve at once took
        # eight seconds there. So a job carries at most twice as many as the last one.
        self._allowed = min(self.most, 2 * replayed) if added <= self._granted else max(1, replayed // 2)

    def replayed_alone(self, *, seconds: float, epochs: int) -> None:
        """A job of nothing but replay, in idle time."""
        took = max((seconds - self.overhead) / epochs, QUICKEST)
        self.each += SMOOTHING * (took - self.each)
        self._allowed = min(self.most, 2 * epochs)

    def worked(self, *, seconds: float, working: float, epochs: int) -> None:
        """A job of `seconds`, of which `working` for so many epochs of the present."""
        took = min(seconds, working + self.overhead) / (epochs * self.interval)
        self.load = took if not self.load else self.load + SLOWLY * (took - self.load)

    def advanced(self, *, epochs: int, seconds: float) -> None:
        """A job took the partitions furthest ahead `epochs` further. On a machine so busy that this is slower
        than epochs fall due, jobs grow as long as that helps; otherwise they would never arrive."""
        if epochs < self.at_once:
            self.at_once, self._speed = self.together, 0.0
            return
        speed = epochs * self.interval / max(seconds, QUICKEST)
        if speed < ENOUGH and speed > WORTHWHILE * self._speed:
            self._speed = speed
            self.at_once = min(2 * self.at_once, max(self.most, self.together))
