"""Tentative output: rows of queries that lacked a part of their input, apart from the final ones.

    <root>/<topology>/deployed=<generation>/_tentative/<operator>/partition=<i>/epoch=<e>/part.parquet

A reader of final rows goes by `committed.json`, which names none of these. Each row says as `status` that it
is tentative, and as `_fidelity` which share of the output of its epoch is left, 0 to 1. The final rows of an
epoch supersede them. They need not survive a crash of the host, since the exact replay gives the final ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa

from spark_jobs.sinks.committed import deployment_directory

DIRECTORY: Final = "_tentative"
STATUS: Final = "status"
TENTATIVE: Final = "tentative"
FIDELITY: Final = "_fidelity"


def tentative_path(root: str | Path, topology: str, deployed: int, operator: str, partition: int) -> Path:
    return (
        deployment_directory(Path(root) / topology, deployed)
        / DIRECTORY
        / operator
        / f"partition={partition}"
    )


def tentative_table(table: pa.Table, fidelity: float) -> pa.Table:
    """The rows as they are stored; instants are timestamps already."""
    marked = table.drop_columns([name for name in (STATUS, FIDELITY) if name in table.column_names])
    rows = table.num_rows
    marked = marked.append_column(STATUS, pa.repeat(pa.scalar(TENTATIVE), rows))
    return marked.append_column(FIDELITY, pa.repeat(pa.scalar(fidelity), rows)).combine_chunks()
