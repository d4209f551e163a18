"""The job that replays beside those of the present, and what it computed that was not told yet. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from domain.execution.job import PartitionReport, RunJob, TaskReport

GATHER = 10.0
"""Seconds that a replay waits at most, after a plan, for partitions whose node is about to work."""


@dataclass(frozen=True, slots=True)
class Running:
    """A job under way since `started`. `punctuated`: its last epoch is a checkpoint, in answer to requests up
    to `request`."""

    job: RunJob
    started: float
    last: int = 0
    punctuated: bool = False
    request: int = 0


@dataclass(slots=True)
class Replayed:
    """What jobs replayed since the last report: epochs, since when, the reports of their tasks, and the
    epochs of the partitions before."""

    epochs: int = 0
    since: float = 0.0
    reports: list[TaskReport] = field(default_factory=list)
    before: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Replay:
    """`running`: the job under way. void: it began before something that makes its results untrue, so they
    are not taken. told: it was told to end. not_before: when the next may begin. failures: jobs in a row that
    Spark gave up. credit: epochs of the present that may run for those replayed, where replay comes first.
    gathering_since: when, since the newest plan, one first waited for partitions whose node is about to work.
    """

    running: Running | None = None
    void: bool = False
    told: bool = False
    not_before: float = float("-inf")
    failures: int = 0
    credit: float = 0.0
    gathering_since: float | None = None
    replayed: Replayed = field(default_factory=Replayed)

    def advancing(self) -> frozenset[str]:
        """Partitions that the job under way brings nearer; those of the present do not. The others that run
        in it compute old epochs again for them, in forks."""
        if self.running is None or self.running.job.lane is None:
            return frozenset()
        lane, progress = self.running.job.lane, self.running.job.progress
        return frozenset(partition for partition in lane.starts if lane.end(partition) > progress[partition])

    def gather_anew(self) -> None:
        """There is a new plan, with nodes of its own."""
        self.gathering_since = None

    def gathers(self, at: float) -> bool:
        """Whether to wait for partitions whose node is about to work."""
        if self.gathering_since is None:
            self.gathering_since = at
        return at < self.gathering_since + GATHER

    def begin(self, job: RunJob, at: float) -> None:
        self.running, self.void, self.told = Running(job, at), False, False

    def end(self) -> Running:
        """The job is over."""
        running, self.running = self.running, None
        assert running is not None  # noqa: S101 - one was told to run
        return running

    def ended(self, running: Running, reports: Sequence[TaskReport]) -> None:
        """It ran to its end; the next report tells of it."""
        lane, replayed = running.job.lane, self.replayed
        if not replayed.epochs:
            replayed.since = running.started
        replayed.epochs += lane.epochs if lane is not None else 0
        replayed.reports += reports
        for report in reports:
            for partition in report.partitions:
                replayed.before.setdefault(partition, running.job.progress[partition])

    def taken(self) -> Replayed:
        """What is to be told now."""
        replayed, self.replayed = self.replayed, Replayed()
        return replayed


def reached(results: Mapping[str, PartitionReport], before: Mapping[str, int]) -> dict[str, int]:
    """The last epoch applied by each partition that advanced. before: the progress its task was told."""
    return {p: one.epoch for p, one in results.items() if not one.error or one.epoch > before[p]}
