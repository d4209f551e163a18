"""Which reader a source uses: the file source, or any reader of PySpark's Python Data Source API.

A reader may have more than PySpark asks for; the driver makes use of `advance`, `finished`, `watermark` and
`last_ts` (see `FileStreamReader`). Where they are missing the driver asks `latestOffset`, and the watermark
is that of the event times the reader gave, minus `lateness_s` (see `spark_jobs.sources.lateness`).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec
from pyspark.sql.datasource import DataSourceStreamReader

from spark_jobs.allowed import NotAllowedError, allowed_object
from spark_jobs.sources.arrivals import arrivals_problems
from spark_jobs.sources.built_in import FILE, TRAFFIC, is_own, reader_of
from spark_jobs.sources.event_time import UNITS
from spark_jobs.sources.file import FileStreamReader
from spark_jobs.sources.idleness import idleness_problems
from spark_jobs.sources.lateness import lateness_problems
from spark_jobs.sources.numbered import MAX_RATE, MAX_TUPLE
from spark_jobs.sources.problems import SourceError
from spark_jobs.sources.surges import surges_problems
from spark_jobs.sources.traffic_reader import STREAM_PARAMS, TrafficReader, traffic_problems

FILE_PARAMS = (
    "reader",
    "path",
    "sample",
    "text",
    "ts",
    "ts_unit",
    "partition_by",
    "rate",
    "arrivals",
    "speedup",
    "limit",
    "pace",
    "origin",
    "surges",
)
SAMPLES = ("tweets", "page_views")
"""Which generated file is read where no `path` is given."""
PACES = ("realtime", "fast")
TRAFFIC_PARAMS = ("reader", *STREAM_PARAMS, "rate", "limit", "pace", "origin", "surges")
READER_PARAMS = (
    "reader",
    "options",
    "rate",
    "limit",
    "pace",
    "origin",
    "surges",
    "lateness_s",
    "idle_after_s",
)
_DRIVERS_OWN = ("reader", "options", "pace", "origin", "surges", "lateness_s", "idle_after_s")
"""Parameters the driver acts on; a reader does not see them."""
_BUILT_IN: dict[str, type[DataSourceStreamReader]] = {FILE: FileStreamReader, TRAFFIC: TrafficReader}


def reader_class(name: str, modules: Sequence[str]) -> type[DataSourceStreamReader]:
    """`file`, `traffic`, or a class by dotted path from the allowed modules. Raises `SourceError`."""
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    try:
        found = allowed_object(name, modules)
    except NotAllowedError as error:
        raise SourceError(
            where="source parameter reader",
            what=str(error),
            hint="Use `file` or `traffic`, or ask the administrator to allow the module.",
        ) from error
    if not (inspect.isclass(found) and issubclass(found, DataSourceStreamReader)):
        raise SourceError(
            where="source parameter reader", what=f"{name!r} is no DataSourceStreamReader",
            hint="Derive the class from pyspark.sql.datasource.DataSourceStreamReader.",
        )  # fmt: skip
    return found


def reader_create(
    params: Mapping[str, Any], options: Mapping[str, Any], modules: Sequence[str] = ()
) -> DataSourceStreamReader:
    """The reader of a source: `params` as in the specification, `options` what the deployment adds or
    replaces (for the file source `path` of the prepared input, `origin_us`, `parallelism`). Raises
    `SourceError`. Readers are kept: the same arguments give the same object."""
    name = reader_of(params)
    given = {key: value for key, value in params.items() if key not in _DRIVERS_OWN}
    merged = {key: value for key, value in {**given, **options}.items() if value is not None}
    if is_own(params):
        merged = {key: str(value) for key, value in merged.items()}  # Spark hands readers text, so do we
    return _reader(name, msgspec.json.encode(merged, order="sorted"), tuple(modules))


@lru_cache(maxsize=32)
def _reader(name: str, options: bytes, modules: tuple[str, ...]) -> DataSourceStreamReader:
    kind: Any = reader_class(name, modules)
    reader: DataSourceStreamReader = kind(msgspec.json.decode(options))
    return reader


def source_params() -> tuple[str, ...]:
    """Names of the parameters of a source, those of all readers."""
    return tuple(dict.fromkeys((*FILE_PARAMS, *TRAFFIC_PARAMS, *READER_PARAMS)))


def source_problems(params: Mapping[str, Any], modules: Sequence[str]) -> list[str]:
    """What is wrong with a source's parameters; a reader of the user's own checks its options itself."""
    reader = params.get("reader") or "file"
    if not isinstance(reader, str):
        return [f"reader must be `file`, `traffic` or a dotted path, not {reader!r}"]
    found: list[str] = []
    known = {FILE: FILE_PARAMS, TRAFFIC: TRAFFIC_PARAMS}.get(reader, READER_PARAMS)
    if is_own(params):
        try:
            reader_class(reader, modules)
        except SourceError as error:
            found.append(f"reader: {error.what}. {error.hint}")
        if not isinstance(params.get("options", {}), dict):
            found.append(f"options must be a mapping, not {params['options']!r}")
    found += [
        f"unknown parameter {name!r}; this source takes {', '.join(known)}"
        for name in params
        if name not in known
    ]
    for name in ("path", "text", "ts", "partition_by"):
        value = params.get(name)
        if value is not None and not isinstance(value, str):
            found.append(f"{name} must be text, not {value!r}")
    sample = params.get("sample")
    if sample is not None and sample not in SAMPLES:
        found.append(f"sample must be one of {', '.join(SAMPLES)}, not {sample!r}")
    if reader == TRAFFIC:
        return [
            *found,
            *traffic_problems(params),
            *_pace_problems(params),
            *surges_problems(params.get("surges")),
        ]
    if is_own(params):
        found += [*lateness_problems(params), *idleness_problems(params)]
    return [
        *found,
        *_pace_problems(params),
        *arrivals_problems(params),
        *surges_problems(params.get("surges")),
    ]


def _pace_problems(params: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for name, choices in (("ts_unit", UNITS), ("pace", PACES)):
        if params.get(name) is not None and params[name] not in choices:
            found.append(f"{name} must be one of {', '.join(choices)}, not {params[name]!r}")
    for name, high in (("rate", MAX_RATE), ("limit", MAX_TUPLE)):
        value = params.get(name)
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (whole and 1 <= value <= high):
            found.append(f"{name} must be a whole number from 1 to {high}, not {value!r}")
    origin = params.get("origin")
    if origin is not None and not _is_origin(origin):
        found.append(
            "origin must be a time from 1970 on in ISO 8601, such as 2026-01-01T00:00:00+00:00,"
            f" not {origin!r}"
        )
    return found


def _is_origin(value: Any) -> bool:
    try:
        return datetime.fromisoformat(value).timestamp() >= 0
    except (TypeError, ValueError, OverflowError):
        return False
