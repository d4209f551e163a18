"""What runs inside a Spark task: one level of the topology on one node, for the lane of one job.

A task first checks that it runs on the node its slot names. If Spark retried it elsewhere after a failure it
reports itself misplaced and emits nothing: its partitions are absent, and the job ends normally. Nothing is
ever recovered without a plan.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator

import msgspec
from pyspark import TaskContext

from domain.execution.footprint import RETURNS, Footprint
from domain.execution.job import (
    KeeperStatus,
    PartitionReport,
    TaskReport,
    decode_layout,
)
from domain.execution.lanes import Lane, Serving
from spark_jobs.executor.level_context import LevelContext, Message
from spark_jobs.executor.loaded import set_apart
from spark_jobs.executor.partition_run import PartitionRun, described
from spark_jobs.executor.present import present_at_work
from spark_jobs.executor.returning import Returning
from spark_jobs.executor.spare_time import in_spare_time
from spark_jobs.state.key_requests import KeyDesk

REPORT = -1
"""The level in a message that holds an encoded `TaskReport`."""


def begun_before() -> bool:
    """Whether Spark had begun this task before, in the same attempt of its stage."""
    context = TaskContext.get()
    return context is not None and context.attemptNumber() > 0


def report_message(report: TaskReport) -> tuple[int, Message]:
    """A report as a record of the exchange; it travels to the driver with the last stage."""
    return report.slot, (REPORT, [], "", 0, msgspec.json.encode(report))


class Level(LevelContext):
    """The partitions of one level on one node."""

    def run(self) -> Iterator[tuple[int, Message]]:
        mine = [
            partition
            for partition in self.topology.partitions
            if self.layout.slots.get(partition) == self.slot and self.layout.levels[partition] == self.level
        ]
        if self.job.drop_buffers and self.level == 0:
            self.buffers.drop()
        reports: dict[str, PartitionReport] = {}
        forks: dict[str, str] = {}
        lost: list[str] = []
        unbuffered: list[str] = []
        cpu_seconds, tuples = 0.0, 0
        started = time.perf_counter()
        lane = self.job.lane or Lane(1, 0, {})
        kept = lane.serves.get(self.layout.nodes[self.slot], {})
        for partition in lane.returns if self.level == RETURNS else ():
            if self.layout.slots.get(partition) == self.slot:
                returned = Returning(self, lane, partition)
                if not returned.execute():
                    forks[partition] = returned.error
                    lost += [partition] * returned.missing
                yield from self.out
                self.out.clear()
        for partition in self.topology.partitions:
            if partition in kept and self.layout.levels[partition] == self.level:
                if not self._serve(partition, kept[partition]):
                    unbuffered.append(partition)
                yield from self.out
                self.out.clear()
        for partition in mine:
            if partition in lane.starts:
                run = PartitionRun(self, lane, partition)
                report = run.execute()
                cpu_seconds += report.cpu_seconds
                tuples += report.rows_in + report.rows_out
                if run.advances:
                    reports[partition] = report
                elif report.error:
                    forks[partition] = report.error
                    if report.missing:
                        lost.append(partition)
            yield from self.out
            self.out.clear()
        self._settle(reports)
        working = time.perf_counter() - started
        for partition in mine:
            self._keep_house(partition, reports)
        yield report_message(
            TaskReport(
                slot=self.slot,
                level=self.level,
                node=self.layout.nodes[self.slot],
                repeated=begun_before(),
                partitions=reports,
                forks=forks,
                lost=lost,
                unbuffered=unbuffered,
                working=working,
                cpu_seconds=cpu_seconds,
                tuples=tuples,
                keeper=self._keeper(),
            )
        )

    def _keeper(self) -> KeeperStatus | None:
        if not self.layout.spec.bounded:
            return None
        return KeyDesk(self.home, self.layout.spec.name, self.layout.deployed).status()

    def _settle(self, reports: dict[str, PartitionReport]) -> None:
        """A partition is as far as its outputs are in their places."""
        for partition, (epoch, failure) in self.outputs.settle().items():
            report = reports[partition]
            told = (report.error, report.hint) if report.error else described(failure)
            reports[partition] = msgspec.structs.replace(
                report, epoch=min(report.epoch, epoch - 1), error=told[0], hint=told[1]
            )

    def _keep_house(self, partition: str, reports: dict[str, PartitionReport]) -> None:
        """Acknowledge a checkpoint that needed no further epoch, and trim. What goes wrong is reported."""
        if partition not in self.job.progress:
            return  # a copy that has ended since tasks were placed has its slot still
        idle = partition not in reports
        if not (self.job.trim_below or (idle and (self.job.checkpoint or self.job.save))):
            return
        run = PartitionRun(self, None, partition)
        problem = run.keep_house(acknowledge=idle)
        if problem is not None:
            reports[partition] = problem

    def _serve(self, partition: str, kept: Collection[Serving]) -> bool:
        """Send what the partition buffered on this node, where it may no longer be; False if that is not
        there."""
        complete = True
        for first, last, wanted in kept:
            targets = list(wanted)
            for epoch in range(first, last + 1):
                for alike in self.buffers.alike(partition, targets, epoch):
                    self.give_way()
                    try:
                        payload = self.buffers.read(partition, alike[0], epoch)
                    except OSError:
                        complete = False
                        targets = [target for target in targets if target not in alike]
                        continue
                    self._send(alike, partition, epoch, payload)
        return complete


class LevelTask:
    """The function of one stage of a job: records of a slot in, records for slots out. Records are keyed by
    the position of their slot in the footprint."""

    level_class = Level

    def __init__(self, level: int, layout: bytes, job: bytes, footprint: Footprint) -> None:
        self.level = level
        self.layout = layout
        self.job = job
        self.footprint = footprint

    def __call__(
        self, position: int, records: Iterator[tuple[int, Message | None]]
    ) -> Iterator[tuple[int, Message]]:
        layout, _ = decode_layout(self.layout)
        slot = self.footprint.slots[position]
        actual = os.environ.get("NODE_ID", "")
        if actual != layout.nodes[slot]:
            # Drain the input all the same, so that Spark sees the task end in order.
            for _ in records:
                pass
            report = TaskReport(
                slot=slot, level=self.level, node=actual, misplaced=True, repeated=begun_before()
            )
            yield position, report_message(report)[1]
            return
        level = self.level_class(self.level, slot, self.layout, self.job)
        for _, message in records:
            if message is None:
                continue
            if message[0] == self.level:
                level.deliver(message)
            else:
                yield position, message
        positions = {slot: position for position, slot in enumerate(self.footprint.slots)}
        if level.job.spare:
            for target, message in in_spare_time(level.run):
                yield positions[target], message
        else:
            with present_at_work(level.home):
                for target, message in level.run():
                    yield positions[target], message
        set_apart()
