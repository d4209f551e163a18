"""The file that a source reads where its specification names none."""

from __future__ import annotations

from pathlib import Path

from spark_jobs.sources.page_views import page_views_write
from spark_jobs.sources.problems import SourceError


def sample_ensure(home: Path, kind: str | None) -> Path:
    """The sample of this kind (`registry.SAMPLES`). Page views are made the first time; `make up` makes the
    tweets. Raises `SourceError`."""
    if kind != "page_views":
        return home / "input" / "sample.parquet"
    path = home / "input" / "page-views.parquet"
    try:
        return path if path.is_file() else page_views_write(path)
    except OSError as error:
        raise SourceError(
            where=str(path), what=f"the sample cannot be written: {error.strerror or error}",
            hint="Make room, or give a file of your own.",
        ) from error  # fmt: skip
