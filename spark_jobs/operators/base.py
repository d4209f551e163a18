"""What an operator is to the engine: whole Arrow tables in, at most one Arrow table out, once per epoch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from spark_jobs.state.key_states import KeySet, Mask, put_together, taken
from spark_jobs.state.tables import StateTables


@dataclass(frozen=True, slots=True)
class EpochContext:
    """The epoch that is being applied. Watermarks are microseconds since the Unix epoch: after this epoch
    no tuple with an event time below `watermark` will come. `final` marks the last epoch of a bounded
    input; its watermark is the time of the last tuple, and everything that holds data must be flushed."""

    epoch: int
    watermark: int
    previous_watermark: int
    final: bool = False


class Operator(ABC):
    """One partition's processing logic.

    An instance serves one partition for one Spark task; data that must survive an epoch is kept in
    `state`. Given the same state and the same inputs in the same order, `process` must give the same table,
    rows in the same order (Assumption 1 of incremental recovery, section 4.3), unless the operator is
    declared non-deterministic in the topology.
    """

    kind: ClassVar[str]
    takes: ClassVar[Sequence[str]] = ()
    """Names of the parameters."""
    keeps_state: ClassVar[bool] = True
    """Whether `process` reads or writes `state`."""
    state_takes: ClassVar[Sequence[str] | None] = None
    """Those of the parameters that the state depends on; None: all of them."""
    state_by_input: ClassVar[bool] = False
    """Whether each table of the state is of one input, so that the inputs may be spread in different ways."""
    inputs_taken: ClassVar[int | None] = None
    """To how many operators it must subscribe; None: one or more."""
    joins: ClassVar[bool] = False
    """Whether it gives nothing without one of its inputs, for the kinds that are built in."""

    def __init__(self, params: Mapping[str, Any], inputs: Sequence[str]) -> None:
        """`inputs` are the names of the operators subscribed to, in the order of the specification."""
        self.params = params
        self.inputs = inputs

    @classmethod
    def problems(cls, params: Mapping[str, Any]) -> list[str]:
        """The faults of these parameters, in sentences for a pipeline's author."""
        return []

    @classmethod
    def doubt(cls, params: Mapping[str, Any]) -> str:
        """Why the same inputs may give other rows when they are processed again, in a sentence that goes on
        after a colon; empty where it is known that they do not."""
        return ""

    @classmethod
    def carries(cls, params: Mapping[str, Any], column: str) -> str:
        """How its rows call this column of the input rows that they were made from; empty if they lack it."""
        return ""

    @classmethod
    def state_columns(cls, params: Mapping[str, Any]) -> Sequence[str]:
        """The columns of input rows that all of its state has, in tables under the same names, in maps as
        keys: by one of them the state can be divided among another number of partitions. `EVERY_COLUMN`,
        `KEYLESS`: see there. Empty: it cannot be divided."""
        return ()

    def state_input(self, table: str) -> str:
        """The input whose rows decide in which partition the rows of a table of the state are."""
        return self.inputs[0]

    def values_merged(self, values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The values of several partitions as one's: the greatest of each. Only asked where the state can be
        divided."""
        merged: dict[str, Any] = {}
        for mine in values:
            for name, value in mine.items():
                merged[name] = max(value, merged.get(name, value))
        return merged

    # ---- states of single keys, where the guarantee of the topology is bounded (Apache S4) -------------

    def is_dirty(self, keys: pa.Array, inputs: Mapping[str, Sequence[pa.Table]]) -> Mask:
        """Of each of the keys that rows of this epoch came for, whether its state may have changed. keys: as
        text, each once; those of the inputs are in the column by which rows are spread. Without keys there is
        one, the empty text."""
        return np.ones(len(keys), dtype=np.bool_)

    def checkpoint(self, keys: pa.Table) -> Mask:
        """Of each of the changed keys whose turn it is, whether it is stored now; otherwise its turn comes
        again in the next epoch where `every` counts events, else when that time has passed again. keys:
        `key`, as text; `events`, the rows that came for it since it was stored; `since`, Unix seconds of the
        first of these."""
        return np.ones(keys.num_rows, dtype=np.bool_)

    def serialise(self, state: StateTables, keys: KeySet) -> StateTables:
        """The state of these keys alone, of a partition's state or of what was taken out of one before. Runs
        in a process of its own beside the tasks."""
        return taken(state, keys)

    def restore(self, context: EpochContext | None, state: StateTables, saved: StateTables) -> None:
        """Add what `serialise` gave for keys that `state` does not have. context: of the epoch in which their
        first rows come; None where states are only put together."""
        put_together(state, saved, self.values_merged([state.values, saved.values]))

    def tables(self, inputs: Mapping[str, Sequence[pa.Table]]) -> list[pa.Table]:
        """The tables of all inputs, in the order of the specification."""
        return [table for name in self.inputs for table in inputs.get(name, ())]

    @abstractmethod
    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        """Apply one epoch. `inputs` maps each input operator to its tables (one per source partition that
        sent rows, ordered by partition; possibly none). None or an empty table emits nothing."""


class Combinable(ABC):
    """An operator that lets the sender shrink what it sends (partial aggregation before the exchange).

    Two subscribers with the same `combine_key` receive the same combined table, computed once.
    """

    @abstractmethod
    def combine_key(self) -> tuple[Any, ...]: ...

    @abstractmethod
    def combine(self, table: pa.Table) -> pa.Table:
        """`process` accepts raw tables, and what this or an operator that `serves` it has combined."""

    def serves(self, other: Combinable, epoch_s: float) -> bool:
        """Whether what this operator combines of an epoch of so many seconds does for the other one as well.
        Of several that do, the one with the least `combine_key` combines for it."""
        return self.combine_key() == other.combine_key()


def unknown_params(params: Mapping[str, Any], known: Sequence[str]) -> list[str]:
    """A sentence for each parameter the operator does not have."""
    return [
        f"unknown parameter {name!r}; this operator takes {', '.join(known) or 'none'}"
        for name in params
        if name not in known
    ]
