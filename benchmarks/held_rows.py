"""The operator of `benchmarks.large_state`, which holds a row for each key, and what it should have given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.operators.base import EpochContext, Operator, unknown_params
from spark_jobs.state.tables import StateTables

GIVEN: Final = 64
"""Of the rows that an epoch changes it gives those whose key is a multiple of this."""

Numbers = npt.NDArray[np.int64]


def key_texts(numbers: Numbers) -> pa.Array:
    """Keys as the source has them."""
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width=12, padding="0")


class HeldRows(Operator):
    """Params: `bytes`, of the text in each row. Keeps a row for each `text` that ever came: how often it did,
    beside a text that makes the row large. Gives `key` and `count` of some of the rows that have changed."""

    kind = "held_rows"
    takes = ("bytes",)

    @classmethod
    def problems(cls, params: Mapping[str, Any]) -> list[str]:
        return unknown_params(params, cls.takes)

    @classmethod
    def state_columns(cls, params: Mapping[str, Any]) -> Sequence[str]:
        return ("text",)

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        tables = [table for name in self.inputs for table in inputs.get(name, ()) if table.num_rows]
        if not tables:
            return None
        found = pa.concat_tables(tables).column("text").combine_chunks().value_counts()
        keys = pa.table({"text": found.field("values")})
        held = state.keyed("rows", ["text"])
        counts = held.find(keys).added_to(found.field("counts").to_numpy(), "count")
        more = pc.utf8_rpad(keys.column("text"), width=int(self.params["bytes"]), padding=".")
        held.put(keys.append_column("more", more).append_column("count", pa.array(counts)))
        numbers = keys.column("text").cast(pa.int64()).to_numpy()
        given = np.flatnonzero(numbers % GIVEN == 0)
        return pa.table({"key": pa.array(numbers[given]), "count": pa.array(counts[given])})


def faults(given: pa.Table, sequence: Numbers) -> dict[str, int]:
    """What is wrong with the rows that were given for these keys, in the order in which they came: `twice`,
    rows that were given more than once; `different`, keys whose greatest count is another one than how often
    they came."""
    keys, counts = np.unique(sequence[sequence % GIVEN == 0], return_counts=True)
    pairs = given.group_by(["key", "count"]).aggregate([([], "count_all")])
    newest = given.group_by("key").aggregate([("count", "max")]).sort_by("key")
    expected = pa.table({"key": pa.array(keys), "count_max": pa.array(counts)})
    same = newest.select(["key", "count_max"]).cast(expected.schema).equals(expected)
    different = 0
    if not same:
        found = dict(
            zip(newest.column("key").to_pylist(), newest.column("count_max").to_pylist(), strict=True)
        )
        wanted = dict(zip(keys.tolist(), counts.tolist(), strict=True))
        different = sum(found.get(key) != wanted.get(key) for key in found.keys() | wanted.keys())
    return {"twice": given.num_rows - pairs.num_rows, "different": different}
