"""Reading the newest rows of a query, and its newest windows, from the files that count.

Rows with a `window_end` come by windows: the newest window first, in it the largest count first. They are
taken to be written in the order of their windows, as window operators write them. Other rows come in the
opposite order of their writing. Only as many files are read as the question needs.
"""

# Queries are put together from names of columns, which are quoted here.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import duckdb

from controlplane.results.columns import DATABASE, NUMBERS, SOURCE, Columns, instant, instant_or_none, quoted
from controlplane.results.files import (
    MOST_EPOCHS,
    CompactedError,
    OutputFile,
    newest_files,
)
from controlplane.results.messages import Answer, Cursor, Question, Refusal, Reply, ResultWindow
from domain.masking import MASK
from spark_jobs.sinks.committed import CommittedError, committed_read, rows_directory
from spark_jobs.state.sample_files import EPOCH

MOST_FILES: Final = 2_000
"""Files that one question opens."""
MOST_BYTES: Final = 1_000_000
"""Of the rows of an answer, about; the rest is on the next page."""
WINDOW_START, WINDOW_END, COUNT, KEY = "window_start", "window_end", "count", "key"


def answer(question: Question) -> Reply:
    """The reply to a question; a refusal if it has no answer."""
    try:
        return _sampled(question) if question.sample else _answer(question)
    except CommittedError:
        return _refused(
            "the record of committed epochs is damaged; the driver writes it again with its next epoch"
        )
    except CompactedError:
        return _overtaken("the files of this page were merged")
    except duckdb.IOException as error:
        if question.sample:  # it went while it was looked at
            return Reply(refusal=Refusal(message="", absent=True))
        return _refused(f"an output file cannot be read: {str(error).splitlines()[0]:.300}")
    except duckdb.Error as error:
        return _refused(f"an output file cannot be read: {str(error).splitlines()[0]:.300}")


def _answer(question: Question) -> Reply:
    directory = Path(question.directory)
    committed = committed_read(directory)
    if committed is None:
        return Reply(refusal=Refusal(message="", absent=True))
    cursor = Cursor.read(question.before) if question.before else Cursor(deployed=committed.deployed)
    if cursor.deployed != committed.deployed:
        return _overtaken("the topology was deployed again")
    found = Answer(deployed=committed.deployed, epoch=committed.epoch, removed=committed.removed)
    partition = rows_directory(directory, committed) / question.operator / f"partition={question.partition}"

    def files() -> Iterator[OutputFile]:
        every = newest_files(
            partition, question.operator, committed, epoch=cursor.epoch, window=cursor.window
        )
        return islice(every, MOST_EPOCHS)

    with duckdb.connect(":memory:", config=DATABASE) as database:
        newest = next((file.path for file in files() if file.path is not None), None)
        if newest is not None:
            reader = _Reader(database, question, newest)
            found.columns = reader.columns.told
            by = reader.by_window if reader.windowed else reader.by_position
            by(found, files(), cursor)
    return Reply(answer=found)


def _sampled(question: Question) -> Reply:
    """The rows of a sample (`spark_jobs.state.sample_files`), the last one first."""
    with duckdb.connect(":memory:", config=DATABASE) as database:
        noted = database.execute(
            "SELECT decode(value) FROM parquet_kv_metadata($file) WHERE decode(key) = $key",
            {"file": question.sample, "key": EPOCH},
        ).fetchone()
        epoch = int(noted[0]) if noted else 0
        found = Answer(deployed=0, epoch=epoch, removed=0)
        reader = _Reader(database, question, Path(question.sample))
        found.columns = reader.columns.told
        reader.by_position(found, iter([OutputFile(epoch, epoch, Path(question.sample))]), Cursor(deployed=0))
    found.next = ""
    return Reply(answer=found)


def _refused(message: str) -> Reply:
    return Reply(refusal=Refusal(message=message))


def _overtaken(what: str) -> Reply:
    message = f"{what} since the page before was read: begin again with the newest rows"
    return Reply(refusal=Refusal(message=message, overtaken=True))


