"""Whether a topology keeps pace with its input, from what its jobs took. Pure.

The load of a topology is the seconds that its driver works for each second of input: with 0.4 it could take
two and a half times as much, above 1 it falls behind for good.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

WINDOW = 6.0
"""Seconds of input of which the load is measured, at least."""
CYCLES = 3
"""Cycles of windows of which the usual lag is known."""
UNUSUAL = 1.5
"""How many times the usual lag makes an overload of a load that is too high over `WINDOW` seconds only, not
over a whole cycle of windows."""
AWAY = 15.0
"""Seconds without a job after which a driver was away: an idle one works once in each epoch."""
SETTLING = 30.0
"""Seconds after a plan or a start of the driver in which nothing is judged: nodes are cold."""
FALLS = 0.95
"""Times the load of a cycle before below which a load is falling."""
FULL = 0.95
"""Load from which a topology has no time left."""
ROUNDING = 1e-6
WAITING, WAITS = 2, 5.0
"""Epochs that fell due during a job and wait, and seconds of input, where a topology has no time left. With a
load of 1.02 that takes four minutes; less is worked off sooner than what would be parked is back."""


@dataclass(frozen=True, slots=True)
class Pace:
    """load: see above; None while it is not known. lag: seconds of input that wait. overloaded_since: since
    when more has come in than was worked off, in Unix seconds; None while that is not so. usual: the load
    before; None where it is not known, or says nothing of the nodes that there are now. falls: the load is
    less than a cycle of windows before, and so may be less still."""

    load: float | None = None
    lag: float = 0.0
    overloaded_since: float | None = None
    usual: float | None = None
    falls: bool = False


PACE_UNKNOWN = Pace()


@dataclass(frozen=True, slots=True)
class _Job:
    ended: float
    seconds: float
    of_input: float


@dataclass(slots=True)
class Saturation:
    """Of one topology. Jobs that also replay what others have missed say nothing of its load."""

    _jobs: deque[_Job] = field(default_factory=deque)
    _lags: deque[tuple[float, float]] = field(default_factory=deque)
    _loads: deque[tuple[float, float]] = field(default_factory=deque)
    _generation: int = -1
    _since: float = 0.0
    _last: float = float("-inf")
    _overloaded_since: float | None = None

    def observe(
        self,
        *,
        generation: int,
        started: float,
        ended: float,
        epochs: int,
        waiting: int,
        interval: float,
        replayed: bool,
        cycle: float = 0.0,
    ) -> Pace:
        """A job ran `epochs` of the present, each of `interval` seconds of input, under the plan of that
        generation; `waiting` more were due at its start. replayed: it did other work besides. cycle: see
        `domain.values.Cycle`. An epoch in which windows end takes a multiple of the others, so the load is
        that of a whole cycle. Times are Unix seconds."""
        away = max(AWAY, 2 * interval)
        if generation != self._generation or started > self._last + away or ended < self._last:
            self._begin(generation, started)
        self._last = ended
        if interval > 0.0:
            waiting = max(0, waiting) + int((ended - started) / interval)
        lag = waiting * interval
        if ended - self._since < SETTLING:
            return Pace(None, lag)
        if not replayed and epochs > 0 and interval > 0.0:
            self._jobs.append(_Job(ended, ended - started, epochs * interval))
        window = max(WINDOW, cycle)
        while self._jobs and self._jobs[0].ended < ended - 2.0 * window:
            self._jobs.popleft()
        while self._lags and self._lags[0][0] < ended - CYCLES * window:
            self._lags.popleft()
        load = self._load(window, ended)
        if waiting < WAITING or lag < WAITS or not self._full(window, ended, lag):
            self._overloaded_since = None
            self._lags.append((ended, lag))
        elif self._overloaded_since is None:
            self._overloaded_since = ended
        return Pace(load, lag, self._overloaded_since, falls=self._falls(window, ended, load))

    def _falls(self, window: float, now: float, load: float | None) -> bool:
        """Whether the load is less than one cycle of windows before."""
        if load is None:
            return False
        self._loads.append((now, load))
        while len(self._loads) > 1 and self._loads[1][0] <= now - window:
            self._loads.popleft()
        return load < FALLS * self._loads[0][1]

    def _full(self, window: float, now: float, lag: float) -> bool:
        """Whether no time is left: over a whole cycle of windows, or over `WINDOW` seconds while more than
        usual waits."""
        load = self._load(window, now)
        if window <= WINDOW:
            return load is not None and load >= FULL
        if now - self._since < SETTLING + window:
            return False  # it has not been seen for a cycle
        if load is not None and load >= FULL:
            return True
        usual = max((one for at, one in self._lags if at <= now - WINDOW), default=lag)
        load = self._load(WINDOW, now)
        unusual = lag > UNUSUAL * usual or self._overloaded_since is not None
        return load is not None and load >= FULL and unusual

    def _begin(self, generation: int, at: float) -> None:
        self._jobs.clear()
        self._lags.clear()
        self._loads.clear()
        self._generation, self._since, self._overloaded_since = generation, at, None

    def _load(self, window: float, now: float) -> float | None:
        """Of the jobs with the last `window` seconds of input, as far as they are not too long ago."""
        seconds = of_input = 0.0
        for job in reversed(self._jobs):
            if of_input >= window - ROUNDING or job.ended < now - 2.0 * window:
                break
            seconds += job.seconds
            of_input += job.of_input
        return seconds / of_input if of_input else None
