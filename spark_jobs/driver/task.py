"""What runs inside a Spark task: one level of the topology on one node, for a range of epochs.

A task first checks that it runs on the node its slot names. If Spark retried it elsewhere after a failure it
reports itself misplaced and emits nothing: its partitions are absent, and the job ends normally. Nothing is
ever recovered without a plan.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from controlplane.domain.topology import partition_directory, split_partition
from spark_jobs.driver.exchange import decode_table, encode_table, route
from spark_jobs.driver.job import (
    EpochPlan,
    Job,
    Layout,
    PartitionReport,
    TaskReport,
    decode_job,
    decode_layout,
)
from spark_jobs.driver.restore import restore_partition
from spark_jobs.operators.base import EpochContext, Operator
from spark_jobs.operators.catalogue import catalogue
from spark_jobs.runtime.partition import (
    Acknowledge,
    Batch,
    PartitionRuntime,
    Process,
    Processed,
    SnapshotRequest,
    inputs_in_order,
)
from spark_jobs.sinks.parquet import write_epoch
from spark_jobs.sources.registry import reader_create
from spark_jobs.state.snapshot import leave_snapshot
from spark_jobs.state.store import Manifest, StateStore

# (level, targets, source partition, epoch, Arrow IPC) or (-1, [], "", 0, encoded TaskReport)
Message = tuple[int, list[str], str, int, bytes]
REPORT = -1


class LevelTask:
    """The function of one stage: records of a slot in, records for slots out."""

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
            report = TaskReport(slot=slot, level=self.level, node=actual, misplaced=True)
            yield slot, (REPORT, [], "", 0, msgspec.json.encode(report))
            return
        level = _Level(self.level, slot, self.layout, self.job)
        for _, message in records:
            if message is None:
                continue
            if message[0] == self.level:
                level.deliver(message)
            else:
                yield slot, message
        yield from level.run()


class _Level:
    """The partitions of one level on one node."""

    def __init__(self, level: int, slot: int, layout: bytes, job: bytes) -> None:
        self.layout, self.topology = decode_layout(layout)
        self.job: Job = decode_job(job)
        self.level = level
        self.slot = slot
        self.arrived: dict[str, list[Batch[pa.Table | None]]] = {}
        self.decoded: dict[int, pa.Table | None] = {}
        self.out: list[tuple[int, Message]] = []
        self.home = Path(os.environ["NODE_HOME"])
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
        _, targets, source, epoch, payload = message
        batch = Batch(source, epoch, decode_table(payload))
        for target in targets:
            self.arrived.setdefault(target, []).append(batch)

    def run(self) -> Iterator[tuple[int, Message]]:
        reports: dict[str, PartitionReport] = {}
        for partition in self.topology.partitions:
            operator, _ = split_partition(partition)
            if self.layout.levels[operator] == self.level and self.layout.slots.get(partition) == self.slot:
                reports[partition] = self._run_partition(partition)
                yield from self.out
                self.out.clear()
        report = TaskReport(
            slot=self.slot, level=self.level, node=self.layout.nodes[self.slot], partitions=reports
        )
        yield self.slot, (REPORT, [], "", 0, msgspec.json.encode(report))

    def _run_partition(self, partition: str) -> PartitionReport:
        started = time.process_time()
        run = _PartitionRun(self, partition)
        error, hint = "", ""
        try:
            run.execute()
        except Exception as problem:  # a failing partition must not fail its neighbours in this task
            error = f"{type(problem).__name__}: {problem}"
            hint = getattr(problem, "hint", "")
        return PartitionReport(
            epoch=run.runtime.progress,
            cpu_seconds=time.process_time() - started,
            rows_in=run.rows_in,
            rows_out=run.rows_out,
            state_bytes=run.manifest.bytes if run.manifest else 0,
            error=error,
            hint=hint,
            waiting=[] if error or not run.runtime.inputs else run.waiting(),
        )

    def emit(self, partition: str, epoch: int, table: pa.Table | None) -> None:
        """Send one epoch's output: to the same level in memory, to the others through the exchange."""
        for targets, rows in route(self.topology, partition, table, self.operators):
            payload: bytes | None = None
            by_place: dict[tuple[int, int], list[str]] = {}
            for target in targets:
                level = self.layout.levels[split_partition(target)[0]]
                slot = self.layout.slots.get(target)
                if slot is None:
                    continue  # its node is lost; it replays from the source when it is planned again
                if level == self.level:
                    self.arrived.setdefault(target, []).append(Batch(partition, epoch, rows))
                else:
                    by_place.setdefault((level, slot), []).append(target)
            for (level, slot), members in by_place.items():
                if payload is None:
                    payload = encode_table(rows)
                self.out.append((slot, (level, members, partition, epoch, payload)))


