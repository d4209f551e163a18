"""SQL over the rows of an epoch, by DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import duckdb
import pyarrow as pa

from spark_jobs.operators.base import EpochContext, Operator, unknown_params
from spark_jobs.operators.columns import concatenated
from spark_jobs.operators.problems import OperatorError
from spark_jobs.operators.volatility import query_doubt
from spark_jobs.state.tables import StateTables

LONGEST_QUERY: Final = 20_000
"""Characters. DuckDB ends the process that reads a query with some ten thousand subqueries in each other."""


class Sql(Operator):
    """Params: `query`, one SELECT over the table `input`: the rows this partition got in this epoch. An epoch
    without rows is not asked. Aggregates are therefore per epoch: follow them with a window operator. Rows
    come in the order the query gives; one thread runs it, so equal rows in give equal rows out. The time
    zone is UTC."""

    kind = "sql"
    takes = ("query",)
    keeps_state = False

    @classmethod
    def problems(cls, params: Mapping[str, Any]) -> list[str]:
        found = unknown_params(params, cls.takes)
        query = params.get("query")
        if not isinstance(query, str) or not query.strip():
            return [*found, f"query must be a SELECT statement, not {query!r}"]
        if len(query) > LONGEST_QUERY:
            return [*found, f"query has {len(query)} characters; at most {LONGEST_QUERY} are taken"]
        try:
            statements = duckdb.extract_statements(query)
        except duckdb.Error as error:
            return [*found, f"query is not SQL: {_first_line(error)}"]
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            return [*found, "query must be exactly one SELECT statement"]
        return found

    @classmethod
    def doubt(cls, params: Mapping[str, Any]) -> str:
        return query_doubt(params["query"])

    def process(
        self, context: EpochContext, inputs: Mapping[str, Sequence[pa.Table]], state: StateTables
    ) -> pa.Table | None:
        rows = concatenated(self.tables(inputs), self.kind)
        if rows is None or not rows.num_rows:
            return None
        return query_table(self.params["query"], {"input": rows})


def query_table(query: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The result of one query over Arrow tables and nothing else. Raises `OperatorError`."""
    connection = _connection()
    for name, table in tables.items():
        connection.register(name, table)
    try:
        return connection.sql(query).to_arrow_table()
    except duckdb.Error as error:
        columns = "; ".join(f"{name} has {', '.join(table.column_names)}" for name, table in tables.items())
        raise OperatorError(
            f"the query failed: {_first_line(error)} ({columns})", "Correct the query."
        ) from error
    finally:
        for name in tables:
            connection.unregister(name)


@cache
def _connection() -> Any:
    """One per process: making it takes longer than most queries. It sees neither files nor the network."""
    connection = duckdb.connect(":memory:")
    connection.execute("SET threads = 1")
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET TimeZone = 'UTC'")  # not that of the host
    connection.execute("SET lock_configuration = true")
    return connection


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