class _Reader:
    """One question, once the columns are known from the newest file."""

    def __init__(self, database: duckdb.DuckDBPyConnection, question: Question, newest: Path) -> None:
        self._database = database
        self._question = question
        self.columns = Columns(database, newest, question.masked)
        self._types = self.columns.types
        self.windowed = self._types.get(WINDOW_END, "").startswith("TIMESTAMP")

    def by_window(self, found: Answer, files: Iterator[OutputFile], cursor: Cursor) -> None:
        """Windows are summed up file by file until there are enough of them, then their rows are read."""
        bound = "" if cursor.window is None else f"WHERE {self.columns.micros(WINDOW_END)} <= {cursor.window}"
        windows: dict[tuple[int, int | None], ResultWindow] = {}
        chosen: list[str] = []
        last = 0
        wanted = cursor.skip + self._question.limit + 1
        for batch in _batches(files):
            last = batch[-1].first
            paths = [str(file.path) for file in batch if file.path is not None]
            if paths:
                chosen += paths
                self._sum_up(paths, bound, windows)
            rows = sum(window.rows for window in windows.values())
            if rows >= wanted and len(windows) >= self._question.windows:
                break
            if len(chosen) >= MOST_FILES:
                break
        order = sorted(windows, key=lambda key: (key[0], key[1] or 0), reverse=True)
        found.windows = [windows[key] for key in order[: self._question.windows]]
        if not windows:
            found.next = _earlier(cursor, found, last, window=cursor.window)
            return
        ordered = [
            f"{quoted(name)} DESC" for name in (WINDOW_END, WINDOW_START, COUNT) if name in self._types
        ]
        ordered += [quoted(name) for name in self._types if name not in (WINDOW_END, WINDOW_START, COUNT)]
        parameters = {"files": chosen}
        shown = self.columns.selected(chosen)
        rows_read = self._database.execute(
            f"SELECT {shown} FROM {SOURCE} {bound} ORDER BY {', '.join(ordered)}"
            f" LIMIT {self._question.limit + 1} OFFSET {cursor.skip}",
            parameters,
        ).fetchall()
        taken = self._take(found, rows_read[: self._question.limit])
        if len(rows_read) > taken:
            found.next = self._after(cursor, windows, order, taken)
        else:
            found.next = _earlier(cursor, found, last, window=order[-1][0])

    def _sum_up(
        self, paths: list[str], bound: str, windows: dict[tuple[int, int | None], ResultWindow]
    ) -> None:
        counted = self._types.get(COUNT) in NUMBERS and COUNT not in self._question.masked
        start = self.columns.micros(WINDOW_START) if WINDOW_START in self._types else "NULL"
        keyed = counted and KEY in self._types
        best = f"arg_max({quoted(KEY)}::VARCHAR, {quoted(COUNT)})" if keyed else "NULL"
        total = f"sum({quoted(COUNT)}), max({quoted(COUNT)})" if counted else "NULL, NULL"
        rows = self._database.execute(
            f"SELECT {self.columns.micros(WINDOW_END)}, {start}, count(*), {best}, {total}"
            f" FROM {SOURCE} {bound} GROUP BY 1, 2",
            {"files": paths},
        ).fetchall()
        for end, begin, number, key, of_all, most in rows:
            if end is None:
                continue
            made = ResultWindow(
                start=instant_or_none(begin),
                end=instant(end),
                rows=number,
                total=of_all,
                key=MASK if keyed and KEY in self._question.masked else key,
                count=most,
            )
            known = windows.get((end, begin))
            windows[end, begin] = made if known is None else _together(known, made)

    def _after(
        self,
        cursor: Cursor,
        windows: dict[tuple[int, int | None], ResultWindow],
        order: Sequence[tuple[int, int | None]],
        taken: int,
    ) -> str:
        """The cursor behind so many rows: it names the window that the next row is in, so that it holds
        whatever is written meanwhile."""
        at, passed = cursor.skip + taken, 0
        ends = sorted({end for end, _ in order}, reverse=True)
        for end in ends:
            rows = sum(window.rows for key, window in windows.items() if key[0] == end)
            if passed + rows > at:
                return str(Cursor(deployed=cursor.deployed, epoch=cursor.epoch, window=end, skip=at - passed))
            passed += rows
        return ""

    def by_position(self, found: Answer, files: Iterator[OutputFile], cursor: Cursor) -> None:
        """The last rows of the newest file, then those of the one before."""
        self._database.execute("SET preserve_insertion_order = true")
        skip, opened, last = cursor.skip, 0, 0
        for file in files:
            last = file.first
            if file.path is None:
                continue
            if opened == MOST_FILES:
                found.next = _next(cursor, epoch=file.last, skip=skip)
                return
            opened += 1
            name = str(file.path)
            rows = int(
                self._database.execute(
                    "SELECT coalesce(sum(num_rows), 0) FROM parquet_file_metadata($file)", {"file": name}
                ).fetchall()[0][0]
            )
            while skip < rows:
                wanted = self._question.limit - len(found.rows)
                if wanted <= 0:
                    found.next = _next(cursor, epoch=file.last, skip=skip)
                    return
                until = rows - skip
                read = self._database.execute(
                    f"SELECT {self.columns.selected([name])} FROM {SOURCE}"
                    f" LIMIT {min(wanted, until)} OFFSET {max(0, until - wanted)}",
                    {"files": [name]},
                ).fetchall()
                read.reverse()
                taken = self._take(found, read)
                skip += taken
                if taken < len(read):
                    found.next = _next(cursor, epoch=file.last, skip=skip)
                    return
            skip = 0
        found.next = _earlier(cursor, found, last, window=None)

    def _take(self, found: Answer, rows: Sequence[tuple[Any, ...]]) -> int:
        """Put rows into the answer, at least one, until it is large; returns how many."""
        size = sum(len(str(row)) for row in found.rows[:1]) * len(found.rows)
        for taken, row in enumerate(rows):
            if size > MOST_BYTES:
                return taken
            made = self.columns.row(row)
            size += len(str(made))
            found.rows.append(made)
        return len(rows)


def _batches(files: Iterator[OutputFile]) -> Iterator[list[OutputFile]]:
    """More at once each time: most questions need few files, and each query has a cost."""
    size = 8
    while batch := list(islice(files, size)):
        yield batch
        size = min(256, size * 2)


def _next(cursor: Cursor, *, epoch: int, skip: int) -> str:
    return str(Cursor(deployed=cursor.deployed, epoch=epoch, window=cursor.window, skip=skip))


def _earlier(cursor: Cursor, found: Answer, last: int, *, window: int | None) -> str:
    """The cursor of the epochs before those that were looked at; empty if there are none."""
    if last - 1 <= found.removed:
        return ""
    return str(Cursor(deployed=cursor.deployed, epoch=last - 1, window=window))


def _together(one: ResultWindow, other: ResultWindow) -> ResultWindow:
    """A window whose rows are in several files."""
    larger = one if (one.count or 0) >= (other.count or 0) else other
    total = None if one.total is None and other.total is None else (one.total or 0) + (other.total or 0)
    return ResultWindow(
        start=one.start,
        end=one.end,
        rows=one.rows + other.rows,
        total=total,
        key=larger.key,
        count=larger.count,
    )
