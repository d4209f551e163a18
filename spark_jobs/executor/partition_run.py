"""Carrying out the instructions of one partition's runtime: state, operator, sink, snapshot."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from domain.execution.job import EpochPlan, KeyCounts, LateRow, Layout, PartitionReport
from domain.execution.lanes import Lane
from domain.execution.partition import (
    Acknowledge,
    PartitionRuntime,
    Process,
    Processed,
    SnapshotRequest,
    inputs_in_order,
)
from domain.topology import split_partition
from domain.topology.copies import branch_of, is_branch, is_copy, partition_of
from spark_jobs.executor.exchange import routed_count
from spark_jobs.executor.key_saving import KeySaving
from spark_jobs.executor.level_context import LevelContext
from spark_jobs.executor.restore import RestoreError
from spark_jobs.operators.base import EpochContext
from spark_jobs.operators.failing_row import failing_row
from spark_jobs.operators.masking import error_masked
from spark_jobs.sources.lateness import LISTED, late_rows_cut, may_be_late
from spark_jobs.state.late import event_time_note, greatest_event_time, leave_out, left_out
from spark_jobs.state.store import Manifest, StateMissingError
from spark_jobs.state.tables import StateTables

LONGEST_TOLD: Final = 2_000
"""Characters of an error, which may quote a row of any length: it goes through ZooKeeper, Redis and pages."""


class PartitionRun:
    """One partition in a lane. Epochs up to its progress are a fork: computed again from an older manifest,
    in memory, for those who missed their outputs; nothing is written. `lane` None: housekeeping only."""

    def __init__(self, level: LevelContext, lane: Lane | None, partition: str) -> None:
        self.level = level
        self.lane = lane
        self.layout: Layout = level.layout
        self.job = level.job
        self.partition = partition
        self.name, _ = split_partition(partition_of(partition))
        # It takes no part in checkpoints. A shadow gives no rows, a branch tentative ones, to other branches.
        self.copy, self.branch = is_copy(partition), is_branch(partition)
        self.operator = level.topology.by_name[self.name]
        self.storage = level.storage(partition)
        self.store = self.storage.store
        self.applied = self.job.progress[partition]
        start = lane.starts[partition] if lane is not None else self.applied
        self.advances = lane is not None and lane.end(partition) > self.applied
        inputs = level.topology.upstream(partition)
        self.bounded = self.layout.spec.bounded
        if (self.branch or self.bounded) and lane is not None:
            # Barriers of inputs that do not run are implied.
            inputs = [name for name in inputs if name in lane.starts]
        self.runtime: PartitionRuntime[pa.Table | None] = PartitionRuntime(partition, inputs, start)
        self.epochs: dict[int, EpochPlan] = {}
        if lane is not None:
            last = lane.end(partition)
            self.epochs = {plan.epoch: plan for plan in self.job.epochs if start < plan.epoch <= last}
        self.manifest: Manifest | None = None
        self.fork: StateTables | None = None
        self.rows_in = 0
        self.rows_out = 0
        self.routed: dict[str, list[int]] = {}
        self.late = 0
        self.late_rows: list[LateRow] = []
        self.event_time: int | None = None
        self.sends_back = partition_of(partition) in level.topology.fed_back
        self.sent_back = 0
        self.failed_on = ""
        self.failed: tuple[str, str] | None = None
        self.saving = level.key_saving(partition)
        self.lost_rows = 0

    def execute(self) -> PartitionReport:
        """Run the epochs of the lane; what goes wrong here must not fail the neighbours in this task."""
        started = time.process_time()
        error, hint, missing, instead, row = "", "", False, None, ""
        try:
            self._run()
        except Exception as problem:
            # Not before masked values were replaced: of a part, none would be known again.
            error, hint = map(shortened, self.failed or described(problem))
            missing, instead = isinstance(problem, StateMissingError), self._instead(problem)
            row = self.failed_on
            self._imply_barriers()
        return PartitionReport(
            epoch=self.runtime.progress,
            cpu_seconds=time.process_time() - started,
            rows_in=self.rows_in,
            rows_out=self.rows_out,
            state_bytes=self.manifest.bytes if self.manifest else 0,
            error=error,
            hint=hint,
            row=row,
            missing=missing,
            instead=instead,
            late=self.late,
            late_rows=self.late_rows[:LISTED],
            event_time=self.event_time,
            routed=self.routed,
            sent_back=self.sent_back,
            keys=self._key_counts(),
        )

    def _imply_barriers(self) -> None:
        """Where the guarantee is bounded, those that read from a partition which fails go on without it."""
        if not self.bounded or self.lane is None:
            return
        for epoch in range(self.runtime.progress + 1, self.lane.end(self.partition) + 1):
            self.level.emit(self.lane, self.partition, epoch, None)

    def _key_counts(self) -> KeyCounts | None:
        if not self.bounded:
            return None
        counts = self.saving.counts if self.saving is not None else KeyCounts()
        return counts.plus(KeyCounts(lost_rows=self.lost_rows))

    def keep_house(self, *, acknowledge: bool) -> PartitionReport | None:
        """Acknowledge the checkpoint the job asks for, if the state is that far, and trim what is older than
        the job says. A report only of what went wrong."""
        try:
            if acknowledge and not self.copy and self.job.checkpoint == self.applied:
                self._restore()
                self.manifest = self.store.manifest(self.applied)
                self._carry_out(self.runtime.handle(SnapshotRequest(self.job.checkpoint)))
            if self.job.save and self.saving is not None and self.partition not in self.job.restore:
                self._save_all(self.saving)
            if self.job.trim_below and not self.branch:
                self.store.trim(below=self.job.trim_below, keep=self.job.keep)
                if branch_of(partition_of(self.partition)) not in self.job.progress:
                    self.storage.end_branch()
        except Exception as problem:
            error, hint = map(shortened, described(problem))
            missing = isinstance(problem, StateMissingError)
            return PartitionReport(
                epoch=self.applied, error=error, hint=hint, missing=missing, instead=self._instead(problem)
            )
        return None

    def _save_all(self, saving: KeySaving) -> None:
        """Have all changed keys stored; the state then says that they are."""
        self.storage.settle_keys(self.applied)
        state = self.store.open(self.store.manifest(self.applied))
        keys = saving.all_changed(state)
        if keys:
            manifest = self.store.commit(state, epoch=self.applied, generation=self.layout.generation)
            self._save(saving, manifest, keys, counts=True)

    def _save(self, saving: KeySaving, manifest: Manifest, keys: Sequence[str], *, counts: bool) -> None:
        self.storage.save_keys(manifest, keys, counts=counts)
        saving.requested(keys)

    def _instead(self, problem: Exception) -> int | None:
        """See `PartitionReport`; None unless a damaged checkpoint is the problem."""
        if not (isinstance(problem, RestoreError) and problem.damaged):
            return None
        return next((one for one in sorted(self.job.older, reverse=True) if self.storage.whole(one)), -1)

    def _run(self) -> None:
        self._restore()
        # A branch may lack epochs that have passed.
        self.manifest = self.store.manifest(self.applied if self.branch else self.runtime.progress)
        if self.job.checkpoint and self.advances and not self.copy:
            self._carry_out(self.runtime.handle(SnapshotRequest(self.job.checkpoint)))
        if self.runtime.inputs:
            arrived = self.level.arrived.get(self.partition, ())
            for batch in sorted(arrived, key=lambda batch: batch.epoch):
                self._carry_out(self.runtime.handle(batch))
        else:
            for epoch in sorted(self.epochs):
                self._carry_out(self.runtime.start(epoch))

    def _restore(self) -> None:
        if self.partition in self.job.origins:
            self.storage.begin_branch(self.job.origins[self.partition])
        elif self.branch:
            self.store.trim(below=self.applied)
        if self.bounded:
            self._go_on()
            return
        if self.partition in self.job.restore:
            self.storage.restore(self.job.restore[self.partition])
            if not self.copy:
                self.level.buffers.clear(self.partition)

    def _go_on(self) -> None:
        """Where the guarantee is bounded: in the present, with the state that there is."""
        if self.saving is not None:
            self.storage.settle_keys(self.applied)
        if self.partition in self.job.restore:
            self.storage.go_on(self.job.restore[self.partition], self.applied)

    def _carry_out(self, instructions: list[Any]) -> None:
        for instruction in instructions:
            if isinstance(instruction, Process):
                self._process(instruction)
            elif isinstance(instruction, Acknowledge):
                assert self.manifest is not None  # noqa: S101 - read before anything was handled
                self.storage.snapshot(self.manifest)

    def _process(self, instruction: Process[pa.Table | None]) -> None:
        self.level.give_way()
        plan = self.epochs[instruction.epoch]
        is_new = plan.epoch > self.applied
        state = self._state(is_new=is_new)
        output = self._compute(plan, instruction, state)
        if is_new:
            self.rows_out += output.num_rows if output is not None else 0
            self.late, self.event_time = left_out(state), greatest_event_time(state)
            due = self._changed(plan, instruction, state)
            if self.sends_back:
                state.send_back(output)
                self.sent_back = output.num_rows if output is not None else 0
            if self.operator.output and self.branch:
                fidelity = self.job.fidelity.get(partition_of(self.partition), 0.0)
                self.storage.write_tentative(plan.epoch, output, fidelity)
            elif self.operator.output and not self.copy:
                self.storage.write(plan.epoch, output)
            self.manifest = self.store.commit(
                state,
                epoch=plan.epoch,
                generation=self.layout.generation,
            )
            if due and self.saving is not None:
                self._save(self.saving, self.manifest, due, counts=False)
            if not self.copy:
                self.storage.sample(plan.epoch, output)
        assert self.lane is not None  # noqa: S101 - only a lane has epochs
        if self.branch or not self.copy:
            lost = self.level.lost_rows
            routed = self.level.emit(self.lane, self.partition, plan.epoch, output)
            self.lost_rows += self.level.lost_rows - lost
            if is_new and not self.copy:  # what a fork routes was counted when it was new
                routed_count(self.level.topology, self.partition, output, routed, self.routed)
        self._carry_out(self.runtime.handle(Processed(plan.epoch)))

    def _state(self, *, is_new: bool) -> StateTables:
        """A fork goes on with the state in memory; where it ends, the state on disk takes over."""
        assert self.manifest is not None  # noqa: S101 - read before anything was handled
        if not is_new:
            self.fork = self.fork or self.store.open(self.manifest)
            return self.fork
        if self.fork is not None:
            self.fork = None
            self.manifest = self.store.manifest(self.applied)
        return self.store.open(self.manifest)

    def _compute(
        self, plan: EpochPlan, instruction: Process[pa.Table | None], state: StateTables
    ) -> pa.Table | None:
        if not self.operator.inputs:
            output = self.storage.read(plan)
            self.rows_in += output.num_rows if output is not None else 0
            if output is None or not may_be_late(self.operator.params):
                return output
            return self._cut(output, plan, state)
        tables = self._arrived(instruction)
        self.rows_in += sum(table.num_rows for group in tables.values() for table in group)
        context = EpochContext(plan.epoch, plan.watermark, plan.previous_watermark, plan.final)
        operator = self.level.operators[self.name]
        if self.saving is not None:
            self.saving.recall(context, tables, state)
        started = time.perf_counter()
        try:
            return operator.process(context, tables, state)
        except Exception as problem:
            key = (
                self.layout.spec.name,
                self.layout.deployed,
                self.partition,
                plan.epoch,
                shortened(str(problem)),
            )
            self.failed_on = failing_row(
                key,
                self.operator.kind,
                tables,
                lambda rows: operator.process(context, rows, StateTables({}, {}, {})),
                problem,
                time.perf_counter() - started,
                self.layout.masked,
            )
            self.failed = error_masked(described(problem), tables, self.layout.masked)
            raise

    def _arrived(self, instruction: Process[pa.Table | None]) -> dict[str, list[pa.Table]]:
        """The rows of an epoch by input, in the order of its partitions."""
        tables: dict[str, list[pa.Table]] = {stream.source: [] for stream in self.operator.inputs}
        for name, payloads in inputs_in_order(instruction.batches).items():
            tables[name] = [table for table in payloads if table is not None]
        return tables

    def _changed(
        self, plan: EpochPlan, instruction: Process[pa.Table | None], state: StateTables
    ) -> list[str]:
        """The keys that are to be stored after this epoch."""
        if self.saving is None:
            return []
        return self.saving.changed(plan, self._arrived(instruction), state)

    def _cut(self, read: pa.Table, plan: EpochPlan, state: StateTables) -> pa.Table:
        """What a source read without its late rows. A fork cuts the same, and reports nothing."""
        cut = late_rows_cut(read, plan)
        leave_out(state, cut.late)
        if cut.newest is not None:
            event_time_note(state, cut.newest)
        if plan.epoch > self.applied:
            self.late_rows += cut.listed
        return cut.rows


def described(problem: Exception) -> tuple[str, str]:
    return f"{type(problem).__name__}: {problem}", getattr(problem, "hint", "")


def shortened(text: str) -> str:
    """Without its middle, where it is long."""
    if len(text) <= LONGEST_TOLD:
        return text
    return f"{text[: LONGEST_TOLD - 300]} [...] {text[-200:]}"
