"""Small CSV files beside the input: opened, and what cannot be read said in one way."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_jobs.sources.bounded_lines import BoundedLines, RowTooLongError
from spark_jobs.sources.problems import SourceError


@contextmanager
def csv_lines(path: Path, hint: str) -> Iterator[Iterator[list[str]]]:
    """The lines of a file, which may end in `.gz`. Raises `SourceError` where it cannot be read; `hint` says
    what to give instead."""

    def wrong(what: str, hint: str = hint) -> SourceError:
        return SourceError(where=str(path), what=what, hint=hint)

    try:
        opened = gzip.open if path.name.lower().endswith(".gz") else open
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield _rows(BoundedLines(file))
    except FileNotFoundError as error:
        raise wrong("there is no such file", "Correct the path.") from error
    except UnicodeDecodeError as error:
        raise wrong("the file is not UTF-8 text") from error
    except RowTooLongError as error:
        raise wrong(f"a row of the file cannot be taken: {error}") from error
    except (csv.Error, EOFError, zlib.error) as error:
        raise wrong(f"the file is no CSV: {error}") from error
    except OSError as error:
        raise wrong(f"the file cannot be read: {error.strerror or error}") from error


def _rows(lines: BoundedLines[str]) -> Iterator[list[str]]:
    for row in csv.reader(lines):
        lines.row_ended()
        yield row
