"""Looking at the files that a source names, before anything is started."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from spark_jobs.sources.arrivals import arrivals_of, counts_read
from spark_jobs.sources.built_in import TRAFFIC, is_own, reader_of
from spark_jobs.sources.prepare import look
from spark_jobs.sources.speeds import speeds_read

_OF_A_FILE: Final = ("text", "ts_unit", "partition_by")


def look_at(name: str, file: Path, params: Mapping[str, Any]) -> None:
    """Check the file that the parameter `name` (`path` or `arrivals`) gives; raises `SourceError`. What a
    reader of the user's own reads is its own business."""
    if is_own(params):
        return
    if reader_of(params) == TRAFFIC:
        speeds_read(file)
    elif name == "arrivals":
        arrivals_of(counts_read(file), speedup=params.get("speedup") or 1, rate=params.get("rate"))
    else:
        look(file, **{option: params[option] for option in _OF_A_FILE if params.get(option)})
