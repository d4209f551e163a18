"""Arrivals whose rate changes with time, as a file of counts says it: so many in each step, evenly
spread.

Everything is whole-number arithmetic, so that two readers give each tuple the same microsecond. After the
last step it begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from spark_jobs.sources.csv_files import csv_lines
from spark_jobs.sources.problems import SourceError

SECOND: Final = 1_000_000
LARGEST_COUNT: Final = 10**9
"""In one step."""
MOST_STEPS: Final = 1_000_000
SPEEDUPS: Final = (0.01, 10_000)
_HINT: Final = "Give a CSV file with a header and two columns: a time (ISO 8601), and how many arrive then."


class Counts(msgspec.Struct, frozen=True):
    """What a file of rates holds: how many arrive in each of the steps, which are `step_us` long."""

    step_us: int
    counts: list[int]


counts_decoder: Final = msgspec.json.Decoder(Counts)


class Arrivals:
    """When tuple n arrives: microseconds since the start. counts: at least one is above 0."""

    def __init__(self, counts: Sequence[int], step_us: int) -> None:
        self.step_us = step_us
        self.counts = np.array(counts, dtype=np.int64)
        self.sums = [0, *accumulate(counts)]
        self.total = self.sums[-1]
        self.period = step_us * len(counts)
        self._firsts = np.array(self.sums[:-1], dtype=np.int64)

    def located(
        self, first: int, end: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Of tuples `first` (inclusive) to `end` (exclusive): which pass over the steps it is, the step, and
        the place among those that arrive in this step; all from 0."""
        turns, within = np.divmod(np.arange(first, end, dtype=np.int64), self.total)
        steps = np.searchsorted(self._firsts, within, side="right") - 1
        return turns, steps, within - self._firsts[steps]

    def times(self, first: int, end: int) -> npt.NDArray[np.int64]:
        """When these tuples arrive."""
        turns, steps, places = self.located(first, end)
        return turns * self.period + steps * self.step_us + places * self.step_us // self.counts[steps]

    def time(self, number: int) -> int:
        return int(self.times(number, number + 1)[0])

    def due(self, elapsed_us: int) -> int:
        """How many arrive within so long after the start."""
        turn, rest = divmod(max(0, elapsed_us), self.period)
        step, within = divmod(rest, self.step_us)
        arrived = -(-within * int(self.counts[step]) // self.step_us)
        return turn * self.total + self.sums[step] + arrived


def arrivals_of(counts: Counts, *, speedup: float = 1, rate: int | None = None) -> Arrivals:
    """The arrivals of a file, `speedup` times as fast. With a rate, the file gives their distribution only,
    and on the whole `rate` arrive per second. Raises `SourceError` if nothing would."""
    step_us = max(1, round(counts.step_us / speedup))
    if rate is None:
        return _fitting(counts.counts, step_us)
    wanted = rate * step_us * len(counts.counts) // SECOND
    if not wanted:
        raise SourceError(
            where="source parameter rate",
            what=f"at {rate} per second nothing would arrive in all of the file",
            hint="Give a larger rate, or a smaller speedup.",
        )
    total = sum(counts.counts)
    sums = [0, *(so_far * wanted // total for so_far in accumulate(counts.counts))]
    return _fitting([after - before for before, after in pairwise(sums)], step_us)


def _fitting(counts: Sequence[int], step_us: int) -> Arrivals:
    if max(counts) * step_us >= 2**62:
        raise SourceError(
            where="source parameter arrivals",
            what="its steps are so long, and so many arrive in one, that their times cannot be reckoned",
            hint="Give shorter steps, smaller counts, or a larger speedup.",
        )
    return Arrivals(counts, step_us)


def counts_read(path: Path) -> Counts:
    """A file of rates, checked; raises `SourceError` that names the line."""
    with csv_lines(path, _HINT) as lines:
        return _counts(path, lines)


def _counts(path: Path, rows: Iterable[list[str]]) -> Counts:
    counts: list[int] = []
    times: list[datetime] = []
    step = None
    for number, row in enumerate(rows, start=1):
        where = f"line {number}"
        if number == 1 or not row:
            if number == 1 and len(row) != 2:
                raise _wrong(path, f"{where}, the header, has {len(row)} columns, not two")
            continue
        if len(row) != 2:
            raise _wrong(path, f"{where} has {len(row)} fields, not two")
        times.append(_time(path, where, row[0]))
        counts.append(_count(path, where, row[1]))
        if len(times) > 1:
            gap = times[-1] - times[-2]
            step = step or gap
            if gap != step or gap.total_seconds() <= 0:
                raise _wrong(
                    path, f"{where}: {row[0]!r} comes {gap} after the time before, not {abs(step)}",
                    "Give each step a line, in order; one without arrivals has the count 0.",
                )  # fmt: skip
        if len(counts) > MOST_STEPS:
            raise _wrong(path, f"the file has more than {MOST_STEPS} rows", "Give longer steps.")
    if step is None:
        raise _wrong(path, f"the file has {len(counts) or 'no'} rows; a step's length needs two")
    if not any(counts):
        raise _wrong(path, "all counts are 0, so nothing would ever arrive")
    return Counts(round(step.total_seconds() * SECOND), counts)


def _time(path: Path, where: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise _wrong(path, f"{where}: {text!r:.80} is no time") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _count(path: Path, where: str, text: str) -> int:
    try:
        count = int(text)
    except ValueError as error:
        raise _wrong(path, f"{where}: {text!r:.80} is no whole number") from error
    if count < 0:
        raise _wrong(path, f"{where}: {count} is negative; a rate is 0 or more")
    if count > LARGEST_COUNT:
        raise _wrong(path, f"{where}: {count} is more than {LARGEST_COUNT}")
    return count


def _wrong(path: Path, what: str, hint: str = _HINT) -> SourceError:
    return SourceError(where=str(path), what=what, hint=hint)


def arrivals_problems(params: Mapping[str, Any]) -> list[str]:
    """What is wrong with the parameters `arrivals` and `speedup` of a source."""
    arrivals, speedup = params.get("arrivals"), params.get("speedup")
    found: list[str] = []
    if arrivals is not None and (not isinstance(arrivals, str) or not arrivals):
        found.append(f"arrivals must be the path of a CSV file, not {arrivals!r}")
    if speedup is None:
        return found
    low, high = SPEEDUPS
    number = isinstance(speedup, int | float) and not isinstance(speedup, bool)
    if not (number and low <= speedup <= high):
        found.append(f"speedup must be a number from {low} to {high}, not {speedup!r}")
    if arrivals is None:
        found.append("speedup is of the times in `arrivals`, which is missing")
    return found
