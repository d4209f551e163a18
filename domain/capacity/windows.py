"""Windows of time in which both are known: what a node's processes took, and what they did for it.

Agents count CPU seconds, drivers report what each job did. Both come when they come. A window of one topology
on one node lasts from one reading of the agent to another at least `WINDOW` seconds later; work is counted in
proportion to how much of its job lies in the window, so it is complete when a later job has been reported. A
window in which reports are missing, or after which none comes in time, is dropped: what is not known is not
learned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from domain.capacity.model import Work

WINDOW = 10.0
PATIENCE = 30.0
"""Seconds after which a window without a later report is dropped."""


@dataclass(slots=True, frozen=True)
class _Job:
    started: float
    ended: float
    work: Mapping[str, Work]


@dataclass(slots=True, frozen=True)
class _Reading:
    at: float
    cpu_seconds: float


@dataclass(slots=True)
class _Topology:
    jobs: deque[_Job] = field(default_factory=deque)
    last_epoch: int = 0
    # What was reported of moments before this one is incomplete.
    known_since: float = 0.0
    # Node -> the reading its window begins with, and the one it ends with once it is long enough.
    begun: dict[str, _Reading] = field(default_factory=dict)
    ended: dict[str, _Reading] = field(default_factory=dict)


class WorkWindows:
    """Pairs what agents count with what drivers report. Times are Unix seconds; the clocks of hosts agree to
    much less than a window."""

    def __init__(self) -> None:
        self._topologies: dict[str, _Topology] = {}

    def read(self, *, topology: str, node: str, at: float, cpu_seconds: float) -> None:
        """An agent's count: CPU seconds that the processes of this topology took since it began to count."""
        known = self._topologies.setdefault(topology, _Topology())
        reading = _Reading(at, cpu_seconds)
        begun = known.begun.get(node)
        if begun is None or cpu_seconds < begun.cpu_seconds or at <= begun.at:
            known.begun[node] = reading
            known.ended.pop(node, None)
        elif node not in known.ended and at - begun.at >= WINDOW:
            known.ended[node] = reading
        elif node in known.ended and at - known.ended[node].at > PATIENCE:
            known.begun[node] = reading
            del known.ended[node]

    def reported(
        self,
        *,
        topology: str,
        first: int,
        last: int,
        started: float,
        ended: float,
        work: Mapping[str, Work],
    ) -> None:
        """A driver's report of the job for epochs `first` to `last`: node -> what it did there, in all (not
        per second)."""
        known = self._topologies.setdefault(topology, _Topology())
        back = bool(known.jobs) and ended < known.jobs[-1].started
        if first > known.last_epoch + 1 or last < known.last_epoch or back:
            # A report is missing, another run of the topology has begun, or the clock was put back.
            known.jobs.clear()
            known.known_since = started
        known.last_epoch = last
        known.jobs.append(_Job(started, max(ended, started + 1e-3), work))

    def complete(self, topology: str) -> Iterator[tuple[str, Work, float]]:
        """Windows that have become complete: node, work per second, cores."""
        known = self._topologies.get(topology)
        if known is None or not known.jobs:
            return
        latest = known.jobs[-1].ended
        for node, end in sorted(known.ended.items()):
            if end.at > latest:
                continue
            begin = known.begun[node]
            known.begun[node] = end
            del known.ended[node]
            if begin.at < known.known_since:
                continue
            cores = (end.cpu_seconds - begin.cpu_seconds) / (end.at - begin.at)
            yield node, _per_second(known.jobs, node, begin.at, end.at), cores
        oldest = min((reading.at for reading in known.begun.values()), default=latest)
        while known.jobs and known.jobs[0].ended < oldest:
            known.jobs.popleft()

    def forget(self, *, node: str) -> None:
        """The node is gone: what was counted there is not continued."""
        for known in self._topologies.values():
            known.begun.pop(node, None)
            known.ended.pop(node, None)


def _per_second(jobs: deque[_Job], node: str, begin: float, end: float) -> Work:
    tasks = operators = tuples = 0.0
    for job in jobs:
        share = (min(job.ended, end) - max(job.started, begin)) / (job.ended - job.started)
        work = job.work.get(node)
        if share > 0.0 and work is not None:
            tasks += share * work.tasks
            operators += share * work.operators
            tuples += share * work.tuples
    seconds = end - begin
    return Work(tasks / seconds, operators / seconds, tuples / seconds)
