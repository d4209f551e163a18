"""An operator with what is known of the keys of its state, as tasks and the keeper of a node need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from domain.key_saving.every import Every, every_read
from domain.topology import Topology
from domain.topology.key_columns import key_columns
from spark_jobs.operators.catalogue import OperatorCatalogue
from spark_jobs.operators.problems import column_of
from spark_jobs.state.key_states import WHOLE, KeySet, key_texts
from spark_jobs.state.saved_keys import PIECE_KEYS
from spark_jobs.state.tables import StateTables


class KeyedOperator:
    """Of a topology, by name. modules: those that operators may be of."""

    def __init__(self, topology: Topology, name: str, modules: Sequence[str]) -> None:
        spec = topology.by_name[name]
        catalogue = OperatorCatalogue(modules)
        self.operator = catalogue.create(spec.kind, spec.params, [one.source for one in spec.inputs], modules)
        self.columns = key_columns(topology, name, catalogue)
        self.keeps_state = bool(spec.inputs) and catalogue.state_params(spec.kind, spec.params) is not None
        every = every_read(spec.every or topology.spec.key_saving.every)
        assert every is not None  # noqa: S101 - checked when the specification was read
        self.every: Every = every
        self.kind = spec.kind

    @property
    def whole(self) -> bool:
        """Whether all of a partition's state is that of one key, `WHOLE`."""
        return not self.columns

    def keys_of(self, inputs: Mapping[str, Sequence[pa.Table]]) -> pa.Table:
        """The keys that rows came for: `key`, each once, in order, and `events`, how many."""
        tables = [(name, table) for name, group in inputs.items() for table in group if table.num_rows]
        if self.whole:
            rows = sum(table.num_rows for _, table in tables)
            return _counted([WHOLE], [rows]) if rows else _counted([], [])
        texts = [key_texts(column_of(table, self.columns[name], self.kind)) for name, table in tables]
        if not texts:
            return _counted([], [])
        counts = pa.concat_arrays(texts).value_counts()
        found = pa.table({"key": counts.field("values"), "events": counts.field("counts")})
        return found.take(pc.sort_indices(found.column("key")))

    def key_set(self, keys: pa.Array) -> KeySet:
        if self.whole:
            return KeySet(None, str)
        return KeySet(keys, lambda table: self.columns[self.operator.state_input(table)])

    def take(self, state: StateTables, keys: pa.Array) -> StateTables:
        """The state of these keys alone."""
        return self.operator.serialise(state, self.key_set(keys))

    def join(self, states: Sequence[StateTables]) -> StateTables:
        """The states of different keys in one."""
        joined = StateTables({}, {}, {})
        for state in states:
            self.operator.restore(None, joined, state)
        return joined

    def pieces(self, keys: pa.Array) -> list[pa.Array]:
        """What is stored as one object each."""
        return [keys.slice(at, PIECE_KEYS) for at in range(0, len(keys), PIECE_KEYS)]


def _counted(keys: list[str], events: list[int]) -> pa.Table:
    return pa.table({"key": pa.array(keys, pa.string()), "events": pa.array(events, pa.int64())})
