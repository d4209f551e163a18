"""The keys of a partition where the guarantee is bounded: which have changed since they were stored, which
are stored after an epoch, and which have yet to be fetched because the partition began without state.

What is remembered of keys is a part of the state, so that an epoch that runs again finds it as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from domain.execution.job import EpochPlan, KeyCounts, Layout
from domain.key_saving.bounds import Saving
from domain.topology import Topology, split_partition
from spark_jobs.executor.key_fetching import KeyFetcher
from spark_jobs.operators.base import EpochContext
from spark_jobs.operators.keyed_operator import KeyedOperator
from spark_jobs.state.key_requests import BEGAN, KeyDesk
from spark_jobs.state.store import Manifest, StateStore
from spark_jobs.state.tables import StateTables

DIRTY: Final = "__dirty"
"""Table of changed keys: `key`, `events` since it was stored, `since` when the first of these came."""
KNOWN: Final = "__known"
"""Table by key of those that were asked for since the partition began without state."""
LAZY: Final = "__lazy"
"""Value: whether keys have to be asked for."""
SAVED_AT: Final = "__saved_at"
"""Value: time of the epoch after which all changed keys were stored last."""

Inputs = Mapping[str, Sequence[pa.Table]]


def go_on(store: StateStore, held: int, epoch: int) -> None:
    """Have a partition stand at an epoch with the state of an earlier one, `held`, or with none (0), so that
    it has to ask for what was stored. Repeatable. Raises `StateMissingError`."""
    if held:
        store.install(msgspec.structs.replace(store.manifest(held), epoch=epoch))
    elif epoch:
        store.install(Manifest(epoch=epoch, generation=0, values={LAZY: True, BEGAN: epoch}))
    store.rollback(epoch)


class KeySaving:
    """Of one partition, in one task."""

    def __init__(
        self, home: Path, layout: Layout, topology: Topology, partition: str, keyed: KeyedOperator
    ) -> None:
        self._layout = layout
        self._partition = partition
        self._keyed = keyed
        self._desk = KeyDesk(home, layout.spec.name, layout.deployed)
        self._fetcher = KeyFetcher(self._desk, layout, partition)
        name, self._index = split_partition(partition)
        self._count = topology.by_name[name].parallelism
        self.counts = KeyCounts()

    def recall(self, context: EpochContext, inputs: Inputs, state: StateTables) -> None:
        """Before an epoch is applied: the states of keys whose first rows have come."""
        if not state.values.get(LAZY):
            return
        keys = self._keyed.keys_of(inputs)
        if not keys.num_rows:
            return
        known = state.keyed(KNOWN, ["key"])
        new = keys.select(["key"]).filter(pa.array(known.find(keys).missing))
        if not new.num_rows:
            return
        if state.tables[KNOWN].chunks == [] and self._fetcher.nothing_saved():
            del state.values[LAZY]
            self._count_in(KeyCounts(unknown=new.num_rows))
            return
        states, counts = self._fetcher.fetch(self._keyed, new.column("key").combine_chunks())
        for saved in states:
            self._keyed.operator.restore(context, state, saved)
        known.put(new)
        self._count_in(counts)

    def changed(self, plan: EpochPlan, inputs: Inputs, state: StateTables) -> list[str]:
        """After an epoch was applied: notes what has changed; returns the keys to be stored now."""
        arrived = self._keyed.keys_of(inputs)
        if arrived.num_rows:
            mask = self._keyed.operator.is_dirty(arrived.column("key").combine_chunks(), inputs)
            arrived = arrived.filter(pa.array(mask))
        since = pa.repeat(pa.scalar(plan.at, pa.float64()), arrived.num_rows)
        dirty = _added(state.table(DIRTY).read(), arrived.append_column("since", since))
        saved_at = state.values.get(SAVED_AT, 0.0)
        due = self._due(plan, dirty, state)
        if due.num_rows and not self._room():
            self._count_in(KeyCounts(refused=due.num_rows))
            due = due.slice(0, 0)
            state.values[SAVED_AT] = saved_at  # it is tried again after the next epoch
        left = dirty.filter(pc.invert(pc.is_in(dirty.column("key"), value_set=due.column("key"))))
        state.table(DIRTY).replace(left)
        oldest = plan.at - pc.min(left.column("since")).as_py() if left.num_rows else 0.0
        self.counts = self.counts.left(dirty=left.num_rows, oldest=oldest)
        found: list[str] = due.column("key").to_pylist()
        return found

    def all_changed(self, state: StateTables) -> list[str]:
        """All that is to be stored, at the end; nothing counts as changed then."""
        dirty = state.table(DIRTY).read()
        state.table(DIRTY).replace(None)
        found: list[str] = dirty.column("key").to_pylist() if dirty is not None else []
        return found

    def requested(self, keys: Sequence[str]) -> None:
        """These were left to be stored."""
        self._count_in(KeyCounts(requested=len(keys)))

    def _due(self, plan: EpochPlan, dirty: pa.Table, state: StateTables) -> pa.Table:
        every = self._keyed.every
        if every.events is not None:
            due = dirty.filter(pc.greater_equal(dirty.column("events"), every.events))
        else:
            saving = Saving(every, state.values.get(SAVED_AT, 0.0)).begun(plan.at, self._index, self._count)
            state.values[SAVED_AT] = saving.at
            if not saving.due(plan.at):
                return dirty.slice(0, 0)
            state.values[SAVED_AT] = plan.at
            due = dirty
        return due.filter(pa.array(self._keyed.operator.checkpoint(due))) if due.num_rows else due

    def _room(self) -> bool:
        waiting = sum(map(len, self._desk.waiting().values()))
        spec = self._layout.spec.key_saving
        return waiting < spec.serialise_outstanding + spec.store_outstanding

    def _count_in(self, counts: KeyCounts) -> None:
        self.counts = self.counts.plus(counts)


def _added(before: pa.Table | None, now: pa.Table) -> pa.Table:
    if before is None:
        return now
    groups = pa.concat_tables([before, now]).group_by("key", use_threads=False)
    summed: Any = groups.aggregate([("events", "sum"), ("since", "min")])
    return summed.rename_columns(["key", "events", "since"])
