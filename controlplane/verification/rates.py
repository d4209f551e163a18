"""Arrival rates of a file, read again: how many tuples arrive in each step, and so the time of each."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from datetime import datetime, timedelta
from itertools import accumulate
from pathlib import Path

from controlplane.verification.problems import VerificationError

SECOND = 1_000_000


class Rates:
    """counts: how many tuples arrive in each of the steps, evenly spread. After the last it begins anew."""

    def __init__(self, counts: list[int], step_us: int) -> None:
        self.counts = counts
        self.step_us = step_us
        self.total = sum(counts)

    def times(self, number: int) -> str:
        """The first tuples as a query with the columns `n` and `us` (since the start)."""
        numbers = f"(SELECT range AS n FROM range({number}))"  # noqa: S608 - our numbers, also below
        if len(self.counts) == 1:
            return f"SELECT n, (n * {self.step_us}) // {self.total} AS us FROM {numbers}"  # noqa: S608
        firsts = [0, *accumulate(self.counts)]
        # The query is parsed again for each view above it, so later steps would only cost time.
        reached = max(1, number)
        rows = [(s, firsts[s], count) for s, count in enumerate(self.counts) if count and firsts[s] < reached]
        values = ", ".join(f"({step}, {first}, {count})" for step, first, count in rows)
        period = self.step_us * len(self.counts)
        return (
            f"SELECT n, (n // {self.total}) * {period} + s.step::BIGINT * {self.step_us}"  # noqa: S608 - our numbers
            f" + ((n % {self.total} - s.first) * {self.step_us}) // s.size AS us FROM {numbers}"
            f" ASOF JOIN (VALUES {values}) s(step, first, size) ON n % {self.total} >= s.first"
        )

    def time(self, number: int) -> int:
        """Microseconds from the start to the arrival of one tuple."""
        turn, left = divmod(number, self.total)
        for step, count in enumerate(self.counts):
            if left < count:
                return (turn * len(self.counts) + step) * self.step_us + left * self.step_us // count
            left -= count
        raise AssertionError(number)


def rates_read(path: Path, *, speedup: float, rate: int | None) -> Rates:
    """Raises `VerificationError`."""
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.name.lower().endswith(".gz") else content).decode(
            "utf-8-sig"
        )
        rows = [row for row in csv.reader(io.StringIO(text)) if row][1:]
        moments = [datetime.fromisoformat(moment.strip()) for moment, _ in rows]
        counts = [int(count) for _, count in rows]
        step = (moments[1] - moments[0]) // timedelta(microseconds=1)
    except (OSError, EOFError, ValueError, IndexError, csv.Error, zlib.error) as error:
        raise VerificationError(
            where=str(path), what=f"the arrival rates cannot be read: {error}", hint="Put the file back."
        ) from error
    step_us = max(1, round(step / speedup))
    if rate is None:
        return Rates(counts, step_us)
    wanted, total, before, scaled = rate * step_us * len(counts) // SECOND, sum(counts), 0, []
    for so_far in accumulate(counts):
        scaled.append(so_far * wanted // total - before)
        before += scaled[-1]
    return Rates(scaled, step_us)
