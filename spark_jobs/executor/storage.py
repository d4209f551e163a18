"""What a partition's run reads and writes: its state, its output, its snapshot, its slice of the input.

Each call is one step: a process or a machine may die between any two. The simulation implements the protocols
in memory; `NodeStorage` is the node's disk, the outputs and the checkpoint storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from domain.execution.job import EpochPlan, Layout
from domain.topology import partition_directory, split_partition
from spark_jobs.executor.key_saving import go_on
from spark_jobs.executor.restore import bring_partition, restore_partition, whole_in_storage
from spark_jobs.executor.samples import sample_keep
from spark_jobs.sinks.base import TaskOutputs
from spark_jobs.sources.problems import SourceError
from spark_jobs.sources.registry import reader_create
from spark_jobs.state.key_requests import KeyDesk, KeyWork
from spark_jobs.state.node_home import STATE, deployment_home, forget_earlier
from spark_jobs.state.snapshot import leave_snapshot
from spark_jobs.state.store import Manifest, StateStore, StateVersion
from spark_jobs.state.tables import StateTables

BRANCH_STATE = ".branch"
"""Ends the name of the directory of a branch's state."""


class PartitionStore(Protocol):
    """The versions of one partition's state."""

    def manifest(self, epoch: int) -> Manifest: ...

    def open(self, manifest: Manifest) -> StateTables: ...

    def commit(self, state: StateTables, *, epoch: int, generation: int) -> Manifest: ...

    def versions(self, *, after: int, last: int) -> Iterable[StateVersion]: ...

    def receive(self, version: StateVersion) -> None: ...

    def trim(self, *, below: int, keep: Iterable[int] = ()) -> None: ...


class PartitionStorage(Protocol):
    """Everything one partition reads and writes outside its task."""

    @property
    def store(self) -> PartitionStore: ...

    def restore(self, checkpoint: int) -> None: ...

    def go_on(self, held: int, epoch: int) -> None: ...

    def bring(self, checkpoint: int) -> None: ...

    def begin_branch(self, epoch: int) -> None: ...

    def end_branch(self) -> None: ...

    def whole(self, checkpoint: int) -> bool: ...

    def read(self, plan: EpochPlan) -> pa.Table | None: ...

    def write(self, epoch: int, table: pa.Table | None) -> None: ...

    def write_tentative(self, epoch: int, table: pa.Table | None, fidelity: float) -> None: ...

    def sample(self, epoch: int, table: pa.Table | None) -> None: ...

    def snapshot(self, manifest: Manifest) -> None: ...

    def save_keys(self, manifest: Manifest, keys: Sequence[str], *, counts: bool) -> None: ...

    def settle_keys(self, applied: int) -> None: ...


