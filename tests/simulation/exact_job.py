"""One Spark job of the exact simulation: the product's partition runs, with messages passed in memory."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec

from domain.execution.job import PartitionReport, RunJob, TaskReport
from domain.execution.lanes import Lane, Serving
from domain.execution.partition import Batch
from domain.messages import Plan
from domain.topology import split_partition
from domain.topology.copies import is_branch, is_copy, is_shadow, partition_of
from spark_jobs.executor.exchange import Routed
from spark_jobs.executor.partition_run import PartitionRun
from spark_jobs.executor.returning import Returning
from tests.simulation.exact_disk import Kept, MemoryStorage
from tests.simulation.exact_symbols import Sent, SymbolicOperator

if TYPE_CHECKING:
    from tests.simulation.exact_run import ExactRun


class TaskDiedError(BaseException):
    """The executor that runs the task dies here, perhaps with its node."""


class MemoryJob:
    """Gives `PartitionRun` the interface of `spark_jobs.executor.task.Level`, for all partitions at once."""

    def __init__(self, run: ExactRun, told: RunJob, plan: Plan) -> None:
        self.outer, self.plan = run, plan
        self.topology, self.rng = run.machine.tracker.graph, run.rng
        plans = run.outside.log.plans
        self.lane = told.lane
        wanted = range(told.lane.first, told.lane.last + 1) if told.lane is not None else ()
        self.job: Any = SimpleNamespace(
            **msgspec.structs.asdict(told),
            epochs=[plans[epoch] for epoch in wanted],
        )
        self.layout = SimpleNamespace(spec=run.topology.spec, generation=plan.generation)
        self.arrived: dict[str, list[Batch[Sent]]] = {}
        self.buffers = SimpleNamespace(clear=self._clear_buffers)
        self.operators: dict[str, Any] = {}
        self.lost_rows = 0
        self.replayed = 0
        self.disturbed = False
        # Nodes without the executor that the job began with.
        self._gone: set[str] = set()
        self._reports: dict[str, PartitionReport] = {}
        self._forks: dict[str, str] = {}
        self._lost: list[str] = []
        self._unbuffered: set[str] = set()
        # Partitions that have sent what is on their feedback streams.
        self._returned: list[str] = []
        self._check_consumed()

    def _check_consumed(self) -> None:
        """Unless operators are deterministic, nothing is computed again that others have consumed."""
        if self.lane is None or self.topology.deterministic:
            return
        for partition, start in self.lane.starts.items():
            returned = self.topology.fed_back.get(partition, ())
            for target in self.topology.downstream(partition):
                consumed = self.job.progress[target] - (target in returned)
                assert start >= consumed, f"{target} has consumed what {partition} computes again"

    def give_way(self) -> None:
        """A task of the simulation has its node for itself."""

    def key_saving(self, partition: str) -> None:
        """The guarantee is exact."""

    def run(self) -> Generator[None, None, tuple[list[TaskReport], bool]]:
        """The reports of the tasks, and whether an executor was lost; it stops after each task."""
        before = set(self.outer.disks)
        if self.job.drop_buffers:
            for disk in self.outer.disks.values():
                disk[self.topology.name].buffers.clear()
            self.outer.returned.difference_update(self.outer.disks)
        lane, ran = self.lane, list[str]()
        for partition in lane.returns if lane is not None else ():
            assert lane is not None
            self.outer.interrupt()
            self._return(lane, partition)
            self._returned.append(partition)
            yield
        serving = {p for mine in lane.serves.values() for p in mine} if lane is not None else set[str]()
        for partition in self.topology.partitions if lane is not None else ():
            assert lane is not None
            if partition in lane.starts or partition in serving:
                self.outer.interrupt()
                self._executor_replaced(lane, ran)
                self._task(lane, partition)
                ran.append(partition)
                yield
        for partition in self.topology.partitions:
            self._keep_house(partition)
        self.disturbed = self.disturbed or not before <= self.outer.disks.keys()
        self._gone |= before - self.outer.disks.keys()
        lost = {node for node in sorted(self._gone) if self.rng.random() < 0.5}
        reports = {p: one for p, one in self._reports.items() if self.plan.assignment[p] not in lost}
        told = TaskReport(
            slot=0,
            level=0,
            node="",
            partitions=reports,
            forks=self._forks,
            lost=self._lost,
            unbuffered=sorted(self._unbuffered),
        )
        return [told], self.disturbed

    # ---- tasks -----------------------------------------------------------------------------------

    def _task(self, lane: Lane, partition: str) -> None:
        """Spark repeats a task whose result was lost. If the operator is not deterministic, the repeated task
        gives other rows: see `_executor_replaced`."""
        repeated = self.topology.deterministic and self.outer.flaws and self.rng.random() < 0.05
        for _ in range(1 + repeated):
            for node, mine in lane.serves.items():
                kept = self._kept_on(node)
                if (
                    partition in mine
                    and kept is not None
                    and not self._serve(kept, partition, mine[partition])
                ):
                    self._unbuffered.add(partition)
            if self._kept(partition) is None:
                return  # Spark ran the task elsewhere; it found itself misplaced
            if partition in lane.starts:
                if lane.end(partition) > self.job.progress[partition]:
                    # The report of a task that runs again does not count any more.
                    self._reports.pop(partition, None)
                with suppress(TaskDiedError):
                    self._apply(lane, partition)

    def _apply(self, lane: Lane, partition: str) -> None:
        random = None if self.topology.deterministic else self.rng
        name = partition_of(partition)
        self.operators[split_partition(name)[0]] = SymbolicOperator(name, random, self.outer.dry)
        run = PartitionRun(self, lane, partition)  # type: ignore[arg-type]  # they have what it reads
        report = run.execute()
        run.runtime.validate_state()
        if run.advances:
            self._reports[partition] = report
        elif report.error:
            self._forks[partition] = report.error
            if report.missing:
                self._lost.append(partition)

    def _executor_replaced(self, lane: Lane, ran: list[str]) -> None:
        """The executor of a node dies and another replaces it. Messages of its tasks are lost unless they
        were received before, and the tasks run again."""
        if not ran or not self.outer.flaws or self.rng.random() > 0.003:
            return
        node = self.plan.assignment.get(self.rng.choice(ran))
        self.disturbed = True
        for partition in ran:
            if self.plan.assignment.get(partition) == node or partition in lane.serves.get(node or "", ()):
                returned = self.topology.fed_back.get(partition, ())
                self._lose(partition, (t for t in self.topology.downstream(partition) if t not in returned))
                self._task(lane, partition)
        for partition in self._returned:
            if self.plan.assignment.get(partition) == node:
                self._lose(partition, self.topology.fed_back[partition])
                self._return(lane, partition)

    def _lose(self, source: str, targets: Iterable[str]) -> None:
        """What a partition sent to these has not arrived."""
        for target in targets:
            batches = self.arrived.get(target, [])
            batches[:] = [batch for batch in batches if batch.source != source]

    def _return(self, lane: Lane, partition: str) -> None:
        """The task that sends what is on the feedback streams of a partition."""
        if self._kept(partition) is None:
            return
        with suppress(TaskDiedError):
            returning = Returning(self, lane, partition)  # type: ignore[arg-type]  # has what it reads
            if not returning.execute():
                self._forks[partition] = returning.error
                self._lost += [partition] * returning.missing

    def _keep_house(self, partition: str) -> None:
        idle = partition not in self._reports
        if not (self.job.trim_below or (idle and self.job.checkpoint)) or self._kept(partition) is None:
            return
        with suppress(TaskDiedError):
            run = PartitionRun(self, None, partition)  # type: ignore[arg-type]  # has what it reads of a Level
            problem = run.keep_house(acknowledge=idle)
            if problem is not None:
                self._reports[partition] = problem

    # ---- what a partition run asks for -----------------------------------------------------------

    def storage(self, partition: str) -> MemoryStorage:
        kept = self._kept(partition)
        if kept is None:
            raise TaskDiedError
        return MemoryStorage(
            self.outer.outside,
            kept,
            partition_of(partition),
            shadow=is_shadow(partition),
            branch=is_branch(partition),
            attempt=self.job.attempt,
            generation=self.plan.generation,
            step=lambda: self._step(self.plan.assignment[partition]),
        )

    def give_back(self, lane: Lane, partition: str, epoch: int, rows: Sent) -> None:
        for target in self.topology.fed_back[partition]:
            if lane.starts.get(target, epoch) < epoch <= lane.end(target):
                self.arrived.setdefault(target, []).append(Batch(partition, epoch, rows))

    def emit(self, lane: Lane, partition: str, epoch: int, output: Sent) -> Routed:
        progress = self.job.progress
        if epoch <= progress[partition]:
            self.replayed += 1
        returned = self.topology.fed_back.get(partition, ())
        for target in self.topology.downstream(partition):
            if target in returned:
                continue
            if lane.starts.get(target, epoch) < epoch <= lane.end(target):
                self.arrived.setdefault(target, []).append(Batch(partition, epoch, output))
            elif (
                self.job.buffering
                and (target not in lane.starts or epoch > lane.end(target))
                and not is_copy(target)
                and epoch > progress[target]
            ):
                self._buffer(partition, target)[epoch] = output
        return []  # rows are symbols here: nothing to count

    def _serve(self, kept: Kept, partition: str, served: Collection[Serving]) -> bool:
        for first, last, targets in served:
            for target in targets:
                sent = kept.buffers.get((partition, target), {})
                for epoch in range(first, last + 1):
                    if epoch not in sent:
                        return False
                    self.arrived.setdefault(target, []).append(Batch(partition, epoch, sent[epoch]))
        return True

    def _buffer(self, partition: str, target: str) -> dict[int, Sent]:
        kept = self._kept(partition)
        if kept is None:
            raise TaskDiedError
        return kept.buffers.setdefault((partition, target), {})

    def _clear_buffers(self, partition: str) -> None:
        kept = self._kept(partition)
        if kept is not None:
            kept.buffers = {c: sent for c, sent in kept.buffers.items() if c[0] != partition}

    # ---- nodes -----------------------------------------------------------------------------------

    def _kept(self, partition: str) -> Kept | None:
        """The disk of the node on which the partition runs; None if the node has lost its executor, or no
        plan places the partition."""
        return self._kept_on(self.plan.assignment.get(partition, ""))

    def _kept_on(self, node: str) -> Kept | None:
        disk = self.outer.disks.get(node) if node not in self._gone else None
        return None if disk is None else disk[self.topology.name]

    def _step(self, node: str) -> None:
        """Between any two steps the driver, the node or only the executor may die, or a step may fail."""
        self.outer.interrupt()
        if node not in self.outer.disks:
            raise TaskDiedError
        if not self.outer.flaws:
            return
        dice = self.rng.random()
        if dice < 0.0005:
            self._gone.add(node)
            self.disturbed = True
            raise TaskDiedError
        if dice < 0.001:
            raise OSError("no space left on device")
