"""Which files of a partition count, newest first, from a given epoch on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.sinks.committed import (
    SPAN_FILE,
    Committed,
    Span,
    deployment_directory,
    epoch_file,
    span_name,
)

MOST_EPOCHS = 20_000
"""Epochs that one question looks for: each costs some microseconds, also without a file."""


class CompactedError(Exception):
    """The page before was read from files that have become one since then."""


@dataclass(frozen=True, slots=True)
class OutputFile:
    """Rows of the epochs `first` to `last`; no path where they have none."""

    first: int
    last: int
    path: Path | None


def partition_directory(directory: Path, committed: Committed, operator: str, partition: int) -> Path:
    """directory: the outputs of the topology."""
    files = deployment_directory(directory, committed.deployed)
    if not files.is_dir():  # of a version that had no directory for the deployment, or without rows
        files = directory
    return files / operator / f"partition={partition}"


def newest_files(
    partition: Path, operator: str, committed: Committed, *, epoch: int = 0, window: int | None = None
) -> Iterator[OutputFile]:
    """The files of a partition, newest first. epoch: only this one and earlier ones; 0 for all. window: what
    can only hold windows that ended later is left out.

    Raises `CompactedError`, while it is gone through, if `epoch` is in the middle of a span.
    """
    start = min(epoch or committed.epoch, committed.epoch)
    newest = committed.spans[-1].until.get(operator, 0) if committed.spans else 0
    if window is None or newest <= window:
        for number in range(start, committed.tail, -1):
            yield OutputFile(number, number, epoch_file(partition / f"epoch={number}"))
    spans = committed.spans
    for index in range(len(spans) - 1, -1, -1):
        span = spans[index]
        before = spans[index - 1].until.get(operator, 0) if index else 0
        if span.first > start or (window is not None and before > window):
            continue
        if span.last > start:
            yield from _singly(partition, span, start)
        else:
            path = partition / span_name(span) / SPAN_FILE
            yield OutputFile(span.first, span.last, path if path.is_file() else None)


def _singly(partition: Path, span: Span, start: int) -> Iterator[OutputFile]:
    """The small files of a span, which stay for some minutes."""
    found = [
        OutputFile(epoch, epoch, epoch_file(partition / f"epoch={epoch}"))
        for epoch in range(start, span.first - 1, -1)
    ]
    rows = (partition / span_name(span) / SPAN_FILE).is_file()
    if rows and all(file.path is None for file in found):
        raise CompactedError
    yield from found
