"""From a user's file to the form every source partition reads: one memory-mapped Arrow file.

The file is validated and converted once, when the topology is deployed. The copy is uncompressed, so tuple n
is found in constant time and its bytes are never copied; and it is private to the topology, so a file that
changes or vanishes later cannot change what a replay reads. A damaged copy would, so each driver compares it
with its checksum before it reads it, which takes about a second for each GB.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from host.durable import write_whole
from spark_jobs.sources.event_time import EventTimes, mean_step, passes_that_fit
from spark_jobs.sources.formats import Progress, rows_of
from spark_jobs.sources.problems import NOT_USED, SourceError, SourceProblem
from spark_jobs.sources.spool import Spool

FORMAT_VERSION: Final = 2
FEW_PASSES: Final = 1_000
"""A file that can be repeated less often spans more than a century: one of its times may stand for none."""
YEAR: Final = 31_556_952_000_000
"""Microseconds."""


@dataclass(frozen=True, slots=True)
class PreparedInput:
    """What a conversion found. Times are microseconds since the Unix epoch, None without a time column."""

    path: str
    source: str
    size: int
    mtime_ns: int
    digest: str
    text: str
    ts: str
    ts_unit: str
    rows: int
    rejected: int
    rejected_path: str
    has_ts: bool
    first_us: int | None
    last_us: int | None
    reasons: dict[str, int]
    partition_by: str = ""
    copy: str = ""
    """Checksum of the copy; empty from versions that took none."""
    changed: str = ""
    """Why the original can no longer be compared with the copy; empty when it is as it was."""
    repaired: str = ""
    """What was wrong with the copy, which was made again from the same original; empty when it was whole."""

    @property
    def problems(self) -> list[SourceProblem]:
        found = []
        if self.rejected:
            counts = "; ".join(f"{count} times: {reason}" for reason, count in sorted(self.reasons.items()))
            found.append(
                SourceProblem(
                    self.source,
                    f"{self.rejected} of {self.rows} {NOT_USED} ({counts})",
                    f"Their row numbers and reasons are in {self.rejected_path}.",
                )
            )
        if self.first_us is not None and self.last_us is not None:
            span = self.last_us - self.first_us
            passes = passes_that_fit(self.last_us, span + mean_step(span, self.rows))
            if passes < FEW_PASSES:
                found.append(
                    SourceProblem(
                        self.source,
                        f"its event times span {span // YEAR:,} years, so those of repetitions soon are too "
                        f"large: the input ends after {passes * self.rows} tuples",
                        "If some times stand for none, such as 9999-12-31, correct them and deploy the "
                        "topology again. With a lower `limit` nothing is lost.",
                    )
                )
        if self.repaired:
            found.append(
                SourceProblem(
                    self.path,
                    f"the copy of the input was damaged ({self.repaired}); it was made again from "
                    f"{self.source}, which is as it was",
                    "Nothing is lost. Look at the disk.",
                )
            )
        if self.changed:
            found.append(
                SourceProblem(
                    self.source,
                    self.changed,
                    "The topology goes on with the copy made when it was deployed; deploy it again to "
                    "read the"
                    " file again.",
                )
            )
        return found


def sidecar(target: Path) -> Path:
    """Where the facts about a prepared input are kept: input.arrow has input.json beside it."""
    return target.with_suffix(".json")


def prepared(target: Path) -> PreparedInput | None:
    """The facts about an input prepared earlier; None where there are none, since the conversion was cut
    short, or they are of another version. Raises `SourceError` if they are damaged, or of another input."""
    path = sidecar(target)
    try:
        facts = json.loads(path.read_bytes())
        if facts.pop("version") != FORMAT_VERSION:
            return None
        found = PreparedInput(**facts)
        # The home may have been moved; the directory is that of the topology.
        whose = Path(found.path).parts[-2:]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(path, f"what is known of the input's copy cannot be read: {error}") from error
    if whose != target.parts[-2:]:
        raise _damaged(path, f"this is about another input, {found.path}")
    return found


def prepare(
    source: str | Path,
    target: str | Path,
    *,
    text: str = "text",
    ts: str = "ts",
    ts_unit: str = "auto",
    partition_by: str = "",
    refresh: bool = False,
    progress: Progress | None = None,
) -> PreparedInput:
    """Make `target` from `source`, unless that is done already. Raises `SourceError`. ts: empty if the file's
    times, if it has any, do not count.

    A copy made with the same parameters is kept even when the original has changed or is gone (a running
    topology must be able to replay); `refresh=True`, for a first start, makes a new one in that case. A copy
    that is damaged is made again if the original is the same, byte for byte.
    Both files appear atomically. `progress(done, total)` is called now and then.
    """
    source, target = Path(source).expanduser().absolute(), Path(target)
    damage = ""
    known = None if refresh and not _readable(target) else prepared(target)
    if (
        known
        and (known.source, known.text, known.ts, known.partition_by) == (str(source), text, ts, partition_by)
        and ts_unit in ("auto", known.ts_unit)
    ):
        change = _change(source, known)
        if not (change and refresh):
            damage = _damage(target, known)
            if not damage:
                return replace(known, changed=change)
            if not refresh and (change or _digest(source) != known.digest):
                raise _damaged(
                    target, f"the copy of the input is damaged ({damage}), and the original differs"
                )
    _require_file(source)
    with _reading(source):
        made = _convert(
            source, target, text, ts, partition_by, _times(source, ts_unit),
            progress or (lambda done, total: None),
        )  # fmt: skip
    return replace(made, repaired=damage)


def _readable(target: Path) -> bool:
    try:
        prepared(target)
    except SourceError:
        return False
    return True


def _damage(target: Path, known: PreparedInput) -> str:
    """In which respect a copy is not as it was made; empty if it is, or if its version took no checksum."""
    try:
        differs = known.copy and _digest(target) != known.copy
    except FileNotFoundError:
        return "it is gone"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return "its checksum is another one" if differs else ""


def _damaged(path: Path, what: str) -> SourceError:
    return SourceError(
        where=str(path),
        what=what,
        hint="Bring this file back from a backup. Without one, deploy the topology again: it starts from its "
        "first tuple, and keeps its outputs under another name.",
    )


def look(source: str | Path, *, text: str = "text", ts_unit: str = "auto", partition_by: str = "") -> None:
    """Read the beginning of a file, as a check before anything is started. Raises `SourceError` if the file
    cannot be used; rows that are wrong further on, and all times, come to light in `prepare`."""
    source = Path(source).expanduser().absolute()
    _require_file(source)
    _times(source, ts_unit)
    with (
        _reading(source),
        closing(
            rows_of(source, text=text, ts="", progress=lambda done, total: None, part=partition_by)
        ) as rows,
    ):
        if next(rows, None) is None:
            raise _empty(source)


@contextmanager
def _reading(source: Path) -> Iterator[None]:
    """Errors from a damaged file or a full disk become a `SourceError`."""
    try:
        yield
    except (pa.ArrowException, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise SourceError(
            where=str(source),
            what=f"the file cannot be read: {str(error).splitlines()[0].rstrip('.')}",
            hint="Check that it is whole and has this format.",
        ) from error
    except OSError as error:
        raise SourceError(
            where=str(error.filename or source),
            what=f"reading or converting the input failed: {error.strerror or error}",
            hint="Check the permissions and the free space of both places.",
        ) from error


def _times(source: Path, ts_unit: str) -> EventTimes:
    try:
        return EventTimes(ts_unit)
    except ValueError as error:
        raise SourceError(
            where=str(source), what=str(error), hint="Correct the source's parameters."
        ) from error


def _empty(source: Path) -> SourceError:
    return SourceError(
        where=str(source), what="the file has no rows", hint="Give a file with at least one row of text."
    )


def _change(source: Path, known: PreparedInput) -> str:
    try:
        status = source.stat()
    except OSError:
        return "the input file is gone"
    same = status.st_size == known.size
    if same and status.st_mtime_ns != known.mtime_ns:
        same = _digest(source) == known.digest  # written again, perhaps with the same content
    return "" if same else "the input file has changed since it was read"


def _digest(source: Path) -> str:
    with source.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _require_file(source: Path) -> None:
    what = ""
    if source.is_dir():
        what = "this is a directory, not a file"
    elif not source.exists():
        what = "there is no such file"
    elif not os.access(source, os.R_OK):
        what = "the file may not be read by this user"
    elif source.stat().st_size == 0:
        what = "the file is empty"
    if what:
        raise SourceError(
            where=str(source),
            what=what,
            hint="Give the path of a parquet, CSV or JSON-lines file with a text column.",
        )


def _convert(
    source: Path,
    target: Path,
    text: str,
    ts: str,
    partition_by: str,
    times: EventTimes,
    progress: Progress,
) -> PreparedInput:
    status = source.stat()
    target.parent.mkdir(parents=True, exist_ok=True)
    spool = Spool(target.parent)
    try:
        for rows in rows_of(source, text=text, ts=ts, progress=progress, part=partition_by):
            spool.add(rows, times)
        if not spool.rows:
            raise _empty(source)
        event_times = spool.event_times(str(source), ts)
        if spool.rejected == spool.rows:
            reason = max(spool.reasons, key=lambda reason: spool.reasons[reason])
            raise SourceError(
                where=str(source), what=f"none of its {spool.rows} rows has usable text (mostly: {reason})",
                hint="Check the column named by the source's `text` parameter.",
            )  # fmt: skip
        listed = target.with_suffix(".rejected.jsonl")
        lines = [json.dumps({"row": row, "reason": why}) + "\n" for row, why in spool.listed]
        write_whole(listed, "".join(lines).encode(), root=target.parent)
        facts = PreparedInput(
            path=str(target), source=str(source), size=status.st_size, mtime_ns=status.st_mtime_ns,
            digest=_digest(source),
            text=text, ts=ts, ts_unit=times.unit, rows=spool.rows,
            rejected=spool.rejected, rejected_path=str(listed), reasons=spool.reasons,
            partition_by=partition_by,
            has_ts=event_times is not None,
            first_us=None if event_times is None else int(event_times.min()),
            last_us=None if event_times is None else int(event_times.max()),
        )  # fmt: skip
        sidecar(target).unlink(missing_ok=True)  # from here to the end there is no valid copy
        spool.finish(target, event_times)
        facts = replace(facts, copy=_digest(target))
    finally:
        spool.discard()
    content = json.dumps({"version": FORMAT_VERSION, **_stored(facts)}, indent=1).encode()
    # After the copy: a host that crashes leaves both, or no facts.
    write_whole(sidecar(target), content, root=target.parent)
    return facts


def _stored(facts: PreparedInput) -> dict[str, Any]:
    return {name: value for name, value in asdict(facts).items() if name not in ("changed", "repaired")}
