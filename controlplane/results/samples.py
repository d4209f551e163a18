"""The last rows of any operator: results of one that has results, a sample of any other.

A sample is of the newest epoch that gave rows since a user looks; it may be of one that is not committed
yet, and that a recovery undoes. It is kept on the disk of the partition's node
(`spark_jobs.executor.samples`).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from django.conf import settings

from controlplane.errors import Invalid, Missing
from controlplane.results.asking import asked, query_results
from controlplane.results.messages import Answer, Column, Question
from controlplane.topologies.models import Partition
from controlplane.topologies.operators import operator_find
from domain.topology import partition_id
from spark_jobs.state.sample_files import MOST_ROWS, sample_ask, sample_path

_NODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
"""As `domain.values.NodeName`."""


class OperatorRows(msgspec.Struct, frozen=True, kw_only=True):
    """origin: `results`, `sample`, or `none`, where `note` says why there are no rows. at: when the sample
    was taken. rows: the last one first."""

    topology: str
    partition: str
    origin: str
    note: str
    epoch: int = 0
    at: str | None = None
    columns: list[Column] = []
    rows: list[dict[str, Any]] = []


def operator_rows(
    *, topology: str, operator: str, partition: int = 0, limit: int = MOST_ROWS
) -> OperatorRows:
    """The last rows that a partition gave. Raises `Missing`, `Invalid` (no such partition), and
    `Conflict` and `Busy` as results do. Asks the partition's task to keep rows, if it has no results."""
    row, _, found = operator_find(topology, operator)
    if partition >= found.parallelism:
        raise Invalid("partition", f"operator {found.name} has {found.parallelism}, numbered from 0")
    label = partition_id(found.name, partition)
    if found.output:
        return _results(row.name, label, limit)
    if row.deployed_at is None:
        return _none(row.name, label, "The topology has never been deployed.")
    place = (
        Partition.objects.filter(topology=row, operator=found.name, index=partition)
        .values_list("node__name", flat=True)
        .first()
    )
    if not place:
        return _none(row.name, label, f"{label} is on no node, so it gives no rows.")
    away = f"The disk of {place} is not on this host, so its rows cannot be read here."
    if _NODE.fullmatch(place) is None:  # a path is made of it
        return _none(row.name, label, away)
    home = settings.RESURGE.home / "nodes" / place
    try:
        sample_ask(home, row.name, label)
    except OSError:
        return _none(row.name, label, away)
    return _sample(row, label, sample_path(home, row.name, label), min(limit, MOST_ROWS))


def _results(topology: str, label: str, limit: int) -> OperatorRows:
    try:
        answer = query_results(topology=topology, query=label, limit=limit)
    except Missing as absence:
        return _none(topology, label, f"{str(absence)[:1].upper()}{str(absence)[1:]}.")
    return _rows(topology, label, "results", NOTE_RESULTS, answer)


def _sample(row: Any, label: str, path: Path, limit: int) -> OperatorRows:
    try:
        taken = path.lstat().st_mtime
        if path.is_symlink() or taken < row.deployed_at.timestamp():
            raise FileNotFoundError(path)
    except OSError:
        return _none(row.name, label, _waiting(row.status))
    masked = list(settings.RESURGE.mask_columns)
    question = Question(directory="", operator="", partition=0, limit=limit, masked=masked, sample=str(path))
    answer = asked(question).answer
    if answer is None:
        return _none(row.name, label, _waiting(row.status))
    at = datetime.fromtimestamp(taken, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return _rows(row.name, label, "sample", NOTE_SAMPLE if answer.rows else TOO_LARGE, answer, at=at)


NOTE_RESULTS: Final = "Its committed results, the newest first."
NOTE_SAMPLE: Final = (
    "The last rows of its newest epoch that gave some since you look. They may not be committed yet."
)
WAITING: Final = (
    "Requested. Rows appear with the next epoch that gives some; a window gives its rows when it ends."
)
TOO_LARGE: Final = "Its rows are larger than 1 MB each, so none is kept."


def _waiting(status: str) -> str:
    if status in ("running", "degraded", "recovering", "deploying"):
        return WAITING
    return f"The topology is {status}, so it gives no rows."


def _rows(
    topology: str, label: str, origin: str, note: str, answer: Answer, *, at: str | None = None
) -> OperatorRows:
    return OperatorRows(
        topology=topology,
        partition=label,
        origin=origin,
        note=note,
        epoch=answer.epoch,
        at=at,
        columns=answer.columns,
        rows=answer.rows,
    )


def _none(topology: str, label: str, note: str) -> OperatorRows:
    return OperatorRows(topology=topology, partition=label, origin="none", note=note)
