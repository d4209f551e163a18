"""Which queries are available: relative latency against a baseline (incremental-recovery, section 7.1).

Relative latency RL = latency now / latency before the failure. A query is available when the mean RL over
a window is below theta. Two things keep noise from flipping a query:

- while no incident is open, a query only becomes unavailable if its output stalls for `stall_limit`
  seconds, or if its topology has been behind its input for a whole window and the mean RL exceeds `late`;
  output that is slower and keeps pace is shown but not called a failure;
- within an incident a query that was unavailable returns when the *mean over a full window* is below
  theta, and leaves again only if that mean exceeds theta by the `margin`.

A new placement may be slower for good. So the present latency of a query that is not available becomes its
baseline when it has been steady for `settle` seconds without a backlog (the mean over the window stays within
a band of `steady`), or when an operator accepts it.

The baseline is the median of latencies seen in peace, while the topology keeps pace with its input: what a
backlog takes to work off is no normal latency, and until a topology has caught up for the first time its
queries are not available. The baseline is frozen when an incident opens, so that a
recovery is never measured against itself; latencies below `floor` seconds count as `floor`, because the
ratio of two tiny numbers says nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean, median


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """theta: bound of the mean RL. window: seconds of the mean. margin: factor above theta at which an
    available query is lost again within an incident. late: mean RL above which a query of a topology that is
    behind its input is unavailable also in peace. latest: what is older than the newest measurement by more
    shows that the clock was put back. settle: how long the latency of an unavailable query must be steady,
    its mean being within a factor of `steady`, to become the usual one. Times in seconds."""

    theta: float = 1.2
    window: float = 5.0
    margin: float = 1.25
    baseline_samples: int = 120
    baseline_least: int = 5
    late: float = 5.0
    stall_limit: float = 5.0
    latest: float = 60.0
    floor: float = 0.05
    settle: float = 300.0
    steady: float = 1.15


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryHealth:
    """What is known of a query now; latencies in seconds, None where not measured yet."""

    latency: float | None
    baseline: float | None
    relative: float | None
    available: bool


@dataclass(slots=True)
class _Track:
    baseline: deque[float]
    recent: deque[tuple[float, float]] = field(default_factory=deque)
    latency: float | None = None
    frozen: float | None = None
    available: bool = False
    stalled_since: float | None = None
    behind_since: float | None = None
    disturbed: bool = False  # has failed or stalled and not been normal for a full window since
    recent_from: float | None = None
    # Since when the mean is between `low` and `high`.
    steady_from: float | None = None
    low: float = 0.0
    high: float = 0.0


class AvailabilityTracker:
    """Baselines and verdicts for the queries of one topology. Times are seconds of one clock."""

    def __init__(self, policy: Policy, *, baselines: Mapping[str, float] | None = None) -> None:
        """`baselines` are those stored by an earlier process, used until enough is measured again."""
        self.policy = policy
        self.incident = False
        self._stored = dict(baselines or {})
        self._tracks: dict[str, _Track] = {}
        self._settled: dict[str, float] = {}

    def incident_set(self, open_: bool) -> None:
        """An incident of this topology opened or ended; opening freezes the baselines."""
        if open_ and not self.incident:
            for query, track in self._tracks.items():
                track.frozen = self._baseline(query, track)
        if not open_ and self.incident:
            for track in self._tracks.values():
                track.frozen = None  # a failed query must still show a normal window
        self.incident = open_

    def query_failed(self, query: str, at: float) -> None:
        """The query lost partitions: unavailable until its latency has been normal for a whole window."""
        track = self._track(query)
        track.available, track.disturbed = False, True
        track.recent.clear()
        track.recent_from = track.steady_from = None

    def baseline_accept(self, query: str) -> float | None:
        """The present latency is the usual one from now on, so the query is available. Returns how many times
        the earlier one it is; None, and nothing is changed, where no result has been measured lately."""
        track = self._track(query)
        before = self._baseline(query, track)
        if not track.recent or before is None or track.stalled_since is not None:
            return None
        times = fmean(value for _, value in track.recent)
        usual = max(before, self.policy.floor) * times
        track.baseline.clear()
        track.baseline.extend([usual] * self.policy.baseline_least)
        self._stored[query] = usual
        track.frozen = usual if self.incident else None
        track.recent = deque((at, value / times) for at, value in track.recent)
        track.available, track.disturbed, track.steady_from = True, False, None
        return times

    def settled(self) -> dict[str, float]:
        """Queries whose present latency has become the usual one since this was asked last, and how many
        times the earlier one it is."""
        found, self._settled = self._settled, {}
        return found

    def observe(
        self, query: str, *, at: float, latency: float, stalled: bool, caught_up: bool = True
    ) -> QueryHealth:
        """Take in one measurement and give the verdict. caught_up: whether the topology keeps pace with its
        input."""
        track = self._track(query)
        if track.recent and at < track.recent[-1][0]:
            if track.recent[-1][0] - at < self.policy.latest:
                return self.health(query)  # a late message says nothing about now
            track.recent.clear()  # the clock that it was measured by was put back
            track.recent_from = track.steady_from = track.stalled_since = track.behind_since = None
        track.latency = latency
        baseline = self._baseline(query, track)
        if stalled:
            track.stalled_since = at if track.stalled_since is None else track.stalled_since
            if self.incident or at - track.stalled_since >= self.policy.stall_limit:
                track.available, track.disturbed = False, True
                track.recent.clear()
                track.recent_from = track.steady_from = None
            return self.health(query)
        track.stalled_since = None
        if caught_up:
            track.behind_since = None
        elif track.behind_since is None:
            track.behind_since = at
        if caught_up and not self.incident and not track.disturbed:
            track.baseline.append(latency)
        relative = self._ratio(latency, baseline)
        if track.recent_from is None:
            track.recent_from = at
        track.recent.append((at, 1.0 if relative is None else relative))
        while track.recent and track.recent[0][0] < at - self.policy.window:
            track.recent.popleft()
        track.available = self._verdict(track, at, baseline)
        if track.available or not caught_up or baseline is None:
            track.steady_from = None
        elif self._steady(track, at) and (times := self.baseline_accept(query)) is not None:
            self._settled[query] = times
        return self.health(query)

    def _steady(self, track: _Track, at: float) -> bool:
        """Whether the mean has been within the band for long enough."""
        mean = fmean(value for _, value in track.recent)
        low, high = min(track.low, mean), max(track.high, mean)
        if track.steady_from is None or high > low * self.policy.steady:
            track.steady_from, track.low, track.high = at, mean, mean
            return False
        track.low, track.high = low, high
        return at - track.steady_from >= self.policy.settle

    def _verdict(self, track: _Track, at: float, baseline: float | None) -> bool:
        full = track.recent_from is not None and at - track.recent_from >= self.policy.window
        if baseline is None:
            # Nothing to compare with: output that flows is all that can be asked for. In peace it is normal
            # output after a while, from which a baseline can be learnt.
            track.disturbed = track.disturbed and (self.incident or not full)
            return track.behind_since is None
        mean = fmean(value for _, value in track.recent)
        if not self.incident and not track.disturbed:
            behind = track.behind_since is not None and at - track.behind_since >= self.policy.window
            track.disturbed = behind and mean > self.policy.late
            return not track.disturbed
        if track.available:
            return mean <= self.policy.theta * self.policy.margin
        if full and mean < self.policy.theta:
            track.disturbed = False
            return True
        return False

    def health(self, query: str) -> QueryHealth:
        track = self._track(query)
        baseline = self._baseline(query, track)
        relative = (
            fmean(value for _, value in track.recent)
            if track.recent and baseline is not None
            else None
            if track.latency is None
            else self._ratio(track.latency, baseline)
        )
        return QueryHealth(
            latency=track.latency, baseline=baseline, relative=relative, available=track.available
        )

    def _ratio(self, latency: float, baseline: float | None) -> float | None:
        if baseline is None:
            return None
        return max(latency, self.policy.floor) / max(baseline, self.policy.floor)

    def _baseline(self, query: str, track: _Track) -> float | None:
        if track.frozen is not None:
            return track.frozen
        if len(track.baseline) >= self.policy.baseline_least:
            return median(track.baseline)
        return self._stored.get(query)

    def _track(self, query: str) -> _Track:
        if query not in self._tracks:
            self._tracks[query] = _Track(baseline=deque(maxlen=self.policy.baseline_samples))
        return self._tracks[query]
