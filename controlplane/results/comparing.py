"""Comparing the tentative rows of a query with the final ones that have superseded them.

Rows belong together by what is no measure in them: texts, instants and truth values, such as the window and
its key. Those that are equal as a whole stayed. Of the others with the same identity, as many changed as
there are on both sides; what is left over appeared or vanished.
"""

# Queries are put together from names of columns, which are quoted here.
# ruff: noqa: S608

from __future__ import annotations

from pathlib import Path

import duckdb

from controlplane.results.columns import DATABASE, NUMBERS, quoted
from controlplane.results.messages import Compared, Comparison
from spark_jobs.sinks.committed import CommittedError, committed_read, deployment_directory, epoch_file
from spark_jobs.sinks.compaction import small_files_stay
from spark_jobs.sinks.tentative import DIRECTORY, FIDELITY, STATUS


def compare(asked: Comparison) -> Compared:
    """What became of the tentative rows of the epochs first..last; `problem` says why that is not known."""
    directory = Path(asked.directory)
    try:
        committed = committed_read(directory)
    except CommittedError as error:
        return Compared(problem=str(error), later=True)
    if committed is None:
        return Compared(problem="the outputs are not where this host reads them")
    if committed.deployed != asked.deployed:
        return Compared(problem="the topology was deployed again")
    if committed.epoch < asked.last:
        return Compared(problem="the final rows are not committed yet", later=True)
    files = deployment_directory(directory, committed.deployed)
    if not small_files_stay(files, committed, asked.first):
        return Compared(problem="the files of these epochs were merged before they were compared")
    place = Path(asked.operator) / f"partition={asked.partition}"
    epochs = range(asked.first, asked.last + 1)
    tentative = [files / DIRECTORY / place / f"epoch={epoch}" / "part.parquet" for epoch in epochs]
    final = [epoch_file(files / place / f"epoch={epoch}") for epoch in epochs]
    try:
        with duckdb.connect(":memory:", config=DATABASE) as database:
            given = [str(path) for path in tentative if path.is_file()]
            return _compared(database, given, [str(path) for path in final if path is not None])
    except duckdb.Error as error:
        return Compared(problem=f"a file cannot be read: {str(error).splitlines()[0]:.300}")


def _compared(database: duckdb.DuckDBPyConnection, tentative: list[str], final: list[str]) -> Compared:
    if not (tentative and final):
        rows = _rows(database, tentative or final)
        return Compared(appeared=rows if final else 0, vanished=rows if tentative else 0)
    columns = _columns(database, final)
    names = [quoted(name) for name in columns]
    identity = [quoted(name) for name, kind in columns.items() if not _measure(kind)]
    listed, known = ", ".join(names), ", ".join(identity) or "true"
    found = database.execute(
        f"""
        WITH both_sides AS (
            SELECT {listed}, 1 AS "?t", 0 AS "?f" FROM {_parquet("tentative")}
            UNION ALL
            SELECT {listed}, 0, 1 FROM {_parquet("final")}
        ), distinct_rows AS (
            SELECT {listed}, sum("?t") AS "?t", sum("?f") AS "?f" FROM both_sides GROUP BY {listed}
        ), identities AS (
            SELECT sum(least("?t", "?f")) AS stayed, sum("?t") AS "?t", sum("?f") AS "?f"
            FROM distinct_rows GROUP BY {known}
        )
        SELECT sum(stayed)::BIGINT,
               sum(least("?t" - stayed, "?f" - stayed))::BIGINT,
               sum("?f" - stayed - least("?t" - stayed, "?f" - stayed))::BIGINT,
               sum("?t" - stayed - least("?t" - stayed, "?f" - stayed))::BIGINT
        FROM identities
        """,
        {"tentative": tentative, "final": final},
    ).fetchone()
    stayed, changed, appeared, vanished = found or (0, 0, 0, 0)
    return Compared(stayed=stayed, changed=changed, appeared=appeared, vanished=vanished)


def _rows(database: duckdb.DuckDBPyConnection, files: list[str]) -> int:
    if not files:
        return 0
    found = database.execute("SELECT count(*) FROM read_parquet($files)", {"files": files}).fetchone()
    return int(found[0]) if found else 0


def _parquet(files: str) -> str:
    """The rows of files, whose columns may have other types in each."""
    return f"read_parquet(${files}, hive_partitioning = false, union_by_name = true)"


def _columns(database: duckdb.DuckDBPyConnection, files: list[str]) -> dict[str, str]:
    """Name -> type, without what says only that rows are tentative or final."""
    described = database.execute(f"DESCRIBE SELECT * FROM {_parquet('files')}", {"files": files}).fetchall()
    return {row[0]: row[1] for row in described if row[0] not in (STATUS, FIDELITY)}


def _measure(kind: str) -> bool:
    return kind in NUMBERS or kind.startswith("DECIMAL")
