"""The state an operator sees: named tables, maps and values, with changes collected for the next manifest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from spark_jobs.state.chunks import TableState
from spark_jobs.state.keyed import KeyedTable

SENT_BACK: Final = "__sent_back"


class StateTables:
    """Everything one partition remembers, at one epoch. `values` holds small JSON values (a counter, the end
    of the last window); `maps` small string-keyed dictionaries; tables take everything else: rows in the
    order in which they came, or by key."""

    def __init__(
        self, values: dict[str, Any], maps: dict[str, dict[str, Any]], tables: dict[str, TableState]
    ) -> None:
        self.values = values
        self.maps = maps
        self.tables = tables
        self._keyed: dict[str, KeyedTable] = {}

    def table(self, name: str) -> TableState:
        return self.tables.setdefault(name, TableState([]))

    def keyed(self, name: str, keys: Sequence[str]) -> KeyedTable:
        """A table with one row for each combination of these columns; its epochs cost what they change."""
        if name not in self._keyed:
            self._keyed[name] = KeyedTable(self.table(name), keys)
        return self._keyed[name]

    def settle(self) -> None:
        """At the end of an epoch, before the tables are written."""
        for table in self._keyed.values():
            table.settle()

    def map(self, name: str) -> dict[str, Any]:
        return self.maps.setdefault(name, {})

    @property
    def sent_back(self) -> pa.Table | None:
        """The rows on feedback streams at the end of the epoch, which are read in the next one."""
        kept = self.tables.get(SENT_BACK)
        return kept.read() if kept is not None else None

    def send_back(self, rows: pa.Table | None) -> None:
        """These rows, and none of an earlier epoch, are on feedback streams."""
        self.table(SENT_BACK).replace(rows)
