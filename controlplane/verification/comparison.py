"""Comparing the rows that a query must have written with those in its files, as multisets."""

# Queries are put together from names that the specification has validated and that are quoted here.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from controlplane.verification.relations import WINDOW_COLUMNS, Stream, quoted
from spark_jobs.sinks.committed import Committed, committed_files
from spark_jobs.sinks.tentative import STATUS

INSTANTS = ("ts", "window_start", "window_end")
WHOLE_NUMBERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UINTEGER", "UBIGINT"})
"""Types of DuckDB."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A faulty row; `expected` and `found` are its values, or how often it occurs."""

    kind: str
    row: dict[str, Any]
    expected: Any = None
    found: Any = None


class QueryResult(msgspec.Struct, kw_only=True):
    """The outcome for one query (or, where an operator has several partitions, for all of them together).

    `missing` rows should be there and are not, `duplicate` ones are there more often than they should be,
    `unexpected` ones should not be there at all, `different` ones have the right window and key and the wrong
    count. `tentative` rows are not compared. `should_count` and `counts` are the sums of the column `count`
    that rows should have and have, of a query that is not exact and has one. `skipped` says why nothing could
    be compared, `beyond` what of it could not."""

    query: str
    operator: str
    expected: int = 0
    found: int = 0
    missing: int = 0
    duplicate: int = 0
    unexpected: int = 0
    different: int = 0
    tentative: int = 0
    should_count: int = 0
    counts: int = 0
    skipped: str = ""
    beyond: str = ""
    error: str = ""
    examples: list[Finding] = []

    @property
    def clean(self) -> bool:
        return not self.faults and not self.error

    @property
    def faults(self) -> int:
        """Rows that are missing, wrong or too many."""
        return self.missing + self.duplicate + self.unexpected + self.different

    @property
    def deviation(self) -> float:
        """The faults as a share of the rows expected; above 1 if more are too many than were expected."""
        return self.faults / max(1, self.expected)


def output_files(root: Path, operator: str, committed: Committed) -> list[str]:
    """The Parquet files of an operator that count. root: the outputs of the topology."""
    return sorted(str(file) for file in committed_files(root, operator, committed))


def compare(
    database: duckdb.DuckDBPyConnection,
    stream: Stream,
    files: Sequence[str],
    result: QueryResult,
    examples: int,
) -> None:
    """Fill in `result`. The stream says which rows must be there; times are compared in microseconds."""
    identity = [name for name in stream.columns if name != "count" or stream.columns != WINDOW_COLUMNS]
    values = [name for name in stream.columns if name not in identity]
    try:
        _load(database, stream, files, result)
    except duckdb.Error as error:
        result.error = f"the output files cannot be read: {str(error).splitlines()[0]}"
        return
    if result.error:
        return
    if stream.waits:
        if not result.found:
            result.skipped = "none of its windows has been given yet, and the last ones may wait for others"
            return
        last = int(database.execute("SELECT coalesce(max(window_end), 0) FROM found").fetchall()[0][0])
        result.beyond = (
            f"windows that end after {instant(last)}: they may wait for others until the input has ended, so"
            " where such rows were given and are lost, it is not noticed before"
        )
        given = f"window_end <= {last}"
        stream = replace(stream, relation=f"(SELECT * FROM {stream.relation} WHERE {given})")
    result.expected = _count(database, stream.relation)
    if not _differ(database, stream):
        return
    same = " AND ".join(f"e.{quoted(name)} IS NOT DISTINCT FROM f.{quoted(name)}" for name in identity)
    database.execute(
        "CREATE OR REPLACE TEMP TABLE faults AS"
        f" SELECT {', '.join(f'coalesce(e.{quoted(n)}, f.{quoted(n)}) AS {quoted(n)}' for n in identity)},"
        " coalesce(e.n, 0) AS should, coalesce(f.n, 0) AS does, e.v AS should_hold, f.v AS holds"
        f" FROM ({_grouped(stream.relation, identity, values)}) e"
        f" FULL OUTER JOIN ({_grouped('found', identity, values)}) f ON {same}"
        " WHERE e.n IS DISTINCT FROM f.n OR e.v IS DISTINCT FROM f.v"
    )
    counts = database.execute(
        "SELECT coalesce(sum(greatest(should - does, 0)), 0),"
        " coalesce(sum(greatest(does - should, 0)) FILTER (should > 0), 0),"
        " coalesce(sum(does) FILTER (should = 0), 0), count(*) FILTER (should = does) FROM faults"
    ).fetchall()[0]
    result.missing, result.duplicate, result.unexpected, result.different = map(int, counts)
    if _counted(database, stream.relation) and _counted(database, "found"):
        result.should_count = _sum(database, stream.relation)
        result.counts = _sum(database, "found")
    result.examples = _examples(database, identity, bool(values), examples)