class NodeStorage:
    """Of a partition in a job with this `attempt`, on the node whose files are in `home`. outputs: those of
    the task. branch: it is that of the partition's branch, whose state is beside the exact one. spread:
    seconds over which the upload of a snapshot may be spread out."""

    def __init__(
        self,
        home: Path,
        layout: Layout,
        partition: str,
        attempt: int,
        outputs: TaskOutputs | None = None,
        *,
        branch: bool = False,
        spread: float = 0.0,
    ) -> None:
        states = deployment_home(home, STATE, layout.spec.name, layout.deployed)
        self._exact = StateStore(states / partition_directory(partition), attempt)
        self._branch = StateStore(states / f"{partition_directory(partition)}{BRANCH_STATE}", attempt)
        self.store = self._branch if branch else self._exact
        self._home = home
        self._layout = layout
        self._partition = partition
        self._attempt = attempt
        self._spread = spread
        self._outputs = outputs
        self._operator, self._index = split_partition(partition)

    def restore(self, checkpoint: int) -> None:
        """Put the state back to a global checkpoint (0: empty)."""
        restore_partition(self.store, self._layout, self._partition, checkpoint)
        forget_earlier(self._home, self._layout.spec.name, self._layout.deployed)

    def go_on(self, held: int, epoch: int) -> None:
        """Stand at an epoch with the state of an earlier one that is here, or with none (0)."""
        go_on(self.store, held, epoch)
        forget_earlier(self._home, self._layout.spec.name, self._layout.deployed)

    def bring(self, checkpoint: int) -> None:
        """Have the state of a global checkpoint here, and leave later ones as they are."""
        bring_partition(self.store, self._layout, self._partition, checkpoint)

    def begin_branch(self, epoch: int) -> None:
        """Have the branch begin with the exact state after an epoch."""
        self._branch.begin_from(self._exact, epoch)

    def end_branch(self) -> None:
        """Remove what a branch has left here, if there was one."""
        self._branch.remove()

    def whole(self, checkpoint: int) -> bool:
        """Whether the state could be put back to a global checkpoint."""
        return whole_in_storage(self.store, self._layout, self._partition, checkpoint)

    def read(self, plan: EpochPlan) -> pa.Table | None:
        """This partition's part of what an epoch reads: a reader may give any number of slices, which are
        dealt out to the partitions in turn."""
        start, end = plan.slices[self._operator]
        source = next(o for o in self._layout.spec.operators if o.name == self._operator)
        options, modules = self._layout.readers[self._operator], self._layout.operator_modules
        reader: Any = reader_create(source.params, options, modules)
        mine = reader.partitions(start, end)[self._index :: source.parallelism]
        batches = [batch for part in mine for batch in map(_is_batch, reader.read(part)) if batch.num_rows]
        table: pa.Table | None = pa.Table.from_batches(batches) if batches else None
        return table

    def write(self, epoch: int, table: pa.Table | None) -> None:
        """The output of an epoch, which takes the place of what was there when the task settles it."""
        assert self._outputs is not None  # noqa: S101 - given to every task that runs epochs
        self._outputs.write(self._operator, self._index, epoch, table)

    def write_tentative(self, epoch: int, table: pa.Table | None, fidelity: float) -> None:
        """Write the tentative output of an epoch; the final output stays as it is. fidelity: the estimated
        share of the query's output that these rows are, 0 to 1."""
        assert self._outputs is not None  # noqa: S101 - given to every task that runs epochs
        self._outputs.write_tentative(self._operator, self._index, epoch, table, fidelity)

    def sample(self, epoch: int, table: pa.Table | None) -> None:
        """Keep the last rows of an epoch for users who look at them, if one does."""
        sample_keep(self._home, self._layout.spec.name, self._partition, epoch, table)

    @property
    def _desk(self) -> KeyDesk:
        return KeyDesk(self._home, self._layout.spec.name, self._layout.deployed)

    def settle_keys(self, applied: int) -> None:
        """Have the keeper store what was left in epochs up to this one, which count."""
        self._desk.settle(self._partition, applied)

    def save_keys(self, manifest: Manifest, keys: Sequence[str], *, counts: bool) -> None:
        """Have the keeper of the node store the states of these keys, if the epoch counts or when it does."""
        layout, desk = self._layout, self._desk
        desk.prepare(
            KeyWork(
                spec=layout.spec,
                checkpoints=layout.checkpoints,
                modules=list(layout.operator_modules),
                force=layout.force,
            )
        )
        desk.leave(self.store, self._partition, manifest, keys, counts=counts)

    def snapshot(self, manifest: Manifest) -> None:
        """Leave the state for the node's agent to upload."""
        layout = self._layout
        leave_snapshot(
            self._home,
            layout.spec.name,
            self._partition,
            layout.generation,
            manifest,
            attempt=self._attempt,
            deployed=layout.deployed,
            spread=self._spread,
        )


def _is_batch(given: Any) -> pa.RecordBatch:
    """What a reader gives. Rows of other kinds, which PySpark takes, have no names of columns."""
    if not isinstance(given, pa.RecordBatch):
        raise SourceError(
            where="source", what=f"the reader gave a {type(given).__name__}, not a pyarrow.RecordBatch",
            hint="Have its method `read` yield record batches, with the event times in a column `ts`.",
        )  # fmt: skip
    return given
