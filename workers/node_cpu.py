"""What nodes take and what they do for it, brought together: heartbeats come to the node watch, reports of
jobs to the ingestion, both of them threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from controlplane.lifecycle.capacity import Measured, node_samples_record
from controlplane.topologies.capacity import cpu_model_learn
from domain.capacity import Work, WorkWindows
from domain.messages import EpochReport, NodeStats

SAMPLE_EVERY = 10.0
"""Seconds that a sample of a node covers."""


@dataclass(slots=True)
class _Count:
    at: float
    all: float
    own: float
    throttled: float = 0.0
    heartbeats: int = 0


class NodeCpu:
    """Thread-safe. Times are Unix seconds. Raises `DatabaseError`; what could not be stored is dropped, since
    newer measurements follow."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._windows = WorkWindows()
        self._counts: dict[str, _Count] = {}
        self._latest: dict[str, float] = {}
        self._tasks: dict[str, float] = {}

    def report(self, report: EpochReport) -> None:
        work = {
            node: Work(tasks=one.tasks, operators=one.cpu_seconds, tuples=one.tuples)
            for node, one in report.work.items()
        }
        with self._guard:
            self._windows.reported(
                topology=report.topology,
                first=report.first,
                last=report.last,
                started=report.started_at,
                ended=report.ended_at,
                work=work,
            )
            if work and report.epoch_interval > 0.0:
                most = max(one.tasks for one in work.values())
                self._tasks[report.topology] = most / report.epoch_interval

    def heartbeats(self, stats: Collection[NodeStats]) -> None:
        """The newest heartbeats of all nodes there are; one that was seen already does nothing."""
        measured: dict[str, Measured] = {}
        latest = 0.0
        with self._guard:
            for gone in self._counts.keys() - {one.id for one in stats}:
                self._windows.forget(node=gone)
                del self._counts[gone], self._latest[gone]
            for one in stats:
                if self._latest.get(one.id) == one.at:
                    continue
                if self._latest.get(one.id, 0.0) > one.at:  # its clock was put back: begin anew
                    self._windows.forget(node=one.id)
                    self._counts.pop(one.id, None)
                self._latest[one.id] = latest = one.at
                for topology, seconds in one.cpu_seconds.items():
                    self._windows.read(topology=topology, node=one.id, at=one.at, cpu_seconds=seconds)
                sample = self._sample(one)
                if sample is not None:
                    measured[one.id] = sample
            learned = {
                topology: ([(work, cores) for _, work, cores in self._windows.complete(topology)], tasks)
                for topology, tasks in self._tasks.items()
            }
        for topology, (windows, tasks) in learned.items():
            if windows:
                cpu_model_learn(topology=topology, windows=windows, tasks=tasks, at=latest)
        if measured:
            node_samples_record(measured=measured, at=datetime.fromtimestamp(latest, tz=UTC))

    def _sample(self, one: NodeStats) -> Measured | None:
        """What the node took since its last sample, if that is long enough ago."""
        total = sum(one.cpu_seconds.values()) + one.own_cpu_seconds
        since = self._counts.get(one.id)
        if since is None or total < since.all:  # a new agent counts from zero
            self._counts[one.id] = _Count(one.at, total, one.own_cpu_seconds)
            return None
        since.throttled += one.throttled
        since.heartbeats += 1
        seconds = one.at - since.at
        if seconds < SAMPLE_EVERY:
            return None
        self._counts[one.id] = _Count(one.at, total, one.own_cpu_seconds)
        return Measured(
            cpu_percent=100.0 * (total - since.all) / seconds,
            agent_percent=100.0 * (one.own_cpu_seconds - since.own) / seconds,
            throttled=since.throttled / since.heartbeats,
            topologies=one.topologies,
        )


node_cpu = NodeCpu()
"""That of this process."""