def instant(micros: int) -> str:
    try:
        return datetime.fromtimestamp(micros / 1e6, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):  # times may be beyond the year 9999
        return f"{micros} us"


def _load(
    database: duckdb.DuckDBPyConnection, stream: Stream, files: Sequence[str], result: QueryResult
) -> None:
    """Table `found` with the final rows, instants as microseconds. A `status` that is the operator's own says
    nothing of the rows."""
    if not files:
        database.execute(f"CREATE OR REPLACE TEMP TABLE found AS SELECT * FROM {stream.relation} LIMIT 0")
        return
    source = "read_parquet($files, hive_partitioning = false)"
    described = database.execute(f"DESCRIBE SELECT * FROM {source}", {"files": list(files)}).fetchall()
    present = {row[0]: row[1] for row in described}
    told = [STATUS] if STATUS not in stream.columns else []
    absent = [name for name in (*stream.columns, *told) if name not in present]
    if absent:
        result.error = f"the output files have no column {', '.join(absent)}; they have {', '.join(present)}"
        return
    columns = [
        f"epoch_us({quoted(name)}) AS {quoted(name)}"
        if name in INSTANTS and present[name].startswith("TIMESTAMP")
        else quoted(name)
        for name in stream.columns
    ]
    database.execute(
        f"CREATE OR REPLACE TEMP TABLE found AS SELECT {', '.join([*columns, *told])} FROM {source}",
        {"files": list(files)},
    )
    if not told:
        result.found = _count(database, "found")
        return
    final, tentative = database.execute(
        "SELECT count(*) FILTER (status = 'final'), count(*) FILTER (status <> 'final') FROM found"
    ).fetchall()[0]
    result.found, result.tentative = int(final), int(tentative)
    database.execute("DELETE FROM found WHERE status IS DISTINCT FROM 'final'")


def _differ(database: duckdb.DuckDBPyConnection, stream: Stream) -> bool:
    """Whether the two multisets of rows differ at all; this is far cheaper than finding the difference."""
    names = ", ".join(quoted(name) for name in stream.columns)
    uneven = (
        f"SELECT {names} FROM (SELECT {names}, 1 AS side FROM {stream.relation}"
        f" UNION ALL SELECT {names}, -1 FROM found) GROUP BY ALL HAVING sum(side) <> 0"
    )
    return _count(database, f"({uneven})") > 0


def _count(database: duckdb.DuckDBPyConnection, relation: str) -> int:
    return int(database.execute(f"SELECT count(*) FROM {relation}").fetchall()[0][0])


def _counted(database: duckdb.DuckDBPyConnection, relation: str) -> bool:
    """Whether its rows have whole numbers in a column `count`: anything may be called so."""
    columns = database.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    return any(column[0] == "count" and column[1] in WHOLE_NUMBERS for column in columns)


def _sum(database: duckdb.DuckDBPyConnection, relation: str) -> int:
    return int(database.execute(f'SELECT coalesce(sum("count"), 0) FROM {relation}').fetchall()[0][0])


def _grouped(relation: str, identity: Sequence[str], values: Sequence[str]) -> str:
    names = ", ".join(quoted(name) for name in identity)
    held = f"list_sort(list({quoted(values[0])}))" if values else "NULL::BIGINT[]"
    return f"SELECT {names}, count(*) AS n, {held} AS v FROM {relation} GROUP BY {names}"


def _examples(
    database: duckdb.DuckDBPyConnection, identity: Sequence[str], valued: bool, limit: int
) -> list[Finding]:
    names = ", ".join(quoted(name) for name in identity)
    rows = database.execute(
        f"SELECT {names}, should, does, should_hold, holds FROM faults"
        f" ORDER BY {', '.join(f'{quoted(name)} NULLS FIRST' for name in identity)} LIMIT {limit}"
    ).fetchall()
    findings = []
    for row in rows:
        named = dict(zip(identity, row, strict=False))
        should, does, should_hold, holds = row[len(identity) :]
        if should == does:
            findings.append(_held(named, should_hold, holds))
        else:
            kind = "unexpected" if not should else "missing" if does < should else "duplicate"
            expected, found = (should_hold or [], holds or []) if valued else (should, does)
            findings.append(Finding(kind=kind, row=named, expected=expected, found=found))
    return findings


def _held(row: dict[str, Any], expected: list[Any], found: list[Any]) -> Finding:
    single = len(expected) == 1 and len(found) == 1
    return Finding(
        kind="different", row=row,
        expected=expected[0] if single else expected, found=found[0] if single else found,
    )  # fmt: skip
