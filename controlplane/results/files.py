"""Which files of a partition count, newest first, from a given epoch on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.sinks.committed import SPAN_FILE, Committed, epoch_file, span_name

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


def newest_files(
    partition: Path, operator: str, committed: Committed, *, epoch: int = 0, window: int | None = None
) -> Iterator[OutputFile]:
    """The files of a partition, newest first. epoch: only this one and earlier ones; 0 for all. window: what
    can only hold windows that ended later is left out.

    Raises `CompactedError`, while it is gone through, if `epoch` is in the middle of a span with rows.
    """
    start = min(epoch or committed.epoch, committed.epoch)
    newest = committed.spans[-1].until.get(operator) if committed.spans else None
    if window is None or newest is None or newest <= window:
        for number in range(start, committed.tail, -1):
            yield OutputFile(number, number, epoch_file(partition / f"epoch={number}"))
    spans = committed.spans
    for index in range(len(spans) - 1, -1, -1):
        span = spans[index]
        before = spans[index - 1].until.get(operator) if index else None
        if span.first > start or (window is not None and before is not None and before > window):
            continue
        path = partition / span_name(span) / SPAN_FILE
        rows = path.is_file()
        if rows and span.last > start:
            # The small files may be there still, but some of them may just have been removed.
            raise CompactedError
        yield OutputFile(span.first, span.last, path if rows else None)
