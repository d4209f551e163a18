"""Matches of a regular expression: from text to one row per match.

The meaning is that of Python's `re`: the matches of `re.finditer(pattern, text)`, in order, and of each the
chosen group; matches in which the group took no part or is empty are left out. With `fold: lower` a key is
`str.lower()` of the match.

Python's engine does some 800,000 tweets a second on one core, in a process with limited time (`matching`).
Patterns of the shape `<mark>(\\w+)`, such as `#(\\w+)`, take linear time and need no limit. In batches that
are worth it, `marked_words` finds their rows: in large ones it takes a quarter of the time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_jobs.operators.base import EpochContext, Operator, unknown_params
from spark_jobs.operators.marked_words import marked_words
from spark_jobs.operators.matching import pattern_matches, pattern_problems
from spark_jobs.operators.problems import column_of, text_of
from spark_jobs.state.tables import StateTables

KEYED: Final = pa.schema([("ts", pa.int64()), ("key", pa.string())])
VECTORISED_FROM: Final = 512
"""Below this many rows, Python's engine is quicker than what is done for all of them at once."""
_SIMPLE: Final = re.compile(r"(?:\\?([^\w\s\\.^$*+?{}\[\]|()])|\\([.^$*+?{}\[\]|()]))\((?:\?P<\w+>)?\\w\+\)")


class FlatMapRegex(Operator):
    """Params: `pattern`; `field`, the text column (default `text`); `group`, number or name (default: the
    only group, else the whole match); `fold`, `lower` or `none` (default). Emits `ts`, `key`."""

    kind = "flat_map_regex"
    takes = ("pattern", "field", "group", "fold")
    keeps_state = False

    def __init__(self, params: Mapping[str, Any], inputs: Sequence[str]) -> None:
        super().__init__(params, inputs)
        self.field: str = params.get("field", "text")
        self.pattern: str = params["pattern"]
        self.group: int | str | None = params.get("group")
        self.lower = params.get("fold", "none") == "lower"
        self.shape = _SIMPLE.fullmatch(self.pattern)
        self.mark = self._single_mark()

    @classmethod
    def problems(cls, params: Mapping[str, Any]) -> list[str]:
        found = unknown_params(params, cls.takes)
        pattern, group = params.get("pattern"), params.get("group")
        if not isinstance(pattern, str) or not pattern:
            return [*found, f"pattern must be a regular expression, not {pattern!r}"]
        if isinstance(group, bool) or not isinstance(group, int | str | None):
            found.append(f"group must be a number or a name, not {group!r}")
        else:
            found += pattern_problems(pattern, group, simple=_SIMPLE.fullmatch(pattern) is not None)
        if not isinstance(params.get("field", "text"), str):
            found.append(f"field must be the name of a column, not {params['field']!r}")
        if params.get("fold", "none") not in ("lower", "none"):
            found.append(f"fold must be `lower` or `none`, not {params['fold']!r}")
        return found

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        parts = [self.matches(table) for table in self.tables(inputs)]
        return pa.concat_tables(parts) if parts else None

    def matches(self, table: pa.Table) -> pa.Table:
        """`ts` and `key` of every match, row by row; rows whose text is null have none."""
        text = text_of(table, self.field, self.kind).combine_chunks()
        if self.mark and len(text) >= VECTORISED_FROM:
            rows, keys = marked_words(text, self.mark, lower=self.lower)
        else:
            rows, keys = self._scan(text)
        times = column_of(table, "ts", self.kind).take(pa.array(rows))
        return pa.Table.from_arrays([times, keys], schema=KEYED)

    def _scan(self, text: pa.Array) -> tuple[Any, pa.Array]:
        """By Python's engine: here where it takes linear time, else within bounds."""
        texts = text.to_pylist()
        if self.shape is None:
            rows, keys = pattern_matches(self.pattern, self.group, texts)
        else:
            rows, keys = self._scan_simple(texts)
        if self.lower:
            keys = [key.lower() for key in keys]
        return np.asarray(rows, dtype=np.int64), pa.array(keys, pa.string())

    def _scan_simple(self, texts: list[str | None]) -> tuple[list[int], list[str]]:
        expression, group = re.compile(self.pattern), 1 if self.group is None else self.group
        rows: list[int] = []
        keys: list[str] = []
        for row, value in enumerate(texts):
            for match in expression.finditer(value) if value else ():
                rows.append(row)
                keys.append(match[group])
        return rows, keys

    def _single_mark(self) -> str:
        """The mark if the pattern has the simple shape and the group is that of the word, else nothing."""
        return (self.shape[1] or self.shape[2]) if self.shape is not None and self.group != 0 else ""