class _PartitionRun:
    """Carries out the instructions of one partition's runtime."""

    def __init__(self, level: _Level, partition: str) -> None:
        self.level = level
        self.layout: Layout = level.layout
        self.job = level.job
        self.partition = partition
        self.name, self.index = split_partition(partition)
        self.operator = level.topology.by_name[self.name]
        state = level.home / "state" / self.layout.spec.name / partition_directory(partition)
        self.store = StateStore(state)
        self.runtime: PartitionRuntime[pa.Table | None] = PartitionRuntime(
            partition, level.topology.upstream(partition), self.job.progress.get(partition, 0)
        )
        self.epochs: dict[int, EpochPlan] = {plan.epoch: plan for plan in self.job.epochs}
        self.manifest: Manifest | None = None
        self.rows_in = 0
        self.rows_out = 0

    def execute(self) -> None:
        if self.partition in self.job.restore:
            checkpoint = self.job.restore[self.partition]
            restore_partition(self.store, self.layout, self.partition, checkpoint)
        self.manifest = self.store.manifest(self.runtime.progress)
        if self.job.checkpoint:
            self._carry_out(self.runtime.handle(SnapshotRequest(self.job.checkpoint)))
        if self.runtime.inputs:
            for batch in sorted(self.level.arrived.get(self.partition, ()), key=lambda batch: batch.epoch):
                self._carry_out(self.runtime.handle(batch))
        else:
            for plan in self.job.epochs:
                self._carry_out(self.runtime.start(plan.epoch))
        if self.job.trim_below:
            self.store.trim(below=self.job.trim_below, keep=self.job.keep)

    def waiting(self) -> list[str]:
        """The inputs that kept us from the last epoch of the job."""
        if not self.job.epochs or self.runtime.progress >= self.job.epochs[-1].epoch:
            return []
        return self.runtime.missing(self.runtime.progress + 1)

    def _carry_out(self, instructions: list[Any]) -> None:
        for instruction in instructions:
            if isinstance(instruction, Process):
                self._process(instruction)
            elif isinstance(instruction, Acknowledge):
                assert self.manifest is not None  # noqa: S101 - execute() read it
                leave_snapshot(
                    self.level.home,
                    self.layout.spec.name,
                    self.partition,
                    self.layout.generation,
                    self.manifest,
                )

    def _process(self, instruction: Process[pa.Table | None]) -> None:
        plan = self.epochs[instruction.epoch]
        assert self.manifest is not None  # noqa: S101 - execute() read it
        state = self.store.open(self.manifest)
        if self.runtime.inputs:
            tables = {
                name: [table for table in payloads if table is not None]
                for name, payloads in inputs_in_order(instruction.batches).items()
            }
            self.rows_in += sum(table.num_rows for group in tables.values() for table in group)
            context = EpochContext(plan.epoch, plan.watermark, plan.previous_watermark, plan.final)
            output = self.level.operators[self.name].process(context, tables, state)
        else:
            output = self._read_slice(plan)
            self.rows_in += output.num_rows if output is not None else 0
        self.rows_out += output.num_rows if output is not None else 0
        if self.operator.output:
            write_epoch(self.layout.outputs, self.layout.spec.name, self.name, self.index, plan.epoch, output)
        self.manifest = self.store.commit(state, epoch=plan.epoch, generation=self.layout.generation)
        self.level.emit(self.partition, plan.epoch, output)
        self._carry_out(self.runtime.handle(Processed(plan.epoch)))

    def _read_slice(self, plan: EpochPlan) -> pa.Table | None:
        start, end = plan.slices[self.name]
        reader: Any = reader_create(
            self.operator.params, self.layout.readers[self.name], self.layout.operator_modules
        )
        slices = reader.partitions(start, end)
        if not slices:
            return None
        batches = [batch for batch in reader.read(slices[self.index]) if batch.num_rows]
        table: pa.Table | None = pa.Table.from_batches(batches) if batches else None
        return table
