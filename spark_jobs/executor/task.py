"""What runs inside a Spark task: one level of the topology on one node, for the lanes of one job.

A task first checks that it runs on the node its slot names. If Spark retried it elsewhere after a failure it
reports itself misplaced and emits nothing: its partitions are absent, and the job ends normally. Nothing is
ever recovered without a plan.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa

from domain.execution.job import (
    Job,
    LaneWork,
    PartitionReport,
    TaskReport,
    decode_job,
    decode_layout,
)
from domain.execution.partition import Batch
from domain.topology import split_partition
from spark_jobs.executor.exchange import decode_table, encode_table, route
from spark_jobs.executor.partition_run import PartitionRun
from spark_jobs.operators.base import Operator
from spark_jobs.operators.catalogue import catalogue
from spark_jobs.state.buffers import OutputBuffers

# (level, lane, targets, source partition, epoch, Arrow IPC) or (-1, 0, [], "", 0, encoded TaskReport)
Message = tuple[int, int, list[str], str, int, bytes]
REPORT = -1


def _message(report: TaskReport) -> tuple[int, Message]:
    return report.slot, (REPORT, 0, [], "", 0, msgspec.json.encode(report))


class Level:
    """The partitions of one level on one node."""

    def __init__(self, level: int, slot: int, layout: bytes, job: bytes) -> None:
        self.layout, self.topology = decode_layout(layout)
        self.job: Job = decode_job(job)
        self.level = level
        self.slot = slot
        self.arrived: dict[tuple[int, str], list[Batch[pa.Table | None]]] = {}
        self.out: list[tuple[int, Message]] = []
        self.home = Path(os.environ["NODE_HOME"])
        self.buffers = OutputBuffers(self.home, self.topology.name)
        self.operators: dict[str, Operator] = {
            operator.name: catalogue.create(
                operator.kind,
                operator.params,
                [stream.source for stream in operator.inputs],
                self.layout.operator_modules,
            )
            for operator in self.topology.operators
            if operator.inputs
        }

    def deliver(self, message: Message) -> None:
        _, lane, targets, source, epoch, payload = message
        batch = Batch(source, epoch, decode_table(payload))
        for target in targets:
            self.arrived.setdefault((lane, target), []).append(batch)

    def run(self) -> Iterator[tuple[int, Message]]:
        mine = [
            partition
            for partition in self.topology.partitions
            if self.layout.levels[split_partition(partition)[0]] == self.level
            and self.layout.slots.get(partition) == self.slot
        ]
        if self.job.drop_buffers and self.level == 0:
            self.buffers.drop()
        reports: dict[str, PartitionReport] = {}
        forks: dict[str, str] = {}
        unbuffered: list[str] = []
        # The lane of those furthest ahead comes first; what it needs of a partition's state stays untouched.
        replaying = 0.0
        for number, lane in enumerate(self.job.lanes):
            started = time.perf_counter()
            for partition in mine:
                if partition in lane.serves and not self._serve(number, lane, partition):
                    unbuffered.append(partition)
                if partition in lane.starts:
                    run = PartitionRun(self, number, partition)
                    report = run.execute()
                    if run.advances:
                        reports[partition] = report
                    elif report.error:
                        forks[partition] = report.error
                yield from self.out
                self.out.clear()
            replaying += time.perf_counter() - started if number else 0.0
        for partition in mine:
            self._keep_house(partition, reports)
        yield _message(
            TaskReport(
                slot=self.slot,
                level=self.level,
                node=self.layout.nodes[self.slot],
                partitions=reports,
                forks=forks,
                unbuffered=unbuffered,
                replaying=replaying,
            )
        )

    def _keep_house(self, partition: str, reports: dict[str, PartitionReport]) -> None:
        """Acknowledge a checkpoint that needed no further epoch, and trim. What goes wrong is reported."""
        idle = partition not in reports
        if not (self.job.trim_below or (idle and self.job.checkpoint)):
            return
        run = PartitionRun(self, None, partition)
        problem = run.keep_house(acknowledge=idle)
        if problem is not None:
            reports[partition] = problem

    def _serve(self, number: int, lane: LaneWork, partition: str) -> bool:
        """Send what the partition buffered; False if that is not there."""
        complete = True
        for target in lane.serves[partition]:
            passed = min(self.job.progress[partition], lane.last)
            for epoch in range(lane.starts[target] + 1, passed + 1):
                try:
                    payload = self.buffers.read(partition, target, epoch)
                except OSError:
                    complete = False
                    break
                self._send(number, [target], partition, epoch, payload)
        return complete

    def emit(self, number: int, partition: str, epoch: int, table: pa.Table | None) -> None:
        """One epoch's output: to those in the lane who need it; to a buffer for those who will."""
        lane, progress = self.job.lanes[number], self.job.progress
        for targets, rows in route(self.topology, partition, table, self.operators):
            following = [t for t in targets if epoch > lane.starts.get(t, epoch)]
            waiting = [t for t in targets if t not in lane.starts and epoch > progress[t]]
            waiting = waiting if self.job.buffering else []
            if not following and not waiting:
                continue
            nearby = [t for t in following if self._is_here(t)]
            for target in nearby:
                self.arrived.setdefault((number, target), []).append(Batch(partition, epoch, rows))
            if len(nearby) < len(following) or waiting:
                payload = encode_table(rows)
                self._send(number, [t for t in following if t not in nearby], partition, epoch, payload)
                for target in waiting:
                    self.buffers.append(partition, target, epoch, payload)

    def _is_here(self, target: str) -> bool:
        """Whether the target runs in this very task."""
        here = self.layout.slots.get(target) == self.slot
        return here and self.layout.levels[split_partition(target)[0]] == self.level

    def _send(self, number: int, targets: list[str], source: str, epoch: int, payload: bytes) -> None:
        """Through the exchange, or directly to a partition of the same task."""
        by_place: dict[tuple[int, int], list[str]] = {}
        for target in targets:
            if self._is_here(target):
                batch = Batch(source, epoch, decode_table(payload))
                self.arrived.setdefault((number, target), []).append(batch)
                continue
            slot = self.layout.slots.get(target)
            if slot is not None:
                level = self.layout.levels[split_partition(target)[0]]
                by_place.setdefault((level, slot), []).append(target)
        for (level, slot), members in by_place.items():
            self.out.append((slot, (level, number, members, source, epoch, payload)))


class LevelTask:
    """The function of one stage: records of a slot in, records for slots out."""

    level_class = Level

    def __init__(self, level: int, layout: bytes, job: bytes) -> None:
        self.level = level
        self.layout = layout
        self.job = job

    def __call__(
        self, slot: int, records: Iterator[tuple[int, Message | None]]
    ) -> Iterator[tuple[int, Message]]:
        layout, _ = decode_layout(self.layout)
        actual = os.environ.get("NODE_ID", "")
        if actual != layout.nodes[slot]:
            # Drain the input all the same, so that Spark sees the task end in order.
            for _ in records:
                pass
            yield _message(TaskReport(slot=slot, level=self.level, node=actual, misplaced=True))
            return
        level = self.level_class(self.level, slot, self.layout, self.job)
        for _, message in records:
            if message is None:
                continue
            if message[0] == self.level:
                level.deliver(message)
            else:
                yield slot, message
        yield from level.run()
